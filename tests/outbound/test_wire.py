"""HTTP/1.1 as servers really speak it, whole or broken, over real connections."""

import asyncio
import datetime
import gzip
import ssl
import zlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.outbound import Blocked, Broken, NoConnection, Timeout
from app.outbound.client import Client
from app.outbound.guard import Guard
from app.outbound.wire import Wire
from tests.outbound.conftest import OK, Names, body_of

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n1;ext=1\r\n \r\n6\r\nworld\n\r\n0\r\nTrailer: x\r\n\r\n"
)
UNSIZED = b"HTTP/1.1 200 OK\r\n\r\nhello world\n"


@pytest.fixture
def http(outbound):
    return outbound.http("provider")


async def chunks_of(http, url, idle_timeout=5.0):
    async with http.stream("GET", url, headers={}, idle_timeout=idle_timeout) as response:
        return [chunk async for chunk in response.chunks()]


# --- whole answers --------------------------------------------------------------------------------------------


async def test_a_request_arrives_as_it_was_asked(serve, http):
    server = await serve(OK)
    await body_of(
        http,
        f"{server.url}/v1/x?q=1",
        method="POST",
        headers={"X-Key": "${HOME} {{a}} %(b)s"},
        json={"ä": [1, None]},
    )
    sent = server.exchanges[0]
    assert sent.head.startswith("POST /v1/x?q=1 HTTP/1.1\r\n")
    assert sent.body == '{"ä":[1,null]}'.encode()
    assert sent.header("content-type") == "application/json"
    assert sent.header("accept-encoding") == "identity"
    assert sent.header("x-key") == "${HOME} {{a}} %(b)s"
    assert sent.header("host") == f"127.0.0.1:{server.port}"


async def test_headers_of_an_answer_are_in_lower_case_and_joined(serve, http):
    server = await serve(b"HTTP/1.1 418 Tea\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n")
    async with http.stream("GET", server.url, headers={}, idle_timeout=5) as response:
        assert response.status == 418
        assert response.headers["x-a"] == "1, 2"
        assert await response.read(10) == b""


@pytest.mark.parametrize("cut", range(1, len(CHUNKED)))
async def test_a_chunked_answer_may_be_cut_anywhere(serve, http, cut):
    server = await serve(CHUNKED[:cut], CHUNKED[cut:])
    assert await body_of(http, server.url) == b"hello world\n"
    assert await body_of(http, server.url) == b"hello world\n"
    assert server.connections == 1


async def test_an_answer_may_come_byte_by_byte(serve, http):
    async def trickle(exchange):
        for at in range(len(CHUNKED)):
            await exchange.say(CHUNKED[at : at + 1])
            await asyncio.sleep(0)

    server = await serve(trickle)
    assert await body_of(http, server.url) == b"hello world\n"


async def test_what_came_in_one_read_is_one_chunk(serve, http):
    server = await serve(CHUNKED)
    assert await chunks_of(http, server.url) == [b"hello world\n"]


async def test_a_body_without_a_length_ends_with_its_connection(serve, http):
    async def say(exchange):
        await exchange.say(UNSIZED)
        await exchange.hang_up()

    server = await serve(say)
    assert await body_of(http, server.url) == b"hello world\n"
    assert await body_of(http, server.url) == b"hello world\n"
    assert server.connections == 2


async def test_interim_answers_are_passed_over(serve, http):
    server = await serve(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n", OK)
    async with http.stream("GET", server.url, headers={}, idle_timeout=5) as response:
        assert (response.status, "link" in response.headers) == (200, False)
        assert await response.read(10) == b"ok"


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_has_no_body_ends_with_its_head(serve, http, status):
    server = await serve(b"HTTP/1.1 %d X\r\netag: 1\r\n\r\n" % status)
    assert await body_of(http, server.url) == b""
    assert await body_of(http, server.url) == b""
    assert server.connections == 1


async def test_the_answer_to_head_has_no_body(serve, http):
    server = await serve(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n")
    assert await body_of(http, server.url, method="HEAD") == b""


async def test_http_1_0_is_understood(serve, http):
    async def say(exchange):
        await exchange.say(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await exchange.hang_up()

    server = await serve(say)
    assert await body_of(http, server.url) == b"ok"


async def test_no_more_is_read_than_was_asked_for(serve, http):
    server = await serve(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + b"x" * 100_000)
    async with http.stream("GET", server.url, headers={}, idle_timeout=5) as response:
        assert await response.read(10) == b"x" * 10


async def test_a_slow_reader_holds_its_server_back(serve, http):
    said = 0

    async def flood(exchange):
        nonlocal said
        await exchange.say(b"HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n")
        for _ in range(500):
            await exchange.say(b"x" * 100_000)
            said += 1

    server = await serve(flood)
    async with http.stream("GET", server.url, headers={}, idle_timeout=5) as response:
        before = -1
        while said != before:  # until the server is stuck in `drain`
            before = said
            await asyncio.sleep(0.1)
        assert said < 250
        assert sum([len(chunk) async for chunk in response.chunks()]) == 50_000_000


# --- keeping connections --------------------------------------------------------------------------------------


async def test_one_connection_serves_one_request_after_another(serve, http):
    server = await serve(OK)
    for _ in range(3):
        assert await body_of(http, server.url) == b"ok"
    assert server.connections == 1


async def test_requests_at_once_have_a_connection_each(serve, http):
    together = asyncio.Barrier(3)

    async def say(exchange):
        await together.wait()
        await exchange.say(OK)

    server = await serve(say)
    assert await asyncio.gather(*(body_of(http, server.url) for _ in range(3))) == [b"ok"] * 3
    assert server.connections == 3


async def test_a_connection_is_not_kept_when_its_server_says_so(serve, http):
    server = await serve(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
    await body_of(http, server.url)
    await body_of(http, server.url)
    assert server.connections == 2


async def test_a_connection_with_more_than_one_answer_on_it_is_not_used_again(serve, http):
    """A second answer would be taken for that of the next request."""
    server = await serve(OK + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
    assert await body_of(http, server.url) == b"ok"
    assert await body_of(http, server.url) == b"ok"
    assert server.connections == 2


async def test_an_answer_to_no_request_spoils_its_connection(serve, http):
    server = await serve(OK)
    await body_of(http, server.url)
    await server.exchanges[0].say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
    await server.exchanges[0].gone.wait()
    assert await body_of(http, server.url) == b"ok"
    assert server.connections == 2


async def hang_up_on_the_second_of_a_connection(exchange):
    is_second = hasattr(exchange.writer, "seen")
    exchange.writer.seen = True
    await (exchange.hang_up() if is_second else exchange.say(OK))


async def test_a_request_that_met_a_closing_connection_is_sent_again_to_an_endpoint(serve, outbound):
    server = await serve(hang_up_on_the_second_of_a_connection)
    http = outbound.http("provider")
    for _ in range(2):
        assert await body_of(http, server.url, method="POST", json={}) == b"ok"
    assert (server.connections, len(server.exchanges)) == (2, 3)


async def test_a_tools_post_is_never_sent_twice(serve, going_out):
    server = await serve(hang_up_on_the_second_of_a_connection)
    http = going_out(allowed=[f"127.0.0.1:{server.port}"]).http("tool")
    assert await body_of(http, server.url, method="POST", json={}) == b"ok"
    with pytest.raises(Broken):
        await body_of(http, server.url, method="POST", json={})
    assert len(server.exchanges) == 2


async def test_a_fresh_connection_that_ends_without_an_answer_is_not_tried_again(serve, http):
    async def hang_up(exchange):
        await exchange.hang_up()

    server = await serve(hang_up)
    with pytest.raises(Broken):
        await body_of(http, server.url)
    assert len(server.exchanges) == 1


async def test_leaving_early_closes_the_connection(serve, http):
    async def go_on(exchange):
        await exchange.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")

    server = await serve(go_on)
    async with http.stream("GET", server.url, headers={}, idle_timeout=5) as response:
        async for chunk in response.chunks():
            assert chunk == b"hello"
            break
    await server.exchanges[0].gone.wait()


async def test_cancelling_closes_the_connection(serve, http):
    server = await serve(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello")
    came = asyncio.Event()

    async def read():
        async with http.stream("GET", server.url, headers={}, idle_timeout=5) as response:
            async for _ in response.chunks():
                came.set()

    task = asyncio.ensure_future(read())
    await came.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.exchanges[0].gone.wait()


async def test_no_cookie_is_kept_and_the_environment_is_not_asked(serve, http, monkeypatch):
    server = await serve(OK.replace(b"\r\n\r\n", b"\r\nset-cookie: a=b; path=/\r\n\r\n"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for _ in range(2):
        assert await body_of(http, server.url) == b"ok"
    assert server.exchanges[1].header("cookie") is None


# --- broken answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"
        + b"0\r\n"
        + b"x: y\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n5;" + b"e" * 200_000,
    ],
)
async def test_what_came_before_a_break_is_given_before_it_is_told(serve, http, said):
    async def say(exchange):
        await exchange.say(said)
        await exchange.hang_up()

    server = await serve(say)
    async with http.stream("GET", server.url, headers={}, idle_timeout=5) as response:
        chunks = response.chunks()
        assert await anext(chunks) == b"hello"
        with pytest.raises(Broken):
            await anext(chunks)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01\x02\x00",
        b"<html>",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 20x OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nraw",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000,
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 40_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 4000,
        b"",
    ],
)
async def test_what_is_no_answer_is_broken(serve, http, said):
    async def say(exchange):
        await exchange.say(said)
        await exchange.hang_up()

    server = await serve(say)
    with pytest.raises(Broken):
        await body_of(http, server.url)


async def test_a_reset_is_broken(serve, http):
    async def reset(exchange):
        exchange.writer.transport.abort()

    server = await serve(reset)
    with pytest.raises(Broken):
        await body_of(http, server.url)


async def test_nothing_listening_is_no_connection(serve, http):
    server = await serve(OK)
    await server.stop()
    with pytest.raises(NoConnection):
        await body_of(http, server.url)


async def test_the_next_address_is_tried_where_one_refuses(serve, going_out):
    server = await serve(OK)
    http = going_out(resolve=Names(["127.0.0.2", "::1", "127.0.0.1"])).http("provider")
    assert await body_of(http, f"http://three.invalid:{server.port}/") == b"ok"


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello"]
)
async def test_silence_ends_after_the_time_out(serve, http, said):
    server = await serve(said)
    began = asyncio.get_running_loop().time()
    with pytest.raises(Timeout, match=r"0\.2 s"):
        await chunks_of(http, server.url, idle_timeout=0.2)
    assert 0.15 < asyncio.get_running_loop().time() - began < 2
    await server.exchanges[0].gone.wait()


async def test_the_time_out_is_for_silence_and_not_for_the_whole(serve, http):
    async def drip(exchange):
        await exchange.say(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n")
        for _ in range(8):
            await asyncio.sleep(0.1)
            await exchange.say(b"x")

    server = await serve(drip)
    assert len(b"".join(await chunks_of(http, server.url, idle_timeout=0.4))) == 8


async def test_a_pause_of_the_reader_is_not_the_servers_silence(serve, http):
    server = await serve(CHUNKED)
    async with http.stream("GET", server.url, headers={}, idle_timeout=0.1) as response:
        await asyncio.sleep(0.3)
        assert await response.read(100) == b"hello world\n"


@pytest.mark.parametrize(
    "headers",
    [
        {"x": "a\r\nHost: evil"},
        {"x": "a\nb"},
        {"x": "a\0b"},
        {"x y": "a"},
        {"x:": "a"},
        {"": "a"},
        {"x": "ключ"},
    ],
)
async def test_a_header_cannot_end_its_line(serve, http, headers):
    server = await serve(OK)
    with pytest.raises(Blocked):
        await body_of(http, server.url, headers=headers)
    assert server.exchanges == []


async def test_a_body_with_a_lone_surrogate_is_not_sent(serve, http):
    server = await serve(OK)
    with pytest.raises(Blocked):
        await body_of(http, server.url, method="POST", json={"x": "\ud800"})
    assert server.exchanges == []


# --- encoded answers ------------------------------------------------------------------------------------------


def encoded(encoding: str, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n"
        % (
            encoding.encode(),
            len(body),
        )
        + body
    )


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"hello world\n", mtime=0)),
        ("x-gzip", gzip.compress(b"hello world\n", mtime=0)),
        ("GZIP", gzip.compress(b"hello world\n", mtime=0)),
        ("deflate", zlib.compress(b"hello world\n")),
        ("identity", b"hello world\n"),
    ],
)
async def test_an_encoding_that_was_not_asked_for_is_undone(serve, http, encoding, body):
    server = await serve(encoded(encoding, body))
    assert await body_of(http, server.url) == b"hello world\n"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"x"),
        ("gzip, br", b"x"),
        ("gzip", b"not gzip"),
        ("gzip", gzip.compress(b"hello world\n", mtime=0)[:-9]),
    ],
)
async def test_an_encoding_that_cannot_be_undone_is_broken(serve, http, encoding, body):
    server = await serve(encoded(encoding, body))
    with pytest.raises(Broken):
        await body_of(http, server.url)


async def test_a_few_bytes_never_unpack_to_much_at_once(serve, http):
    server = await serve(encoded("gzip", gzip.compress(b"\0" * 50_000_000, mtime=0)))
    async with http.stream("GET", server.url, headers={}, idle_timeout=5) as response:
        assert max([len(chunk) async for chunk in response.chunks()]) <= 64 * 1024
    async with http.stream("GET", server.url, headers={}, idle_timeout=5) as response:
        assert len(await response.read(1000)) == 1000


# --- TLS ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """(server's context, client's context that trusts it) for the name secure.invalid."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "secure.invalid")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("secure.invalid")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return server, ssl.create_default_context(cafile=folder / "cert.pem")


async def test_tls_is_asked_for_the_name_and_connects_to_the_checked_address(serve, certificate):
    asked = []
    certificate[0].sni_callback = lambda _, name, __: asked.append(name)
    server = await serve(CHUNKED, ssl=certificate[0])
    http = Client(Wire(Guard("provider", Names(["127.0.0.1"])), tls=certificate[1]))
    for _ in range(2):
        assert await body_of(http, f"https://secure.invalid:{server.port}/") == b"hello world\n"
    assert (asked, server.connections) == (["secure.invalid"], 1)
    await http.close()


@pytest.mark.parametrize("host", ["other.invalid", "127.0.0.1"])
async def test_a_certificate_for_another_name_is_no_connection(serve, certificate, host):
    server = await serve(OK, ssl=certificate[0])
    http = Client(Wire(Guard("provider", Names(["127.0.0.1"])), tls=certificate[1]))
    with pytest.raises(NoConnection, match="certificate"):
        await body_of(http, f"https://{host}:{server.port}/")
    assert server.exchanges == []
    await http.close()


async def test_a_certificate_that_nobody_vouches_for_is_no_connection(serve, certificate, going_out):
    server = await serve(OK, ssl=certificate[0])
    http = going_out(resolve=Names(["127.0.0.1"])).http("provider")
    with pytest.raises(NoConnection, match="certificate"):
        await body_of(http, f"https://secure.invalid:{server.port}/")
    assert server.exchanges == []


async def test_a_server_that_speaks_no_tls_is_no_connection(http):
    async def greet(reader, writer):
        writer.write(b"220 ready\r\n")
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        with pytest.raises(NoConnection):
            await body_of(http, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
