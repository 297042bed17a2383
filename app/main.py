"""The one place that builds things: every concrete object, the server around them, and the order of closing.

Nobody imports this module but the command line. Read `opened` from top to bottom to see what stands on what;
closing goes the other way round.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn

from app import commands
from app.accounts.passwords import Passwords
from app.accounts.people import People
from app.accounts.rates import Rates
from app.accounts.sessions import Sessions
from app.accounts.vault import Vault
from app.config import FromEnvironment, Settings
from app.control import CommandFailed, ControlServer
from app.core.errors import NightdeskError
from app.outbound import Outbound
from app.providers.discover import Discovery
from app.providers.local import Local
from app.providers.table import OFFERED, Table
from app.replies.accept import Accepting
from app.replies.endpoints import EndpointSettings
from app.replies.feed import Bulletin
from app.replies.finish import Finish
from app.replies.log import Logs
from app.replies.models import Models
from app.replies.prepare import Preparing
from app.replies.recovery import Recovery
from app.replies.registry import Registry
from app.replies.runner import Runner
from app.replies.settings import ReplySettings
from app.replies.title import Titles
from app.store.engine import Database
from app.store.files import FileStore
from app.store.folder import DataFolder
from app.tasks import Tasks
from app.web.assets import Assets
from app.web.house import House, WebSettings
from app.web.live import Views
from app.web.middleware import printable
from app.web.protocol import DeadlineProtocol
from app.web.render import Render
from app.web.site import site

logger = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parent.parent

# How often expired sessions, old keys and forgotten temporary chats are cleared away, in seconds.
SWEEP_EVERY = 300.0
# How long open streams may take to close once they were told to, in seconds.
STREAMS_CLOSE_IN = 2


@dataclass(frozen=True, slots=True)
class Opened:
    """A house that is ready to serve, and what only its opener needs."""

    house: House
    outbound: Outbound
    recovery: Recovery
    local: Local


@contextlib.asynccontextmanager
async def opened(settings: Settings, folder: DataFolder) -> AsyncIterator[Opened]:
    """Build everything on `folder`, whose lock the caller holds. Raises NightdeskError with a sentence that helps."""
    tasks = Tasks("nightdesk")
    async with contextlib.AsyncExitStack() as closing:
        closing.push_async_callback(tasks.close, grace=2.0)
        db = await Database.open(folder, tasks)
        closing.push_async_callback(db.close)
        vault = await Vault.unlock(db, folder, settings.secret_key)
        rates = Rates(settings.messages_per_minute)
        await rates.restore(db)
        passwords = Passwords()
        sessions = Sessions(db, tasks, passwords, rates)
        people = People(db, folder, sessions, passwords, rates)

        outbound = Outbound()
        closing.push_async_callback(outbound.close)
        local = Local(tasks, idle=settings.local_model_idle, enabled=settings.local_model)
        closing.push_async_callback(local.close)
        models = Models(
            db,
            Table(outbound.http("provider"), local),
            vault,
            tasks,
            embedded=local.models,
            discovery=Discovery(outbound.http("discovery"), tasks),
            settings=EndpointSettings(apis=OFFERED, idle_timeout=settings.idle_timeout),
        )

        reply_settings = ReplySettings(max_text=settings.max_text, drain=settings.drain)
        bulletin = Bulletin(reply_settings.person_backlog)
        finish = Finish(db, tasks, bulletin, reply_settings)
        logs = Logs(folder.live, tasks, reply_settings)
        runner = Runner(Preparing(db, models), finish, reply_settings)
        titles = Titles(db, tasks, models, bulletin)
        registry = Registry(db, tasks, logs, runner, finish, titles, reply_settings)
        accepting = Accepting(db, registry, models, bulletin, reply_settings)
        recovery = Recovery(db, tasks, logs, registry, finish, models, reply_settings)
        people.on_disabled(lambda user: registry.stop_all(user=user))

        files = FileStore(folder.files)
        await asyncio.to_thread(files.tidy)
        render = Render(ROOT / "templates", Assets.load(ROOT / "static"), settings.root_path)
        house = House(
            settings=web_settings(settings),
            folder=folder,
            db=db,
            tasks=tasks,
            sessions=sessions,
            people=people,
            vault=vault,
            rates=rates,
            models=models,
            accepting=accepting,
            registry=registry,
            bulletin=bulletin,
            files=files,
            render=render,
            views=Views(render),
        )
        yield Opened(house, outbound, recovery, local)


def web_settings(settings: Settings) -> WebSettings:
    """What the web needs to know of the settings."""
    return WebSettings(
        root_path=settings.root_path,
        allowed_hosts=settings.allowed_hosts,
        single_user=settings.single_user,
        max_upload=settings.max_upload,
        max_text=settings.max_text,
    )


def serve(settings: Settings, environment: FromEnvironment) -> int:
    """Serve until told to stop; the exit status. Raises CommandFailed where it cannot start."""
    set_up_logging(settings.log_level)
    try:
        folder = DataFolder(settings.data)
        folder.lock()
        listening = listen(settings.host, settings.port)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(settings, environment, folder, listening))
    except NightdeskError as error:
        raise CommandFailed(error.person) from error
    return 0


async def _serve(
    settings: Settings, environment: FromEnvironment, folder: DataFolder, listening: socket.socket
) -> None:
    stopping = _stop_signal()
    async with opened(settings, folder) as ready:
        house = ready.house
        port = listening.getsockname()[1]
        ready.outbound.listens_on(port)
        await house.models.start(environment.openai_api_key, environment.openai_base_url)
        if settings.single_user:
            house.sessions.be_single(await house.people.move_in(house.vault.derive("single-user csrf")))
        await ready.recovery.run()
        control = ControlServer(folder.control, partial(commands.run, house))
        await control.open()
        house.tasks.start("sweep", sweep(house))
        server = Server(_uvicorn(settings, house))
        serving = house.tasks.start("serve", server.serve(sockets=[listening]))
        await _greet(settings, house, port)
        # What was built lives as long as the process: the collector need not look at it again and again, and
        # deltas are many small objects that die young or stay for minutes.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await _close(house, server, serving, control)


async def _close(
    house: House, server: "Server", serving: "asyncio.Task[None]", control: ControlServer
) -> None:
    """Refuse, drain, let followers go, then stop: a stream that is open would keep uvicorn alive."""
    logger.info("stopping: %d replies are running", house.registry.running)
    await house.registry.close()
    house.bulletin.close()
    await control.close()
    server.should_exit = True
    await asyncio.wait({serving})


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: closing has an order of its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _uvicorn(settings: Settings, house: House) -> uvicorn.Config:
    proxies = list(settings.trusted_proxies)
    return uvicorn.Config(
        site(house),
        http=DeadlineProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        timeout_graceful_shutdown=STREAMS_CLOSE_IN,
        log_config=None,
    )


def _stop_signal() -> "asyncio.Future[None]":
    """Done at the first SIGTERM or SIGINT. A second one ends the process at once."""
    loop = asyncio.get_running_loop()
    stopping: asyncio.Future[None] = loop.create_future()

    def stop() -> None:
        if not stopping.done():
            stopping.set_result(None)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopping


async def sweep(house: House) -> None:
    """Clear away what has expired, now and every few minutes."""
    while True:
        try:
            await commands.clear_away(house)
        except NightdeskError as error:
            logger.warning("sweep: %s", error)
        await asyncio.sleep(SWEEP_EVERY)


async def _greet(settings: Settings, house: House, port: int) -> None:
    """Say where Nightdesk is, and how its first administrator comes in."""
    shown = "127.0.0.1" if settings.host in ("0.0.0.0", "::", "localhost") else settings.host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}{settings.root_path}"
    print(f"Nightdesk is at {address}", flush=True)
    if not settings.single_user and (link := await house.people.setup_link(address)):
        print(f"Make the first account here (once, within a day): {link}", flush=True)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises CommandFailed with a sentence that helps."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise CommandFailed(
            f"Port {port} on {host} cannot be used ({error.strerror}). Choose another with --port."
        ) from error
    bound.set_inheritable(False)
    return bound


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:  # no wheel for this platform
        return None
    return uvloop.Loop


class OneLine(logging.Formatter):
    """Escapes control characters of a message, so that no text from outside forges a line or paints the terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)


def set_up_logging(level: str) -> None:
    """One line an event on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    # The libraries' own debug lines hold statements with their values and requests with their headers.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("app").setLevel(level.upper())
