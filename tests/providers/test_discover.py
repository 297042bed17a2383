"""Servers of models on this machine are known by what they say, and no page waits for them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from app.outbound import Outbound
from app.providers.discover import USUAL, Discovery, Found, Place, recognise
from app.tasks import Tasks

Start = Callable[..., Awaitable[int]]


@pytest.fixture
async def answering() -> AsyncIterator[Start]:
    """`await answering(bytes, ...)` gives the port of a server that says these bytes to whoever connects."""
    servers: list[asyncio.Server] = []

    async def start(said: bytes, hang: bool = False) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(said)
            await reader.readuntil(b"\r\n\r\n")
            if hang:
                await reader.read()
            writer.close()

        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
        return int(servers[-1].sockets[0].getsockname()[1])

    yield start
    for server in servers:
        server.close()


@pytest.fixture
async def looking() -> AsyncIterator[Callable[..., Discovery]]:
    """`looking(Place, ..., own_port=...)`."""
    outbound, tasks = Outbound(), Tasks("test")

    def make(*places: Place, own_port: int | None = None) -> Discovery:
        if own_port is not None:
            outbound.listens_on(own_port)
        return Discovery(outbound.http("discovery"), tasks, places)

    yield make
    await tasks.close()
    await outbound.close()


def http(body: bytes, status: bytes = b"200 OK", kind: bytes = b"application/json") -> bytes:
    head = b"HTTP/1.1 %s\r\ncontent-type: %s\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    return head % (status, kind, len(body)) + body


def listing(*names: str, owner: str = "me") -> bytes:
    models = [{"id": name, "object": "model", "created": 0, "owned_by": owner} for name in names]
    return json.dumps({"object": "list", "data": models}).encode()


async def settled(discovery: Discovery, count: int) -> tuple[Found, ...]:
    """What is found once there are `count`."""
    async with asyncio.timeout(5):
        while len(found := await discovery.found()) != count:  # noqa: ASYNC110 - as a page does, again and again
            await asyncio.sleep(0.01)
    return found


@pytest.mark.parametrize(
    ("body", "name", "models"),
    [
        (listing("llama3:8b", "qwen3:4b", owner="library"), "Ollama", ("llama3:8b", "qwen3:4b")),
        (b'{"object":"list","data":null}', "Usual", ()),
        (listing("gpt-oss.gguf", owner="llamacpp"), "llama.cpp", ("gpt-oss.gguf",)),
        (listing("Qwen/Qwen3-4B", owner="vllm"), "vLLM", ("Qwen/Qwen3-4B",)),
        (listing("a", owner="organization_owner"), "LM Studio", ("a",)),
        (listing("a", "a", owner="someone"), "Usual", ("a",)),
    ],
)
async def test_a_server_of_models_is_recognised(
    answering: Start, looking: Callable[..., Discovery], body: bytes, name: str, models: tuple[str, ...]
) -> None:
    port = await answering(http(body))
    (found,) = await settled(looking(Place(port, "Usual")), 1)
    assert found == Found(name, f"http://127.0.0.1:{port}/v1", models)


NO_LISTS: list[Any] = [
    {},
    [],
    "list",
    None,
    {"object": "list"},
    {"object": "list", "data": {}},
    {"object": "list", "data": ["gpt"]},
    {"object": "list", "data": [{"id": "a"}]},
    {"object": "list", "data": [{"id": "a", "object": "user", "owned_by": "x"}]},
    {"object": "list", "data": [{"id": 5, "object": "model", "owned_by": "x"}]},
    {"object": "list", "data": [{"id": "", "object": "model", "owned_by": "x"}]},
    {"object": "list", "data": [{"id": "a" * 201, "object": "model", "owned_by": "x"}]},
    {"object": "list", "data": [{"id": "\ud800", "object": "model", "owned_by": "x"}]},
    {"object": "list", "data": [{"id": "a", "object": "model"}]},
    {"data": [{"id": "a", "object": "model", "owned_by": "x"}]},
    {"object": "list", "data": [{"id": "a", "object": "model", "owned_by": "Nightdesk"}]},
    {"items": [{"id": 1}], "total": 1},
]


@pytest.mark.parametrize("answer", NO_LISTS)
def test_no_other_json_is_taken_for_a_list_of_models(answer: Any) -> None:
    assert recognise(Place(1, "Usual"), "u", json.dumps(answer).encode()) is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b"[" * 100_000, b"\xff\xfe", b"NaN"])
def test_no_rubbish_is_taken_for_a_list_of_models(body: bytes) -> None:
    assert recognise(Place(1, "Usual"), "u", body) is None


@pytest.mark.parametrize(
    "said",
    [
        http(listing("a"), kind=b"text/html"),
        http(listing("a"), status=b"401 Unauthorized"),
        http(listing("a"), status=b"404 Not Found"),
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/v1/models\r\ncontent-length: 0\r\n\r\n",
        http(b"<html>It works!</html>", kind=b"text/html"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
    ],
)
async def test_any_other_server_is_passed_over(
    answering: Start, looking: Callable[..., Discovery], said: bytes
) -> None:
    other, ours = await answering(said), await answering(http(listing("a")))
    (found,) = await settled(looking(Place(other, "Other"), Place(ours, "Ours")), 1)
    assert found.name == "Ours"


async def test_our_own_server_is_not_asked(answering: Start, looking: Callable[..., Discovery]) -> None:
    own, other = await answering(http(listing("a"))), await answering(http(listing("b")))
    (found,) = await settled(looking(Place(own, "Own"), Place(other, "Other"), own_port=own), 1)
    assert found.name == "Other"


async def test_nobody_waits_for_a_port_where_nothing_comes(
    answering: Start, looking: Callable[..., Discovery]
) -> None:
    slow, quick = await answering(b"", hang=True), await answering(http(listing("a")))
    discovery = looking(Place(slow, "Slow"), Place(quick, "Quick"))
    clock = asyncio.get_running_loop().time
    began = clock()
    assert await discovery.found() == ()
    assert clock() - began < 0.6
    (found,) = await settled(discovery, 1)
    assert found.name == "Quick"
    assert clock() - began < 3


async def test_ports_where_nothing_listens_are_no_trouble(
    answering: Start, looking: Callable[..., Discovery]
) -> None:
    port = await answering(http(listing("a")))
    closed = [Place(closed, "Closed") for closed in (9, 10, 11)]
    (found,) = await settled(looking(*closed, Place(port, "Here")), 1)
    assert found.name == "Here"


async def test_what_was_found_is_remembered(answering: Start, looking: Callable[..., Discovery]) -> None:
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(http(listing("a")))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        discovery = looking(Place(server.sockets[0].getsockname()[1], "Here"))
        await settled(discovery, 1)
        assert await asyncio.gather(*(discovery.found() for _ in range(20))) == [await discovery.found()] * 20
    assert asked == 1


def test_every_usual_port_is_looked_at_once() -> None:
    assert len({place.port for place in USUAL}) == len(USUAL)
    assert {11434: "Ollama", 8080: "llama.cpp", 1234: "LM Studio", 8000: "vLLM"}.items() <= {
        place.port: place.name for place in USUAL
    }.items()
