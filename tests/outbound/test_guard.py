"""The ladder of forged requests: each rung is one that a peer's guard was missing."""

from ipaddress import ip_address

import pytest

from app.outbound import Blocked, NoConnection, Outbound, following
from app.outbound.addresses import kind_of
from app.outbound.guard import Guard
from tests.outbound.conftest import OK, Names, body_of

PUBLIC = "93.184.216.34"
PUBLIC_V6 = "2606:2800:220:1:248:1893:25c8:1946"

KINDS = {
    "public": [PUBLIC, PUBLIC_V6, "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "198.20.0.1"],
    "loopback": ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::127.0.0.1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd12::1", "fec0::1"],
    "shared": ["100.64.0.1", "100.127.255.255"],
    "link-local": ["169.254.0.1", "169.254.170.2", "fe80::1", "fe80::1%lo"],
    "metadata": [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
    ],
    "multicast": ["224.0.0.1", "239.255.255.250", "ff02::1", "ff0e::1"],
    "benchmark": ["198.18.0.1", "198.19.255.255", "2001:2::1"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::"],
    "reserved": [
        "192.0.0.1",
        "192.88.99.1",
        "240.0.0.1",
        "255.255.255.255",
        "100::1",
        "2001:10::1",
        "4000::1",
    ],
}


@pytest.mark.parametrize(
    ("address", "kind"), [(address, kind) for kind, addresses in KINDS.items() for address in addresses]
)
def test_an_address_is_of_its_kind(address, kind):
    assert kind_of(ip_address(address)) == kind


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::808:808", "public"),
        ("64:ff9b:1::808:808", "private"),
        ("2002:7f00:1::", "loopback"),
        ("2002:c0a8:101::1", "private"),
        ("2002:808:808::1", "public"),
        ("::ffff:10.0.0.1", "private"),
        ("::10.0.0.1", "private"),
        ("::ffff:8.8.8.8", "public"),
        # Teredo: the server's address, then the client's with every bit turned.
        ("2001:0:808:808:0:0:80ff:fffe", "loopback"),
        ("2001:0:7f00:1:0:0:f7f7:f7f7", "loopback"),
        ("2001:0:808:808:0:0:f7f7:f7f7", "public"),
    ],
)
def test_an_address_that_carries_an_ipv4_one_is_of_its_kind(address, kind):
    assert kind_of(ip_address(address)) == kind


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "public"])
async def test_a_tool_reaches_no_address_but_a_public_one(kind):
    for address in KINDS[kind]:
        with pytest.raises(Blocked, match=kind):
            await Guard("tool").admit(address, 80)


async def test_a_tool_reaches_a_public_address():
    assert await Guard("tool").admit(PUBLIC, 443) == [ip_address(PUBLIC)]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_endpoint_may_be_at_home_but_is_never_a_clouds_metadata(kind):
    guard = Guard("provider")
    for address in KINDS[kind]:
        if kind in ("public", "loopback", "private", "shared"):
            assert await guard.admit(address, 11434) == [ip_address(address)]
        else:
            with pytest.raises(Blocked, match=kind):
                await guard.admit(address, 11434)


@pytest.mark.parametrize("address", ["10.0.0.1", PUBLIC, "::ffff:10.0.0.1", "0.0.0.0", "fd00::1"])
async def test_discovery_stays_on_this_machine(address):
    with pytest.raises(Blocked):
        await Guard("discovery").admit(address, 11434)


@pytest.mark.parametrize(
    "answer", [["127.0.0.1"], ["10.0.0.1"], ["::1"], [PUBLIC, "10.0.0.1"], ["fe80::1", PUBLIC]]
)
async def test_what_a_name_resolves_to_is_checked_and_all_of_it(answer):
    with pytest.raises(Blocked):
        await Guard("tool", Names(answer)).admit("ok.test", 80)


async def test_a_name_is_looked_up_once_and_that_answer_is_connected_to():
    names = Names([PUBLIC, PUBLIC_V6], ["127.0.0.1"])
    assert await Guard("tool", names).admit("OK.test.", 80) == [ip_address(PUBLIC), ip_address(PUBLIC_V6)]
    assert names.asked == [("ok.test", 80)]


@pytest.mark.parametrize("answer", [[], OSError("no such host"), UnicodeError("label too long")])
async def test_a_name_without_an_address_is_no_connection(answer):
    async def resolve(host, port):
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(NoConnection):
        await Guard("provider", resolve).admit("nowhere.test", 80)


@pytest.mark.parametrize("port", [22, 25, 6379, 8080])
async def test_a_tool_uses_the_ports_of_the_web_alone(port):
    with pytest.raises(Blocked, match="port"):
        await Guard("tool").admit(PUBLIC, port)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("evilgood.test", 8443),
        ("good.test.evil.test", 8443),
        ("good.test", 8444),
        ("good.test", 80),
        ("xgood.test", 8443),
        ("10.0.0.1", 8443),
    ],
)
async def test_an_exception_is_for_one_host_and_port_and_for_nothing_like_it(host, port):
    guard = Guard("tool", Names(["10.0.0.1"]), {("good.test", 8443)})
    assert await guard.admit("Good.test.", 8443) == [ip_address("10.0.0.1")]
    with pytest.raises(Blocked):
        await guard.admit(host, port)


async def test_no_exception_opens_a_clouds_metadata():
    guard = Guard("tool", Names(["169.254.169.254"]), {("good.test", 80), ("169.254.169.254", 80)})
    for host in ("good.test", "169.254.169.254"):
        with pytest.raises(Blocked, match="metadata"):
            await guard.admit(host, 80)


@pytest.mark.parametrize(
    "entry", ["good.test", "good.test:x", "http://good.test:80", "a@good.test:80", "good.test:80/x"]
)
def test_an_exception_that_is_no_host_and_port_is_refused(entry):
    with pytest.raises(ValueError, match=r"host:port|[Pp]ort"):
        Outbound(allowed=[entry])


# --- with a server that must not be reached -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
async def test_a_tool_does_not_reach_this_machine(serve, outbound, method):
    server = await serve(OK)
    for host in (
        "127.0.0.1",
        "localhost",
        "[::ffff:127.0.0.1]",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "127.1",
    ):
        with pytest.raises((Blocked, NoConnection)):
            await body_of(outbound.http("tool"), f"http://{host}:{server.port}/", method=method)
    assert server.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}\\@ok.test/",
        "http://ok.test#@127.0.0.1:{port}/",
        "http://ok.test:80@127.0.0.1:{port}/",
        "http://ok.test@127.0.0.1:{port}/",
        "http://0x7f.1:{port}/",
        "http://0x7f000001:{port}/",
        "http://2130706433:{port}/",
        "http://017700000001:{port}/",
        "http://127.1:{port}/",
        "http://127.0.1:{port}/",
        "http://１２７.０.０.１:{port}/",
        "http://127。0。0。1:{port}/",
        "http://127.0.0.1.:{port}/",
        "http://localhost.:{port}/",
        "http://127.0.0.1%2f:{port}/",
        "http://127.0.0.1%00.ok.test:{port}/",
        "http://ok.test\r\nHost: 127.0.0.1:{port}/",
        "http://ok.test\t.127.0.0.1:{port}/",
        "http://ok.test 127.0.0.1:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:7f00:1]:{port}/",
        "http://[::1%25lo]:{port}/",
        "http:///127.0.0.1:{port}/",
        "http:127.0.0.1:{port}/",
        "//127.0.0.1:{port}/",
        "http://127.0.0.1:{port}:80/",
        "http://:{port}/",
        "http://",
        "",
    ],
)
async def test_no_spelling_of_an_address_gets_past_the_guard(serve, going_out, url):
    server = await serve(OK)
    names = Names(["127.0.0.1"])
    for out in (going_out(), going_out(resolve=names)):
        with pytest.raises((Blocked, NoConnection)):
            await body_of(out.http("tool"), url.format(port=server.port))
    assert server.connections == 0


@pytest.mark.parametrize("scheme", ["file", "gopher", "ftp", "unix", "ws", "javascript", "data", "httpx"])
@pytest.mark.parametrize("reach", ["provider", "tool", "discovery"])
async def test_only_http_and_https_go_out(serve, outbound, scheme, reach):
    server = await serve(OK)
    with pytest.raises(Blocked):
        await body_of(outbound.http(reach), f"{scheme}://127.0.0.1:{server.port}/etc/passwd")
    assert server.connections == 0


async def test_a_name_in_an_address_is_refused_for_everybody(serve, outbound):
    server = await serve(OK)
    with pytest.raises(Blocked, match="password"):
        await body_of(outbound.http("provider"), f"http://me:secret@127.0.0.1:{server.port}/")
    assert server.connections == 0


async def test_a_second_connection_is_checked_anew(serve, going_out):
    """DNS rebinding: the name is at home first, and at a cloud's metadata once the guard has let it pass."""
    server = await serve(OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    http = going_out(resolve=names).http("provider")
    assert await body_of(http, f"http://rebind.invalid:{server.port}/") == b"ok"
    with pytest.raises(Blocked, match="metadata"):
        await body_of(http, f"http://rebind.invalid:{server.port}/")
    assert len(names.asked) == 2
    assert server.connections == 1


async def test_the_connection_goes_to_what_was_checked_with_the_name_that_was_asked_for(serve, going_out):
    """No such name exists, so a second look-up by any layer below would fail."""
    server = await serve(OK)
    http = going_out(resolve=Names(["127.0.0.1"])).http("provider")
    assert await body_of(http, f"http://Ollama.invalid:{server.port}/v1/models?a=1") == b"ok"
    assert server.exchanges[0].head.startswith("GET /v1/models?a=1 HTTP/1.1\r\n")
    assert server.exchanges[0].header("host") == f"ollama.invalid:{server.port}"


async def test_our_own_port_is_reached_by_nobody(serve, going_out):
    server = await serve(OK)
    allowed, names = [f"127.0.0.1:{server.port}"], Names(["127.0.0.1"])
    before, out = going_out(allowed=allowed, resolve=names), going_out(allowed=allowed, resolve=names)
    assert await body_of(before.http("tool"), server.url) == b"ok"
    out.listens_on(server.port)
    hosts = ("127.0.0.1", "127.8.8.8", "our.test", "[::1]", "[::ffff:127.0.0.1]")
    for reach in ("provider", "tool", "discovery"):
        for host in hosts:
            with pytest.raises(Blocked):
                await body_of(out.http(reach), f"http://{host}:{server.port}/")
    assert len(server.exchanges) == 1


async def test_our_port_on_another_machine_is_somebody_elses():
    guard = Guard("provider", own_ports={8787})
    assert await guard.admit("10.255.255.1", 8787) == [ip_address("10.255.255.1")]


# --- redirects ------------------------------------------------------------------------------------------------


def moved(status: int, where: str) -> bytes:
    return b"HTTP/1.1 %d Moved\r\nlocation: %s\r\ncontent-length: 0\r\n\r\n" % (status, where.encode())


async def followed(http, url, headers=None):
    async with following(http, url, headers=headers or {}, idle_timeout=5) as (last, response):
        return last, await response.read(100)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest", "http://127.0.0.1:{port}/", "file:///etc/passwd"]
)
async def test_a_redirect_is_checked_like_any_address(serve, going_out, status, target):
    secret = await serve(OK)
    server = await serve(moved(status, target.format(port=secret.port)))
    out = going_out(allowed=[f"ok.test:{server.port}"], resolve=Names(["127.0.0.1"]))
    with pytest.raises(Blocked):
        await followed(out.http("tool"), f"http://ok.test:{server.port}/")
    assert secret.connections == 0


async def test_a_redirect_is_not_followed_unasked(serve, outbound):
    target = await serve(OK)
    server = await serve(moved(302, target.url))
    async with outbound.http("provider").stream("GET", server.url, headers={}, idle_timeout=5) as response:
        assert (response.status, response.headers["location"]) == (302, target.url)
    assert target.connections == 0


async def test_three_redirects_are_followed_and_a_fourth_is_not(serve, outbound):
    async def chain(exchange):
        left = int(exchange.head.split(" ")[1].strip("/"))
        await exchange.say(moved(302, f"/{left - 1}") if left else OK)

    server = await serve(chain)
    http = outbound.http("provider")
    assert await followed(http, f"{server.url}/3") == (f"{server.url}/0", b"ok")
    with pytest.raises(Blocked, match="redirects"):
        await followed(http, f"{server.url}/4")


async def test_no_credentials_go_to_another_origin(serve, outbound):
    headers = {"Authorization": "Bearer k", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/html"}
    other = await serve(OK)
    server = await serve(moved(307, f"{other.url}/there"))
    await followed(outbound.http("provider"), server.url, headers)
    assert server.exchanges[0].header("authorization") == "Bearer k"
    sent = other.exchanges[0]
    assert sent.header("accept") == "text/html"
    assert [sent.header(name) for name in ("authorization", "cookie", "x-api-key")] == [None] * 3


async def test_credentials_stay_within_their_origin(serve, outbound):
    async def once(exchange):
        await exchange.say(moved(301, "/b") if exchange.head.startswith("GET /a") else OK)

    server = await serve(once)
    await followed(outbound.http("provider"), f"{server.url}/a", {"authorization": "Bearer k"})
    assert server.exchanges[1].header("authorization") == "Bearer k"
