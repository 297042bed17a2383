"""Bodies that are read strictly: whatever gets past here can be stored and sent on."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st
from starlette.requests import Request

from app.core.errors import Invalid, TooLong
from app.core.ids import new_id
from app.core.text import is_storable
from app.web.forms import DEEPEST, Fields, form, json_object, query


def request(body: bytes = b"", kind: str = "application/json", query_string: bytes = b"") -> Request:
    sent = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return sent.pop()

    headers = [(b"content-type", kind.encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": headers,
        "query_string": query_string,
        "app": None,
    }
    return Request(scope, receive)


async def refused(body: bytes) -> Invalid:
    with pytest.raises(Invalid) as found:
        await json_object(request(body))
    return found.value


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"not json",
            b"{",
            b'{"a":1}x',
            b"\xff\xfe",
            b"\xef\xbb\xbf{}",
            b"'a'",
            b"{'a':1}",
            b"{a:1}",
            b"//",
        ),
        *(b"[]", b"null", b'"text"', b"1", b"[" * 100_000, b'{"a":' * 100_000, b"text=hello", b'{"a":1,}'),
    ],
)
async def test_what_is_no_json_object_is_refused(body: bytes):
    assert "JSON" in (await refused(body)).person


async def test_a_form_is_no_json():
    with pytest.raises(Invalid, match="form"):
        await json_object(request(b"{}", "application/x-www-form-urlencoded"))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"title":"a\\u0000b"}', "title"),
        (b'{"title":"\\ud800"}', "title"),
        (b'{"title":"\\udc00x"}', "title"),
        (b'{"deep":[{"a":["\\ud83d"]}]}', "deep"),
        (b'{"deep":{"\\u0000":1}}', "deep"),
        (b'{"n":1e999}', "n"),
        (b'{"n":[-1e999]}', "n"),
    ],
)
async def test_what_cannot_be_stored_is_refused_and_its_field_named(body: bytes, field: str):
    assert (await refused(body)).field == field


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":%s}' % (b"9" * 10_000),
        b'{"a":9223372036854775809}',
        b'{"a":1,"a":2}',
    ],
)
async def test_what_others_would_read_otherwise_is_refused(body: bytes):
    await refused(body)


async def test_a_pair_of_surrogates_is_one_character():
    assert (await json_object(request(b'{"a":"\\ud83d\\ude00"}')))["a"] == "😀"


async def test_nesting_has_an_end():
    def nested(depth: int) -> bytes:
        return b'{"a":' + b"[" * depth + b"]" * depth + b"}"

    await json_object(request(nested(DEEPEST - 1)))
    assert (await refused(nested(DEEPEST))).field == "a"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4)
    ),
    max_leaves=20,
)


def is_sound(value: Any) -> bool:
    if isinstance(value, str):
        return is_storable(value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) <= 2**63
    if isinstance(value, dict):
        return all(is_sound(part) for pair in value.items() for part in pair)
    return all(map(is_sound, value)) if isinstance(value, list) else True


@given(st.dictionaries(st.text(st.characters(codec=None)), values, max_size=4))
async def test_sound_json_is_read_as_it_is_and_no_other(value: dict[str, Any]):
    body = json.dumps(value).encode()
    value = json.loads(body)  # two halves side by side have become one character
    if is_sound(value):
        assert dict(await json_object(request(body))) == value
    else:
        await refused(body)


@given(st.binary(max_size=200))
async def test_no_bytes_at_all_make_the_reader_stumble(body: bytes):
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        with suppress(Invalid):
            await (json_object if kind.endswith("json") else form)(request(body, kind))


# --- readers ----------------------------------------------------------------------------------------------


def test_a_reader_takes_only_its_kind_and_names_the_field():
    fields = Fields({"n": 7, "s": "x", "b": True, "l": [], "none": None})
    for read in (
        lambda: fields.text("n"),
        lambda: fields.text("missing"),
        lambda: fields.text("none"),
        lambda: fields.whole("s"),
        lambda: fields.whole("b"),
        lambda: fields.whole("n", least=8),
        lambda: fields.whole("n", most=6),
        lambda: fields.flag("n"),
        lambda: fields.flag("l"),
        lambda: fields.choice("s", ("a", "b")),
        lambda: fields.choice("missing", ("a", "b")),
        lambda: fields.id("s"),
        lambda: fields.optional_id("n"),
    ):
        with pytest.raises(Invalid) as found:
            read()
        assert found.value.field in fields or found.value.field == "missing"


def test_a_reader_gives_what_is_there():
    known = new_id()
    fields = Fields({"n": "-3", "s": " x ", "on": "on", "off": "", "id": known, "empty": "", "none": None})
    assert fields.whole("n", least=-5) == -3
    assert fields.text("s") == " x "
    assert (fields.flag("on"), fields.flag("off"), fields.flag("gone")) == (True, False, False)
    assert fields.id("id") == known
    assert (fields.optional_id("empty"), fields.optional_id("none"), fields.optional_text("none")) == (
        None,
        None,
        None,
    )
    assert fields.choice("gone", ("a", "b"), "b") == "b"


def test_a_text_that_is_too_long_is_named():
    with pytest.raises(TooLong) as found:
        Fields({"s": "xxxx"}).text("s", most=3)
    assert found.value.field == "s"


@pytest.mark.parametrize("extra", ["role", "is_admin", "id", "owner", "password", "created"])
def test_a_field_that_is_nobodys_to_set_is_refused(extra: str):
    with pytest.raises(Invalid) as found:
        Fields({"title": "x", extra: "y"}).only("title", "folder")
    assert found.value.field == extra


async def test_a_form_reads_lines_as_everybody_else_writes_them_and_drops_the_token():
    found = await form(request(b"csrf=secret&text=a%0D%0Ab&text=c", "application/x-www-form-urlencoded"))
    assert dict(found) == {"text": "a\nb"}


@pytest.mark.parametrize("body", [b"text=a%00b", b"a%00b=x", b"text=%ED%A0%80%00"])
async def test_a_form_with_what_cannot_be_stored_is_refused(body: bytes):
    with pytest.raises(Invalid):
        await form(request(body, "application/x-www-form-urlencoded"))


@pytest.mark.parametrize("boundary", ["", "; boundary=", "; boundary=" + "x" * 1000])
async def test_a_broken_form_is_refused(boundary: str):
    with pytest.raises(Invalid) as found:
        await form(request(b"--x\r\nnonsense", "multipart/form-data" + boundary))
    assert found.value.person == "This form could not be read."


def test_an_address_is_read_under_the_same_rules():
    assert dict(query(request(query_string=b"q=a+b&q=c"))) == {"q": "a b"}
    with pytest.raises(Invalid) as found:
        query(request(query_string=b"q=%00"))
    assert found.value.field == "q"
