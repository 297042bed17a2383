"""The loop: what a model call becomes, whatever the endpoint does."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import (
    BrokenStream,
    ContextExceeded,
    IdleTimeout,
    KeyRefused,
    Overloaded,
    ProviderError,
    RateLimited,
    Unreachable,
)
from app.core.events import (
    ReasoningDelta,
    RoundBegan,
    RoundEnded,
    Started,
    Status,
    TextDelta,
    ToolCalled,
    ToolResulted,
    UsageReported,
)
from app.core.messages import ReasoningPart, TextPart, ToolResultPart
from app.providers.base import ReasoningSeen, Starting
from app.store import ledger, replies
from tests.replies.house import QUICK, House, opened, says, until


async def test_a_reply_is_streamed_stored_and_concluded(house: House):
    talk = await house.start("Hello there")
    call = await house.puppet.asked()
    call.say("Good ", "evening")
    await talk.shows("Good evening")
    call.end()
    assert (await talk.ended()).state.phase == "complete"
    (message,) = await house.written(talk.reply)
    assert message.parts == (TextPart("Good evening"),)
    assert (message.model_name, message.endpoint, message.stop_reason) == ("Puppet", "Puppets", "end_turn")
    row = await house.row(talk.reply)
    assert (row.phase, row.stop_reason) == ("complete", "end_turn")


async def test_events_come_in_their_order(house: House):
    house.puppet.will(lambda call: call.think("Hm").say("Hi").end())
    talk = await house.start()
    kinds = [type(entry.event) for entry in (await talk.ended()).feed.entries if entry.round <= 1]
    assert kinds[:6] == [Started, RoundBegan, UsageReported, ReasoningDelta, TextDelta, UsageReported]
    assert kinds[6] is RoundEnded


async def test_reasoning_is_kept_apart_timed_and_keeps_the_providers_data(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    call.think("Let me ", "think").give(ReasoningSeen("", {"signature": "s"}))
    await until(lambda: talk.live.state.reasoning == "Let me think")
    call.say("Yes").end()
    await talk.ended()
    (message,) = await house.written(talk.reply)
    thought, said = message.parts
    assert isinstance(thought, ReasoningPart)
    assert (thought.text, thought.opaque, said) == ("Let me think", {"signature": "s"}, TextPart("Yes"))


async def test_what_cannot_be_stored_is_replaced(house: House):
    house.puppet.will(lambda call: call.say("a\x00b\ud83d").end())
    talk = await house.start()
    assert (await talk.ended()).state.text == "a\ufffdb\ufffd"


# --- what takes long is named -----------------------------------------------------------------------------


async def test_a_silent_endpoint_is_named_until_it_answers(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    await until(lambda: talk.live.state.passing.status == "Waiting for Puppets")
    call.say("Hi")
    await talk.shows("Hi")
    assert talk.live.state.passing.status == ""


async def test_a_quick_answer_shows_no_status(house: House):
    house.puppet.will(says("Hi"))
    talk = await house.start()
    live = await talk.ended()
    assert not [entry for entry in live.feed.passing_since(0) if isinstance(entry.event, Status)]


async def test_a_model_that_has_to_be_started_says_so(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    call.give(Starting("Starting the local model"))
    await until(lambda: talk.live.state.passing.status == "Starting the local model")
    call.say("Hi")
    await talk.shows("Hi")
    assert talk.live.state.passing.status == ""


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [Overloaded("Busy."), RateLimited("Slow down."), Unreachable("Nobody there.")]
)
async def test_what_may_pass_is_tried_again_while_nothing_was_shown(house: House, error: ProviderError):
    house.puppet.will(lambda call: call.give(error), says("Here I am"))
    talk = await house.start()
    state = (await talk.ended()).state
    assert (state.phase, state.text) == ("complete", "Here I am")
    assert len(state.rounds) == 1


async def test_it_is_tried_only_so_often(house: House):
    house.puppet.will(*[lambda call: call.give(Overloaded("Puppets is busy."))] * 9)
    talk = await house.start()
    state = (await talk.ended()).state
    assert state.phase == "failed"
    assert len(house.puppet.calls) == QUICK.tries
    assert state.error is not None
    assert (state.error.text, state.error.code) == ("Puppets is busy.", "overloaded")


async def test_retry_after_is_honoured_within_reason(tmp_path: Path):
    async with opened(tmp_path / "data", settings=replace(QUICK, longest_wait=0.5)) as house:
        house.puppet.will(lambda call: call.give(RateLimited("Wait.", retry_after=0.1)), says("Now"))
        talk = await house.start()
        await until(lambda: "Trying again" in talk.live.state.passing.status)
        assert (await talk.ended()).state.text == "Now"
        house.puppet.will(lambda call: call.give(RateLimited("Wait an hour.", retry_after=3600)))
        talk = await house.start()
        assert (await talk.ended()).state.phase == "failed"


@pytest.mark.parametrize(
    "error", [KeyRefused("Refused."), ContextExceeded("Too long."), BrokenStream("Rubbish.")]
)
async def test_what_will_not_pass_is_told_at_once(house: House, error: ProviderError):
    house.puppet.will(lambda call: call.give(error))
    talk = await house.start()
    state = (await talk.ended()).state
    assert state.error is not None
    assert (state.phase, state.error.text, state.error.actions) == ("failed", error.person, error.actions)
    assert await house.written(talk.reply) == []
    row = await house.row(talk.reply)
    assert row.error == {"text": error.person, "code": error.name, "actions": list(error.actions)}


@pytest.mark.parametrize("error", [Overloaded("Busy."), IdleTimeout("Silent."), BrokenStream("Cut.")])
async def test_after_the_first_word_the_text_is_kept_and_can_be_continued(house: House, error: ProviderError):
    house.puppet.will(lambda call: call.say("Half").give(error))
    talk = await house.start()
    state = (await talk.ended()).state
    assert len(house.puppet.calls) == 1
    assert (state.phase, state.text) == ("failed", "Half")
    assert state.error is not None
    assert state.error.actions[0] == "continue"
    (message,) = await house.written(talk.reply)
    assert (message.text, message.stop_reason) == ("Half", None)


async def test_a_stream_without_an_end_mark_is_broken(house: House):
    house.puppet.will(lambda call: call.say("Half").end(None))
    talk = await house.start()
    state = (await talk.ended()).state
    assert state.error is not None
    assert (state.phase, state.error.code, state.error.actions) == (
        "failed",
        "broken-stream",
        ("continue", "retry"),
    )


async def test_an_end_with_an_error_fails_with_the_text_kept(house: House):
    house.puppet.will(lambda call: call.say("Half").end("error"))
    talk = await house.start()
    state = (await talk.ended()).state
    assert (state.phase, state.text) == ("failed", "Half")


async def test_an_answer_that_was_cut_is_kept_and_marked(house: House):
    house.puppet.will(lambda call: call.say("A long st").end("max_tokens"))
    talk = await house.start()
    state = (await talk.ended()).state
    assert (state.phase, state.text) == ("complete", "A long st")
    assert [warning.code for warning in state.warnings] == ["cut"]
    assert (await house.row(talk.reply)).stop_reason == "max_tokens"


async def test_a_refusal_is_said_as_such(house: House):
    house.puppet.will(lambda call: call.say("I would rather not.").end("refusal"))
    talk = await house.start()
    state = (await talk.ended()).state
    assert state.phase == "complete"
    assert [warning.code for warning in state.warnings] == ["refusal"]


async def test_an_empty_answer_is_told_and_stored_as_no_message(house: House):
    house.puppet.will(lambda call: call.say("").end())
    talk = await house.start()
    state = (await talk.ended()).state
    assert [warning.code for warning in state.warnings] == ["empty"]
    assert await house.written(talk.reply) == []


# --- calls, when nothing was offered ----------------------------------------------------------------------


async def test_a_call_gets_unknown_tool_and_one_closing_round(house: House):
    house.puppet.will(
        lambda call: call.say("Let me see.").call("c1").call("c2").end("tool_use"), says("I cannot.")
    )
    talk = await house.start()
    state = (await talk.ended()).state
    assert (state.phase, state.text) == ("complete", "Let me see.I cannot.")
    asked, answered, closing = await house.written(talk.reply)
    assert [part.id for part in answered.parts if isinstance(part, ToolResultPart)] == ["c1", "c2"]
    assert all(part.outcome == "error" and "unknown tool" in part.text for part in answered.parts)  # type: ignore[union-attr]
    assert (answered.parent, closing.parent) == (asked.id, answered.id)
    second = house.puppet.calls[1].request
    assert [message.role for message in second.messages] == ["user", "assistant", "tool"]
    assert second.messages[1].calls[0].arguments == "{}"
    assert second.tools == ()


async def test_a_call_in_the_closing_round_is_dropped_with_a_note(house: House):
    house.puppet.will(
        lambda call: call.call("c1").end("tool_use"), lambda call: call.say("Hm.").call("c2").end("tool_use")
    )
    talk = await house.start()
    state = (await talk.ended()).state
    assert (state.phase, state.text) == ("complete", "Hm.")
    assert [warning.code for warning in state.warnings] == ["call-dropped"]
    assert len(house.puppet.calls) == 2
    assert [call.called.id for round in state.rounds for call in round.calls] == ["c1"]


async def test_a_call_that_was_cut_off_is_not_run_and_has_a_result(house: House):
    house.puppet.will(lambda call: call.say("Let me").call("c1").end("max_tokens"))
    talk = await house.start()
    live = await talk.ended()
    (result,) = [e.event for e in live.feed.entries if isinstance(e.event, ToolResulted)]
    assert result.outcome == "not_run"
    assert [message.role for message in await house.written(talk.reply)] == ["assistant", "tool"]


async def test_every_call_has_a_result_when_the_reply_is_stopped(house: House):
    talk = await house.start()
    (await house.puppet.asked()).call("c1")
    live = talk.live
    await until(lambda: any(isinstance(e.event, ToolCalled) for e in live.feed.entries))
    await house.registry.stop(talk.reply)
    (result,) = [e.event for e in live.feed.entries if isinstance(e.event, ToolResulted)]
    assert result.outcome == "stopped"


# --- what it costs ----------------------------------------------------------------------------------------


async def test_usage_is_estimated_until_the_endpoint_reports(house: House):
    talk = await house.start("word " * 100)
    call = await house.puppet.asked()
    live = talk.live
    first = live.state.usage
    assert first is not None
    assert first.estimated
    assert 125 <= first.input_tokens <= 300
    assert first.output_tokens == 0
    call.say("a").count(140, 7).end()
    await talk.ended()
    usage = live.state.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (140, 7, False)
    assert usage.context_tokens == 147


async def test_a_running_reply_tells_its_usage_now_and_then(tmp_path: Path):
    async with opened(tmp_path / "data", settings=replace(QUICK, usage_every=0.0)) as house:
        talk = await house.start()
        call = await house.puppet.asked()
        call.say("x" * 400)
        await until(lambda: talk.live.state.usage and talk.live.state.usage.output_tokens == 100)


async def test_tokens_add_up_over_the_rounds_and_the_context_is_the_last_ones(house: House):
    house.puppet.will(
        lambda call: call.say("a").call().count(100, 10).end("tool_use"),
        lambda call: call.say("b").count(150, 20).end(),
    )
    talk = await house.start()
    usage = (await talk.ended()).state.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.context_tokens) == (250, 30, 170)
    assert (await house.row(talk.reply)).usage["output_tokens"] == 30  # type: ignore[index]


async def test_every_call_has_its_ledger_row(tmp_path: Path):
    prices = {"price_input": 2.0, "price_output": 10.0}
    async with opened(tmp_path / "data", model=prices) as house:
        house.puppet.will(
            lambda call: call.call().count(1_000_000, 0).end("tool_use"),
            lambda call: call.say("b").count(500_000, 100_000).end(),
        )
        talk = await house.start()
        live = await talk.ended()
        async with house.db.read() as s:
            (total,) = await ledger.sums(s, house.user, "model")
        assert (total.calls, total.input_tokens, total.output_tokens) == (2, 1_500_000, 100_000)
        assert total.cost == pytest.approx(4.0)
        assert live.state.usage is not None
        assert live.state.usage.cost == pytest.approx(4.0)
        assert not total.estimated


async def test_a_call_that_was_cut_off_is_in_the_ledger_as_an_estimate(house: House):
    talk = await house.start()
    (await house.puppet.asked()).say("x" * 40)
    await talk.shows("x" * 40)
    await house.registry.stop(talk.reply)
    async with house.db.read() as s:
        (total,) = await ledger.sums(s, house.user)
    assert (total.calls, total.output_tokens, total.estimated) == (1, 10, True)


@pytest.mark.parametrize("error", [IdleTimeout("Silent."), BrokenStream("Cut.")])
async def test_a_call_that_broke_off_before_its_first_word_may_have_cost_its_prompt(
    house: House, error: ProviderError
):
    house.puppet.will(lambda call: call.give(error))
    await (await house.start()).ended()
    async with house.db.read() as s:
        (total,) = await ledger.sums(s, house.user)
    assert (total.calls, total.output_tokens, total.estimated) == (1, 0, True)


async def test_a_call_that_was_turned_down_costs_nothing(house: House):
    house.puppet.will(lambda call: call.give(KeyRefused("Refused.")))
    talk = await house.start()
    await talk.ended()
    async with house.db.read() as s:
        assert await ledger.sums(s, house.user) == []


async def test_what_was_sent_is_kept_small(house: House):
    house.puppet.will(*[says("x")] * 6)
    talk = await house.start("first")
    await talk.ended()
    for number in range(5):
        await talk.send(f"message {number}")
        await talk.ended()
    async with house.db.read() as s:
        (sent,) = await replies.requests(s, talk.reply)
    assert sent.model_name == "Puppet"
    assert sent.request["last"] == talk.input
    assert sent.request["situation"].startswith("[It is ")
    assert len(str(sent.request)) < 2000
