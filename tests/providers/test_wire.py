"""Every recorded stream comes to what it must, whatever the cuts between the pieces in which it arrives."""

import pickle
import random
from itertools import pairwise

import pytest

from app.providers.chat_decoder import ChatDecoder
from tests.support.wire import Recorded, decode, decoder, outcome, recorded

RECORDED = recorded()
# Its thought was opened by the prompt: what closes it comes after the thought has been shown as text.
NOT_GUESSED = {"synthetic-think-missing-open-tag"}
EVERY_BYTE_UP_TO = 8_000

every_stream = pytest.mark.parametrize("stream", RECORDED, ids=lambda stream: stream.name)


def expected(stream: Recorded) -> dict[str, object]:
    result = {name: value for name, value in stream.expected.items() if name != "extra"}
    result["reasoning"] = " ".join(stream.expected["reasoning"].split())
    result["tool_calls"] = [
        {"name": call["name"], "arguments": call["arguments"]} for call in result["tool_calls"]
    ]
    return result


@every_stream
def test_a_recorded_stream_comes_to_what_it_must(stream):
    if stream.name in NOT_GUESSED:
        assert stream.about["heuristic"]
        assert decode(stream.body)["text"] == "Add.\n</think>\n\n4"
        return
    found, wanted = decode(stream.body), expected(stream)
    if stream.about.get("error_wording_free"):
        assert found.pop("error")
        assert wanted.pop("error")
    assert found == wanted


@every_stream
def test_a_recorded_stream_may_come_byte_by_byte(stream):
    pieces = [stream.body[at : at + 1] for at in range(len(stream.body))]
    assert decode(*pieces) == decode(stream.body)


@every_stream
def test_a_recorded_stream_may_be_cut_anywhere(stream):
    sizes, whole = random.Random(stream.name), decode(stream.body)
    for _ in range(20):
        cuts = sorted(sizes.randrange(len(stream.body) + 1) for _ in range(sizes.randint(1, 60)))
        assert decode(*cut(stream.body, cuts)) == whole
    if cuts := stream.about.get("cut_at"):
        assert decode(*cut(stream.body, cuts)) == whole


@pytest.mark.parametrize(
    "stream",
    [stream for stream in RECORDED if len(stream.body) <= EVERY_BYTE_UP_TO],
    ids=lambda stream: stream.name,
)
def test_a_recorded_stream_may_be_cut_at_every_byte(stream):
    check_every_cut(stream.body)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "stream",
    [stream for stream in RECORDED if len(stream.body) > EVERY_BYTE_UP_TO],
    ids=lambda stream: stream.name,
)
def test_a_long_recorded_stream_may_be_cut_at_every_byte(stream):
    check_every_cut(stream.body)


def cut(body: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *at, len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def check_every_cut(body: bytes) -> None:
    """Cut within each line in turn, from a copy of the decoder as it was before that line.

    After the line everything must be as without the cut: what was given out, and what closing would give.
    Trying the whole stream for each byte would take time that grows with the square of its length.
    """
    before = decoder()
    for line in body.splitlines(keepends=True):
        state = pickle.dumps(before)
        wanted = ending(pickle.loads(state), [line])
        for at in range(1, len(line)) if len(line) < 20_000 else range(1, len(line), 997):
            assert ending(pickle.loads(state), [line[:at], line[at:]]) == wanted, line[:at][-80:]
        before.feed(line)


def ending(reader: ChatDecoder, pieces: list[bytes]) -> dict[str, object]:
    events = [event for piece in pieces for event in reader.feed(piece)]
    return outcome(events + reader.close(), reader.error)
