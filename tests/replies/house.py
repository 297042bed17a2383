"""A house with everything that replies need, on a temporary folder, and a puppet for its model."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.core.errors import NightdeskError, UnknownModel
from app.core.ids import ChatId, EndpointId, MessageId, ModelId, ReplyId, UserId, new_id
from app.core.messages import ToolUsePart, Usage
from app.providers.base import (
    CallSeen,
    Done,
    EndpointConfig,
    FoundModel,
    ProviderEvent,
    ReasoningSeen,
    Request,
    TextSeen,
    UsageSeen,
)
from app.replies.accept import Accepted, Accepting, NewMessage
from app.replies.feed import Bulletin, Generation
from app.replies.finish import Finish
from app.replies.log import Logs
from app.replies.models import Choice
from app.replies.prepare import Preparing
from app.replies.recovery import Recovery
from app.replies.registry import Registry
from app.replies.runner import Runner
from app.replies.settings import ReplySettings
from app.replies.title import Titles
from app.store import endpoints, messages, people, replies
from app.store.engine import Database, Session
from app.store.folder import DataFolder
from app.store.messages import StoredMessage
from app.store.tables import Endpoint, Model, Reply
from app.tasks import Tasks

# Waits that a test sits through are short; those that nothing should wait for are as in the house.
QUICK = ReplySettings(
    drain=0.0,
    status_after=0.02,
    usage_every=60.0,
    flush_every=0.01,
    sync_every=0.02,
    first_wait=0.01,
    storage_wait=0.01,
    stop_grace=0.3,
)


async def until(true: Callable[[], object], seconds: float = 5.0) -> None:
    """Return once `true()` holds; fail after `seconds`."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.002)


class Call:
    """One model call as the test directs it: what was asked, and what it answers next."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.closed = False
        self._next: asyncio.Queue[ProviderEvent | Exception] = asyncio.Queue()

    def say(self, *texts: str) -> "Call":
        return self.give(*map(TextSeen, texts))

    def think(self, *texts: str) -> "Call":
        return self.give(*map(ReasoningSeen, texts))

    def call(self, id: str = "c1", name: str = "weather", arguments: str = "{}") -> "Call":
        return self.give(CallSeen(ToolUsePart(id, name, arguments, {})))

    def count(self, input_tokens: int, output_tokens: int) -> "Call":
        return self.give(UsageSeen(Usage(input_tokens, output_tokens)))

    def end(self, stop_reason: Any = "end_turn") -> "Call":
        return self.give(Done(stop_reason))

    def give(self, *events: ProviderEvent | Exception) -> "Call":
        for event in events:
            self._next.put_nowait(event)
        return self

    async def events(self) -> AsyncIterator[ProviderEvent]:
        try:
            while True:
                event = await self._next.get()
                if isinstance(event, Exception):
                    raise event
                yield event
                if isinstance(event, Done):
                    return
        finally:
            self.closed = True


class Puppet:
    """A provider that says what the test tells it to. Each request becomes a `Call`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.script: list[Callable[[Call], object]] = []

    def stream(self, request: Request) -> AsyncIterator[ProviderEvent]:
        call = Call(request)
        self.calls.append(call)
        if self.script:
            self.script.pop(0)(call)
        return call.events()

    async def models(self) -> list[FoundModel]:
        return [FoundModel("puppet")]

    def will(self, *answers: Callable[[Call], object]) -> None:
        """Answer the next calls so, each as soon as it is asked."""
        self.script.extend(answers)

    async def asked(self, count: int = 1) -> Call:
        """The call number `count`, once it is made."""
        await until(lambda: len(self.calls) >= count)
        return self.calls[count - 1]


def says(text: str) -> Callable[[Call], object]:
    """A whole answer."""
    return lambda call: call.say(text).end()


@dataclass
class PuppetModels:
    """The part of `models.Models` that replies use, with one model."""

    model: Model
    endpoint: Endpoint
    puppet: Puppet
    titles: list[str | Exception] = field(default_factory=list)
    title_model: Model | None = None
    gone: bool = False
    asked: list[str] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.held.set()

    def all(self) -> list[tuple[Endpoint, list[Model]]]:
        return [(self.endpoint, [self.model])]

    def usable(self) -> list[tuple[Model, Endpoint]]:
        return [] if self.gone else [(self.model, self.endpoint)]

    def default(self, role: str = "chat") -> Model | None:
        return None if self.gone else self.model

    def chosen(self, role: str) -> Model | None:
        return self.title_model

    async def choose(self, pick: ModelId | None, role: str = "chat") -> Choice:
        if self.gone or pick not in (None, self.model.id):
            raise UnknownModel("That model is gone.")
        return Choice(self.model, self.endpoint, EndpointConfig(self.endpoint.name, "scripted", ""))

    async def open(self, choice: Choice) -> Puppet:
        await self.held.wait()
        return self.puppet

    async def call(self, role: str, messages: Any, user: UserId, *, chat: ChatId | None = None) -> str:
        self.asked.append(messages[-1].text)
        title = self.titles.pop(0) if self.titles else ""
        if isinstance(title, Exception):
            raise title
        return title


class House:
    """Everything that `main` would build around a reply."""

    def __init__(self, folder: DataFolder, db: Database, tasks: Tasks, models: Any, settings: ReplySettings):
        self.folder, self.db, self.tasks, self.models, self.settings = folder, db, tasks, models, settings
        self.puppet: Puppet = models.puppet
        self.bulletin = Bulletin(settings.person_backlog)
        self.logs = Logs(folder.live, tasks, settings)
        self.finish = Finish(db, tasks, self.bulletin, settings)
        runner = Runner(Preparing(db, models), self.finish, settings)
        titles = Titles(db, tasks, models, self.bulletin)
        self.registry = Registry(db, tasks, self.logs, runner, self.finish, titles, settings)
        self.accepting = Accepting(db, self.registry, models, self.bulletin, settings)
        self.recovery = Recovery(db, tasks, self.logs, self.registry, self.finish, models, settings)
        self.user = UserId("")

    async def start(self, text: str = "Hello", **fields: Any) -> "Talk":
        """A new chat with its first message; its reply runs."""
        key = fields.pop("key", None) or new_id()
        temporary = fields.pop("temporary", False)
        new = NewMessage(text, **fields)
        chat, accepted = await self.accepting.start_chat(self.user, new, key, temporary=temporary)
        return Talk(self, ChatId(chat.id), accepted)

    def live(self, reply: Reply | ReplyId) -> Generation:
        found = self.registry.find(ReplyId(reply if isinstance(reply, str) else reply.id))
        assert found is not None
        return found

    async def ended(self, reply: Reply | ReplyId) -> Generation:
        """The reply's live state, once its outcome is stored and told."""
        live = self.live(reply)
        await until(lambda: live.feed.closed)
        return live

    async def row(self, reply: Reply | ReplyId) -> Reply:
        async with self.db.read() as s:
            row = await replies.get(s, ReplyId(reply if isinstance(reply, str) else reply.id))
        assert row is not None
        return row

    async def written(self, reply: Reply | ReplyId) -> list[StoredMessage]:
        """The messages that a reply has stored."""
        async with self.db.read() as s:
            return await messages.of_reply(s, ReplyId(reply if isinstance(reply, str) else reply.id))


@dataclass
class Talk:
    """A chat under way: its last accepted message, and the verbs of a person in it."""

    house: House
    chat: ChatId
    accepted: Accepted

    @property
    def reply(self) -> ReplyId:
        assert self.accepted.reply is not None
        return ReplyId(self.accepted.reply.id)

    @property
    def input(self) -> MessageId:
        return self.accepted.message.id

    @property
    def live(self) -> Generation:
        return self.house.live(self.reply)

    async def ended(self) -> Generation:
        return await self.house.ended(self.reply)

    async def send(self, text: str, key: str | None = None, **fields: Any) -> Accepted:
        self.accepted = await self.house.accepting.accept(
            self.house.user, self.chat, NewMessage(text, **fields), key or new_id()
        )
        return self.accepted

    async def shows(self, text: str) -> None:
        """Wait until the reply's text is `text`."""
        await until(lambda: self.live.state.text == text)


@asynccontextmanager
async def opened(
    path: Path,
    *,
    settings: ReplySettings = QUICK,
    model: dict[str, Any] | None = None,
    puppet: Puppet | None = None,
) -> AsyncIterator[House]:
    """A house on the folder `path`, with one person and one model, made where they are not there yet."""
    folder, tasks = DataFolder(path), Tasks("test")
    if not folder.database.exists():
        folder.database.write_bytes(await _migrated())
    db = await Database.open(folder, tasks)
    try:
        user, found, endpoint = await db.write(lambda s: _furnish(s, model or {}))
        house = House(folder, db, tasks, PuppetModels(found, endpoint, puppet or Puppet()), settings)
        house.user = user
        yield house
        await house.registry.close(0.0)
    finally:
        await tasks.close()
        await db.close()


_empty: list[bytes] = []


async def _migrated() -> bytes:
    """An empty database at the head of the migrations, made once: a test does not need to see it made."""
    if not _empty:
        with tempfile.TemporaryDirectory() as path:
            folder, tasks = DataFolder(Path(path)), Tasks("template")
            await (await Database.open(folder, tasks)).close()
            _empty.append(folder.database.read_bytes())
    return _empty[0]


async def _furnish(s: Session, fields: dict[str, Any]) -> tuple[UserId, Model, Endpoint]:
    known = await endpoints.all(s)
    if known:
        (person, *_) = await people.users(s)
        return UserId(person.id), known[0][1][0], known[0][0]
    person = await people.add_user(s, name="Anna", name_folded="anna", role="admin")
    endpoint = await endpoints.add(s, name="Puppets", api="scripted", base_url="")
    (model,) = await endpoints.put_models(s, EndpointId(endpoint.id), [FoundModel("puppet", "Puppet")])
    for name, value in fields.items():
        setattr(model, name, value)
    return UserId(person.id), model, endpoint


@asynccontextmanager
async def restarted(house: House, path: Path, **changed: Any) -> AsyncIterator[House]:
    """The house as after `kill -9` at this moment: another one on a copy of what is on disk."""
    shutil.copytree(house.folder.path, path)
    settings = replace(house.settings, **changed)
    async with opened(path, settings=settings) as second:
        await second.recovery.run()
        yield second


async def stranger(house: House) -> UserId:
    """Another person in the same house."""

    async def write(s: Session) -> str:
        return (await people.add_user(s, name="Bert", name_folded=new_id(), role="member")).id

    return UserId(await house.db.write(write))


__all__ = [
    "Call",
    "House",
    "NightdeskError",
    "Puppet",
    "Talk",
    "opened",
    "restarted",
    "says",
    "stranger",
    "until",
]
