import pytest

from app.core.errors import Invalid
from app.core.urls import endpoint_url, origin_of


@pytest.mark.parametrize(
    ("typed", "kept", "origin"),
    [
        ("https://API.openai.com/v1/", "https://api.openai.com/v1", "https://api.openai.com:443"),
        (" http://localhost:11434 ", "http://localhost:11434", "http://localhost:11434"),
        ("HTTPS://x.test:443/v1", "https://x.test/v1", "https://x.test:443"),
        ("http://x.test:0080", "http://x.test", "http://x.test:80"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1", "http://[::1]:8080"),
        ("https://x.test/v1/chat/completions", "https://x.test/v1", "https://x.test:443"),
        ("https://x.test/v1/models/", "https://x.test/v1", "https://x.test:443"),
        ("https://x.test/Deep/Path~1/v1", "https://x.test/Deep/Path~1/v1", "https://x.test:443"),
    ],
)
def test_an_address_has_one_spelling_and_one_origin(typed: str, kept: str, origin: str) -> None:
    assert endpoint_url(typed) == kept
    assert endpoint_url(kept) == kept
    assert origin_of(kept) == origin


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "x.test",
        "x.test/v1",
        "ftp://x.test",
        "javascript:alert(1)",
        "https://",
        "https:///v1",
        "https://user:key@x.test/v1",
        "https://x.test/v1?key=1",
        "https://x.test/v1#a",
        "http://127.0.0.1\\@x.test/",
        "https://x.test/../admin",
        "https://x.test/%2e%2e/admin",
        "https://x.test/a//b",
        "https://x.test:0/",
        "https://x.test:65536/",
        "https://x.test:99999999/",
        "https://x .test/",
        "https://x.test/a b",
        "https://x.test\r\nHost: y",
        "https://ｘ.test/",
        "https://bücher.test/",
        "https://-x.test/",
        "https://x.test/" + "a" * 500,
    ],
)
def test_what_could_be_read_in_two_ways_is_no_address(typed: str) -> None:
    with pytest.raises(Invalid) as caught:
        endpoint_url(typed)
    assert caught.value.field == "base_url"


@pytest.mark.parametrize("text", ["", "local:smollm2", "script:hello", "https://x.test/?a"])
def test_what_is_no_address_has_no_origin(text: str) -> None:
    assert origin_of(text) == ""
