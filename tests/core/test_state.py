"""The fold: entries in, one state out, whatever was joined on the way."""

import json

from hypothesis import given, strategies as st

from app.core.events import (
    TYPES,
    Entry,
    ErrorRaised,
    Event,
    Finished,
    ReasoningDelta,
    RoundBegan,
    RoundEnded,
    Started,
    Status,
    TextDelta,
    ToolCalled,
    ToolProgress,
    ToolResulted,
    UsageReported,
    Warned,
    data_of,
    event_from,
)
from app.core.ids import ChatId, MessageId, ReplyId, RunId
from app.core.messages import ReasoningPart, TextPart, ToolResultPart, ToolUsePart
from app.core.state import ReplyState, apply, messages_of


def state() -> ReplyState:
    return ReplyState(ReplyId("r"), ChatId("c"), RunId("run"))


def fold(*events: Event, step_ms: int = 10) -> ReplyState:
    folded = state()
    for seq, event in enumerate(events, 1):
        apply(folded, Entry(seq, seq * step_ms, 1, event))
    return folded


BEGIN = (Started("m", "e"), RoundBegan(MessageId("m1")))


def test_text_and_reasoning_become_parts_in_the_order_they_came() -> None:
    folded = fold(*BEGIN, ReasoningDelta("let "), ReasoningDelta("me"), TextDelta("Yes"), TextDelta("."))
    assert messages_of(folded)[0].parts == (ReasoningPart("let me", 20), TextPart("Yes."))
    assert (folded.text, folded.reasoning) == ("Yes.", "let me")


def test_reasoning_is_timed_from_its_first_delta_to_whatever_follows() -> None:
    folded = fold(*BEGIN, ReasoningDelta("a"), ReasoningDelta("b"), RoundEnded("end_turn"), step_ms=1000)
    assert messages_of(folded)[0].parts[0] == ReasoningPart("ab", 2000)


def test_a_round_in_which_nothing_was_written_gives_no_message() -> None:
    assert messages_of(fold(*BEGIN)) == []


def test_calls_and_their_results_give_an_assistant_and_a_tool_message() -> None:
    called = ToolCalled("1", "look", {"at": "x"}, "look", '{"at":"x"}')
    folded = fold(*BEGIN, TextDelta("I look."), called, ToolResulted("1", "error", "unknown tool", 3))
    assistant, tool = messages_of(folded)
    assert assistant.calls == (ToolUsePart("1", "look", '{"at":"x"}', {"at": "x"}),)
    assert (tool.role, tool.parts) == ("tool", (ToolResultPart("1", "error", "unknown tool", 3),))


def test_what_passes_by_changes_neither_number_nor_comparison() -> None:
    folded, other = fold(*BEGIN), fold(*BEGIN)
    apply(folded, Entry(0, 99, 1, Status("Waiting")))
    assert (folded.seq, folded.passing.status) == (2, "Waiting")
    assert folded == other


def test_the_outcome_ends_the_phase_and_clears_what_was_passing() -> None:
    folded = fold(*BEGIN, TextDelta("a"))
    apply(folded, Entry(0, 50, 1, Status("Waiting")))
    apply(folded, Entry(4, 60, 1, Finished("complete", "end_turn")))
    assert (folded.phase, folded.passing.status) == ("complete", "")


deltas = st.lists(st.tuples(st.booleans(), st.text(max_size=5)), max_size=40)


@given(deltas)
def test_joined_deltas_fold_to_the_same_messages(pieces: list[tuple[bool, str]]) -> None:
    single = [ReasoningDelta(text) if thinks else TextDelta(text) for thinks, text in pieces]
    joined: list[Event] = []
    for event in single:
        if joined and type(joined[-1]) is type(event):
            joined[-1] = type(event)(joined[-1].text + event.text)
        else:
            joined.append(event)
    one, other = fold(*BEGIN, *single), fold(*BEGIN, *joined)
    assert (one.text, one.reasoning) == (other.text, other.reasoning)
    assert [type(part) for m in messages_of(one) for part in m.parts] == [
        type(part) for m in messages_of(other) for part in m.parts
    ]


EXAMPLES: list[Event] = [
    Started("m", "e"),
    RoundBegan(MessageId("m1")),
    Status("Waiting"),
    TextDelta("é\u2028😀"),
    ReasoningDelta("hm"),
    ToolCalled("1", "look", None, "look", "{bad"),
    ToolProgress("1", percent=0.5),
    ToolResulted("1", "error", "no", 1),
    RoundEnded(None),
    UsageReported(1, 2, 3, 4, 5, 6, 7, True, None),
    Warned("cut", "Older turns were left out."),
    ErrorRaised("The endpoint hangs.", "idle-timeout", ("continue", "retry")),
    Finished("complete", "end_turn", None, None),
]


def test_every_event_survives_its_json_form() -> None:
    assert {event.type for event in EXAMPLES} == set(TYPES)
    for event in EXAMPLES:
        assert event_from(event.type, json.loads(json.dumps(data_of(event)))) == event
