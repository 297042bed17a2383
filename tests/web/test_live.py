"""Frames: what pages that follow a reply are sent, and that it adds up to the page drawn fresh."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from app.core.events import (
    Finished,
    ReasoningDelta,
    RoundEnded,
    Status,
    TextDelta,
    ToolCalled,
    ToolResulted,
)
from app.core.text import utf16_length
from app.web.draft import draft_of
from app.web.live import common_start
from app.web.markdown import render
from app.web.segments import segments
from app.web.splitter import JOINS
from tests.support.desk import Desk, desk
from tests.support.documents import AWKWARD
from tests.support.following import parsed
from tests.support.writing import Reply


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path / "data") as made:
        yield made


@pytest.fixture
def reply(here: Desk) -> Reply:
    return Reply(here)


async def test_a_page_after_every_frame_equals_the_page_drawn_fresh(here: Desk) -> None:
    for name, text in AWKWARD.items():
        reply, pieces, at = Reply(here), random.Random(name), 0
        sitting = await reply.seat()
        while at < len(text):
            # A long one in larger pieces: each comparison reads all of it.
            size = pieces.choice([1, 3, 7, 40]) * (1 + len(text) // 2_000)
            reply.emit(TextDelta(text[at : at + size]))
            at += size
            if pieces.random() < 0.5:
                sitting.catch_up()
                assert sitting.shown == reply.fresh, name
        reply.emit(RoundEnded("end_turn"))
        sitting.catch_up()
        assert sitting.shown == reply.fresh, name
        assert list(sitting.shown.values()) == ([render(text)] if text else []), name


async def test_one_who_was_away_for_a_while_is_brought_up_to_date(reply: Reply) -> None:
    always, away = await reply.seat(), await reply.seat()
    for text in AWKWARD["deep lists"], "\n\n", AWKWARD["tables"], "\n\nEnd.\n\n- x\n- y":
        reply.say(text)
        always.catch_up()
    away.take(away.seat.take())
    assert away.shown == always.shown == reply.fresh
    reply.say("z")
    assert [event.type for event in away.catch_up()] == ["tail"]


async def test_a_page_goes_on_from_what_it_shows(reply: Reply) -> None:
    reply.say("one\n\ntwo\n\n- a\n- b")
    first = await reply.seat()
    page, seq = first.page, reply.generation.state.seq
    first.seat.leave()
    reply.say("\n- c\n\nthree\n\nfour")
    again = reply.desk.house.views.follow(reply.desk.house, reply.generation, reply._wake)
    for event in parsed(await again.begin(reply.generation.run, seq)):
        assert event.type != "sync"
        page.take(event)
    assert {id: segment.html for id, segment in page.segments.items()} == reply.fresh


async def test_a_page_that_was_drawn_a_moment_ago_gets_what_came_since_and_nothing_twice(
    reply: Reply,
) -> None:
    follower = await reply.seat()
    reply.say("one\n\ntwo\n\nthr")
    drawn, seq = reply.fresh, reply.generation.state.seq
    assert drawn
    reply.say("ee\n\nfour\n\nfi")
    late = reply.desk.house.views.follow(reply.desk.house, reply.generation, reply._wake)
    types = [event.type for event in parsed(await late.begin(reply.generation.run, seq))]
    assert types == ["block", "block", "tail", "fragment"]
    follower.catch_up()
    assert follower.shown == reply.fresh


async def test_the_same_bytes_serve_everybody_who_keeps_up(reply: Reply) -> None:
    one, two = await reply.seat(), await reply.seat()
    reply.say("Some words.\n\nMore")
    reply.generation.emit(TextDelta(" of them"))
    one.seat.live.refresh()
    assert one.seat.take() is two.seat.take()


async def test_a_block_is_sent_once(reply: Reply) -> None:
    sitting = await reply.seat()
    sent = sitting.bytes
    word = "lengthy"
    for _ in range(200):
        reply.say(f"{word} ")
        sitting.catch_up()
    reply.say("\n\nend\n")
    (block, _) = sitting.catch_up()
    assert block.type == "block"
    assert block.data["rest"] in ("", "</p>")
    assert sitting.bytes - sent < 200 * 90


async def test_with_nobody_there_nothing_is_drawn(reply: Reply) -> None:
    views = reply.desk.house.views
    reply.say("one\n\ntwo\n\n")
    assert views.followed == 0
    sitting = await reply.seat()
    assert views.followed == 1
    sitting.seat.leave()
    assert views.followed == 0
    drawn = len(sitting.seat.live.draft.log)
    reply.say("three\n\nfour\n\n")
    assert len(sitting.seat.live.draft.log) == drawn


async def test_reasoning_is_timed_and_folds_with_how_long_it_took(reply: Reply) -> None:
    sitting = await reply.seat()
    reply.emit(ReasoningDelta("Hm, *hard*.\n\nSo"))
    types = [event.type for event in sitting.catch_up()]
    assert types == ["open", "tail", "fragment"]
    (view,) = segments(reply.generation.state)
    assert (view.kind, view.open, view.last) == ("reasoning", True, "So")
    reply.emit(TextDelta("Then."))
    closing = [event for event in sitting.catch_up() if event.type == "close"]
    assert closing[0].data["label"].startswith("Thought")
    assert sitting.shown == reply.fresh


async def test_a_call_is_a_row_that_is_replaced_when_it_has_its_outcome(reply: Reply) -> None:
    sitting = await reply.seat()
    reply.emit(ToolCalled("c1", "weather", {}, "Weather", "{}"))
    opened = [event for event in sitting.catch_up() if event.type == "open"]
    assert 'id="call-c1"' in opened[0].data["html"]
    reply.emit(ToolResulted("c1", "error", "No such tool.", 12))
    replaced = [
        event for event in sitting.catch_up() if event.type == "fragment" and event.data["id"] == "call-c1"
    ]
    assert "No such tool." in replaced[0].data["html"]


async def test_a_status_comes_whole_when_its_words_change(reply: Reply) -> None:
    sitting = await reply.seat()
    reply.emit(Status("Waiting for it"))
    (status,) = sitting.catch_up()
    assert status.data["id"] == "status"
    assert "Waiting for it" in status.data["html"]
    assert sitting.catch_up() == []


async def test_whoever_comes_late_gets_the_status_too(reply: Reply) -> None:
    first = await reply.seat()
    reply.emit(Status("Waiting for it"))
    first.catch_up()
    late = reply.desk.house.views.follow(reply.desk.house, reply.generation, reply._wake)
    assert b"Waiting for it" in await late.begin(reply.generation.run, 0)


async def test_frames_have_the_number_of_the_event_that_they_show(reply: Reply) -> None:
    sitting = await reply.seat()
    reply.say("one\n\ntwo\n")
    numbered = [event.id for event in sitting.catch_up() if event.id]
    assert numbered == [f"{reply.generation.run}-{reply.generation.state.seq}"]


async def test_what_reads_a_state_between_two_frames_changes_nothing(reply: Reply) -> None:
    sitting = await reply.seat()
    for text in ("a ", "b ", "c\n\nd", " e"):
        reply.say(text, 1)
        sitting.catch_up()
        assert reply.generation.state.text  # joins the deltas
    assert sitting.shown == reply.fresh


async def test_a_finished_text_is_not_drawn_again_for_the_next_page(reply: Reply) -> None:
    await reply.seat()
    text = "Kept **once** it is whole."
    reply.say(text)
    reply.emit(RoundEnded("end_turn"))
    html = draft_of(reply.generation.state).segments[0]
    assert render(text) == reply.fresh[html.id]


html = st.lists(st.sampled_from(["<p>", "</p>", '<a href="x">', "a", "😀", "&lt;", " "])).map("".join)


@given(html, html, html)
def test_the_common_start_is_common_and_ends_in_no_tag(start: str, one: str, two: str) -> None:
    before, after = start + one, start + two
    length = common_start(before, after)
    assert before[:length] == after[:length]
    assert after.rfind("<", 0, length) <= after.rfind(">", 0, length)
    assert length >= len(start)


def test_lengths_are_those_of_javascript() -> None:
    before, after = "<p>😀 a</p>", "<p>😀 ab</p>"
    assert utf16_length(after[: common_start(before, after)]) == 7


def test_no_text_of_a_model_is_taken_for_the_frame_of_what_joins() -> None:
    assert JOINS[0] not in render("<div data-joins>x</div>\n\n`<div data-joins>`")


async def test_a_finished_reply_has_nothing_open(reply: Reply) -> None:
    reply.say("text")
    reply.emit(RoundEnded("end_turn"))
    reply.emit(Finished("complete", "end_turn"))
    (view,) = segments(reply.generation.state)
    assert not view.open
    assert view.marks == ""
