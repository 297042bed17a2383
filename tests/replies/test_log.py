"""The log on disk: what is in it when, and that folding it gives the live state."""

import errno
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as some

from app.core.errors import Overloaded
from app.core.events import (
    Entry,
    ErrorRaised,
    Event,
    Finished,
    ReasoningDelta,
    RoundBegan,
    RoundEnded,
    Started,
    TextDelta,
    ToolCalled,
    ToolResulted,
    UsageReported,
    Warned,
)
from app.core.ids import ChatId, MessageId, ReplyId, RunId, UserId
from app.core.state import ReplyState
from app.replies.ended import folded
from app.replies.feed import Generation
from app.replies.log import Logs, _line, _records, joined, spread
from app.store import events
from app.tasks import Tasks
from tests.replies.house import QUICK, Call, House, says, until

REPLY, CHAT, RUN = ReplyId("reply"), ChatId("chat"), RunId("run")

texts = some.text(
    some.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=20
)
deltas = some.builds(TextDelta, texts) | some.builds(ReasoningDelta, texts)
others = (
    some.builds(Started, texts, texts)
    | some.builds(Warned, some.just("code"), texts)
    | some.builds(
        UsageReported,
        *[some.integers(0, 9999)] * 7,
        estimated=some.booleans(),
        cost=some.none() | some.floats(0, 10),
    )
)


@some.composite
def rounds(draw: some.DrawFn) -> list[Event]:
    """What one round may emit: deltas, calls with results, an end or none."""
    events: list[Event] = [RoundBegan(MessageId(draw(some.uuids()).hex))]
    events += draw(some.lists(deltas | others, max_size=12))
    calls = draw(some.lists(some.uuids(), max_size=2, unique=True))
    for call in calls:
        events.append(ToolCalled(call.hex, "tool", draw(some.none() | some.just({"a": [1]})), "Tool", "{}"))
    if draw(some.booleans()):
        events.append(RoundEnded(draw(some.sampled_from(["end_turn", "tool_use", None]))))
        events += [ToolResulted(call.hex, "ok", draw(texts), 5) for call in calls]
    return events


@some.composite
def runs(draw: some.DrawFn) -> list[Event]:
    """Everything that one run of a reply may emit."""
    events: list[Event] = []
    events += draw(some.lists(others, max_size=3))
    for round in draw(some.lists(rounds(), max_size=4)):
        events += round
    if draw(some.booleans()):
        events.append(ErrorRaised("It broke.", "broken", ("retry",)))
        events.append(Finished("failed", "error", None, None))
    return events


class Ticks:
    """A journal that keeps entries in memory."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)


def emitted(events: list[Event]) -> Generation:
    live = Generation(REPLY, CHAT, UserId("anna"), RUN, Ticks())
    for event in events:
        live.emit(event)
    return live


def plain(state: ReplyState) -> ReplyState:
    """With deltas joined: how they were cut is not part of what must be the same."""
    for round in state.rounds:
        for segment in round.segments:
            getattr(segment, "text", None)
    return state


@given(runs())
def test_the_state_folded_from_the_log_is_the_live_state(events: list[Event]):
    live = emitted(events)
    lines = b"".join(_line(record) for record in joined(live.feed.entries))
    entries = list(spread(_records(lines)))
    assert plain(folded(REPLY, CHAT, RUN, entries)) == plain(live.state)


@given(runs())
def test_joined_deltas_come_apart_exactly_where_they_were_cut(events: list[Event]):
    live = emitted(events)
    back = list(spread(joined(live.feed.entries)))
    assert [(e.seq, e.round, e.event) for e in back] == [(e.seq, e.round, e.event) for e in live.feed.entries]


@given(runs(), some.data())
def test_a_log_that_was_torn_gives_all_whole_lines_before_the_tear(
    events: list[Event], data: some.DataObject
):
    live = emitted(events)
    lines = [_line(record) for record in joined(live.feed.entries)]
    whole = b"".join(lines)
    cut = data.draw(some.integers(0, len(whole)))
    entries = list(spread(_records(whole[:cut])))
    assert [e.event for e in entries] == [e.event for e in live.feed.entries[: len(entries)]]
    rows = [record.seq for record in _records(whole[:cut])]
    assert len(rows) == whole[:cut].count(b"\n")


@pytest.mark.parametrize(
    "rubbish", [b"{}\n", b"nonsense\n", b'[7,7,1,0,"text",{"text":"a"},null]\n', b"\xff\xfe\n"]
)
def test_rubbish_ends_a_log(rubbish: bytes):
    good = b'[1,1,1,0,"status",{"text":"a"},null]\n'
    assert len(list(_records(good + rubbish + good))) == 1


async def test_the_first_delta_is_on_disk_before_it_is_shown(house: House):
    talk = await house.start()
    (await house.puppet.asked()).say("Hel")
    seen: list[str] = []
    live = talk.live
    live.feed.watch(lambda: seen.append(house.logs.read(talk.reply, live.run)[-1].event.type))
    await talk.shows("Hel")
    assert seen[0] == "text"


async def test_later_deltas_are_on_disk_a_quarter_second_later(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    call.say("a")
    await talk.shows("a")
    call.say("b", "c", "d")
    await talk.shows("abcd")
    live = talk.live
    await until(lambda: len(house.logs.read(talk.reply, live.run)) == len(live.feed.entries))
    (path,) = house.logs.names()
    last = json.loads(path.read_bytes().splitlines()[-1])
    assert (last[4], last[5], last[6]) == ("text", {"text": "bcd"}, [1, 1, 1])


async def test_a_quiet_house_writes_nothing_and_has_no_timer(house: House):
    house.puppet.will(says("Hi"))
    talk = await house.start()
    await talk.ended()
    await until(lambda: house.logs._flusher is None or house.logs._flusher.done())
    assert not house.logs._dirty
    assert not house.logs._unsynced


async def test_a_full_disk_does_not_end_a_reply(tmp_path: Path, caplog):
    """The disk is full from the first line on and has space again later: nothing of the log is missing then."""
    tasks = Tasks("test")
    logs = Logs(tmp_path / "live", tasks, QUICK)
    warned: list[OSError] = []
    log = logs.open(REPLY, RUN, warned.append)
    live = Generation(REPLY, CHAT, UserId("anna"), RUN, log)
    live.emit(RoundBegan(MessageId("m")))
    live.emit(TextDelta("a"))  # the folder is not there: the same to us as a full disk
    await until(lambda: warned)
    live.emit(TextDelta("b"))
    assert log.fault is not None
    assert live.state.text == "ab"
    (tmp_path / "live").mkdir()
    await until(lambda: len(logs.read(REPLY, RUN)) == 3)
    await until(lambda: log.fault is None)
    assert len(warned) == 1
    log.close(keep=True)
    await logs.close()
    await tasks.close()


async def test_a_half_written_line_is_finished_and_not_begun_again(tmp_path: Path):
    """A disk that takes a part of a line leaves the log whole once it takes the rest."""
    tasks = Tasks("test")
    logs = Logs(tmp_path, tasks, QUICK)
    log = logs.open(REPLY, RUN, lambda _: None)
    live = Generation(REPLY, CHAT, UserId("anna"), RUN, log)
    live.emit(RoundBegan(MessageId("m1")))
    with largest_file(1000):
        live.emit(TextDelta("y" * 2000))
        assert log.fault is not None
        assert log.fault.errno == errno.EFBIG
        assert log.path.stat().st_size == 1000
        live.emit(TextDelta("z"))
    await until(lambda: len(logs.read(REPLY, RUN)) == 3)
    assert [e.event for e in logs.read(REPLY, RUN)] == [e.event for e in live.feed.entries]
    log.close(keep=True)
    await logs.close()
    await tasks.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes: a write takes what fits, the next one fails."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


async def test_a_person_is_told_when_the_log_cannot_be_written(house: House):
    house.logs.folder = house.folder.path / "gone"
    talk = await house.start()
    call = await house.puppet.asked()
    call.say("a")
    await talk.shows("a")
    await until(lambda: talk.live.state.warnings)
    call.say("b").end()
    state = (await talk.ended()).state
    assert (state.phase, state.text) == ("complete", "ab")
    assert [warning.code for warning in state.warnings] == ["storage"]


async def test_a_long_reply_is_stored_in_small_rows(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    for _ in range(3000):
        call.say("some words, ")
    call.end()
    live = await talk.ended()
    records = list(joined(live.feed.entries))
    assert max(len(json.dumps(record.data)) for record in records) < 32 * 1024
    assert [e.event for e in spread(records)] == [e.event for e in live.feed.entries]


async def test_whole_runs_fold_to_the_live_state_whatever_the_model_does(house: House):
    """Random answers with random ends, some stopped in their middle: the stored log tells what was seen live."""
    dice = Random(11)
    for _ in range(40):
        count = len(house.puppet.calls)
        house.puppet.will(*[lambda call: answer(call, dice)] * 3)
        talk = await house.start()
        await house.puppet.asked(count + 1)
        if dice.random() < 0.3:
            await house.registry.stop(talk.reply)
        live = await talk.ended()
        house.puppet.script.clear()
        async with house.db.read() as s:
            run, records = await events.read(s, talk.reply)
        assert run == live.run
        entries = list(spread(records))
        assert [(e.seq, e.event) for e in entries] == [(e.seq, e.event) for e in live.feed.entries]
        assert plain(folded(live.reply, live.chat, live.run, entries)) == plain(live.state)


def answer(call: Call, dice: Random) -> None:
    for _ in range(dice.randint(0, 6)):
        dice.choice([call.say, call.think])("x" * dice.randint(0, 9))
    if dice.random() < 0.4:
        call.call(f"c{dice.randint(0, 10**9)}")
    if dice.random() < 0.5:
        call.count(dice.randint(1, 99), dice.randint(1, 99))
    if dice.random() < 0.2:
        call.give(Overloaded("Busy."))
    call.end(dice.choice(["end_turn", "tool_use", "max_tokens", "refusal", "error", None]))
