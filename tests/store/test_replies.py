"""Replies: one lane in a chat, legal moves alone, one outcome, and a token that fences off what was before."""

import asyncio
from itertools import product
from typing import Any

import pytest

from app.core.errors import Busy, NotFound
from app.core.ids import ChatId, MessageId, ReplyId, RunId, UserId, new_id, new_run
from app.core.reply import ENDED, LIVE, MOVES, Phase
from app.store import replies
from app.store.engine import Database, Session
from app.store.tables import Reply
from tests.store.steps import add_chat, add_message, add_person, add_reply, count, phase_of


async def move(db: Database, reply: Reply, to_phase: Phase, run: str | None = None) -> bool:
    token = RunId(run or reply.run)
    return await db.write(lambda s: replies.move(s, ReplyId(reply.id), token, to_phase))


async def in_phase(db: Database, chat_id: ChatId, phase: Phase) -> Reply:
    reply = await add_reply(db, chat_id, await add_message(db, chat_id))
    steps: dict[Phase, tuple[Phase, ...]] = {"accepted": (), "running": ("running",)}
    for step in steps.get(phase, ("running", phase)):
        assert await move(db, reply, step)
    return reply


@pytest.mark.parametrize(("before", "after"), list(product(MOVES, MOVES)))
async def test_a_reply_moves_only_as_it_may(
    db: Database, chat_id: ChatId, before: Phase, after: Phase
) -> None:
    reply = await in_phase(db, chat_id, before)
    assert await move(db, reply, after) == (after in MOVES[before])
    assert await phase_of(db, reply.id) == (after if after in MOVES[before] else before)


@pytest.mark.parametrize("phase", sorted(LIVE))
async def test_a_live_reply_holds_the_lane_of_its_chat(
    db: Database, owner: UserId, chat_id: ChatId, phase: Phase
) -> None:
    reply = await in_phase(db, chat_id, phase)
    with pytest.raises(Busy) as refusal:
        await add_reply(db, chat_id, await add_message(db, chat_id))
    assert refusal.value.reply == reply.id
    async with db.read() as s:
        live = await replies.live_in(s, chat_id)
        assert live is not None
        assert live.id == reply.id
    await add_reply(db, *(await _another(db, owner)))


async def _another(db: Database, owner: UserId) -> tuple[ChatId, MessageId]:
    chat_id = await add_chat(db, owner)
    return chat_id, await add_message(db, chat_id)


@pytest.mark.parametrize("phase", sorted(ENDED))
async def test_an_ended_reply_leaves_the_lane(db: Database, chat_id: ChatId, phase: Phase) -> None:
    await in_phase(db, chat_id, phase)
    async with db.read() as s:
        assert await replies.live_in(s, chat_id) is None
    await add_reply(db, chat_id, await add_message(db, chat_id))


async def test_after_a_refused_lane_the_transaction_goes_on(db: Database, chat_id: ChatId) -> None:
    reply = await in_phase(db, chat_id, "running")
    message = await add_message(db, chat_id)

    async def try_then_end(s: Session) -> Reply:
        arguments: dict[str, Any] = {
            "chat": chat_id,
            "input": message,
            "after": message,
            "model": None,
            "sampling": {},
        }
        with pytest.raises(Busy):
            await replies.create(s, run=new_run(), **arguments)
        assert await replies.outcome(s, ReplyId(reply.id), RunId(reply.run), "stopped")
        return await replies.create(s, run=new_run(), **arguments)

    assert await phase_of(db, (await db.write(try_then_end)).id) == "accepted"


async def test_twenty_replies_at_once_get_one_lane(db: Database, chat_id: ChatId) -> None:
    message = await add_message(db, chat_id)
    outcomes = await asyncio.gather(
        *(add_reply(db, chat_id, message) for _ in range(20)), return_exceptions=True
    )
    assert sum(isinstance(outcome, Busy) for outcome in outcomes) == 19
    assert await count(db, "reply") == 1


async def test_a_reply_in_a_chat_that_was_deleted_is_refused(db: Database) -> None:
    with pytest.raises(NotFound):
        await add_reply(db, ChatId(new_id()), MessageId(new_id()))


async def test_whatever_races_a_reply_has_one_outcome(db: Database, chat_id: ChatId) -> None:
    reply = await in_phase(db, chat_id, "running")
    endings = [
        await_outcome(db, reply, phase) for phase in ("complete", "stopped", "failed", "interrupted") * 5
    ]
    won = await asyncio.gather(*endings)
    assert sum(won) == 1
    async with db.read() as s:
        stored = await replies.get(s, ReplyId(reply.id))
    assert stored is not None
    assert stored.phase in ENDED
    assert stored.reason == stored.phase
    assert stored.ended is not None


async def await_outcome(db: Database, reply: Reply, phase: str) -> bool:
    return await db.write(
        lambda s: replies.outcome(s, ReplyId(reply.id), RunId(reply.run), phase, reason=phase)  # type: ignore[arg-type]
    )


async def test_an_outcome_keeps_what_goes_with_it(db: Database, chat_id: ChatId) -> None:
    reply = await in_phase(db, chat_id, "running")
    error = {"text": "The key was refused.", "code": "key-refused", "actions": ["settings"]}
    fields = {
        "stop_reason": "error",
        "reason": "why",
        "error": error,
        "usage": {"input_tokens": 1},
        "ended": 77,
    }

    async def finish(s: Session) -> Reply | None:
        loaded = await replies.get(s, ReplyId(reply.id))
        assert await replies.outcome(s, ReplyId(reply.id), RunId(reply.run), "failed", **fields)
        assert loaded is not None
        assert loaded.phase == "failed"  # what the session had loaded is up to date
        return loaded

    await db.write(finish)
    async with db.read() as s:
        stored = await replies.get(s, ReplyId(reply.id))
        assert {name: getattr(stored, name) for name in fields} == fields


async def test_a_run_that_lost_its_token_writes_nothing(db: Database, chat_id: ChatId) -> None:
    reply = await in_phase(db, chat_id, "running")
    later = new_run()
    assert await db.write(lambda s: replies.claim_run(s, ReplyId(reply.id), later))
    assert not await move(db, reply, "complete")
    assert not await move(db, reply, "running")
    assert await move(db, reply, "running", run=later)
    async with db.read() as s:
        stored = await replies.get(s, ReplyId(reply.id))
    assert stored is not None
    assert (stored.resumed, stored.run) == (1, later)


async def test_an_ended_reply_gets_no_new_run(db: Database, chat_id: ChatId) -> None:
    reply = await in_phase(db, chat_id, "complete")
    assert not await db.write(lambda s: replies.claim_run(s, ReplyId(reply.id), new_run()))


async def test_a_start_finds_all_that_was_left_without_an_outcome(db: Database, owner: UserId) -> None:
    left = []
    phases: tuple[Phase, ...] = ("accepted", "running", "waiting", "complete", "interrupted")
    for phase in phases:
        chat_id = await add_chat(db, owner)
        left.append((await in_phase(db, chat_id, phase)).id)
    async with db.read() as s:
        assert [reply.id for reply in await replies.left_over(s)] == left[:3]


async def test_the_replies_to_a_message_come_in_order(db: Database, owner: UserId, chat_id: ChatId) -> None:
    message, other = await add_message(db, chat_id), await add_message(db, chat_id)
    made = []
    for question in (message, message, other):
        reply = await add_reply(db, chat_id, question)
        await move(db, reply, "stopped")
        made.append(reply.id)
    stranger = await add_person(db, "Eve")
    async with db.read() as s:
        assert [reply.id for reply in await replies.of_input(s, message)] == made[:2]
        assert [reply.id for reply in await replies.of_inputs(s, [other, message])] == made
        assert await replies.of_inputs(s, []) == []
        assert (await replies.owned(s, ReplyId(made[0]), owner)).id == made[0]
        with pytest.raises(NotFound):
            await replies.owned(s, ReplyId(made[0]), stranger)


async def test_what_was_sent_comes_in_the_order_of_the_calls(db: Database, chat_id: ChatId) -> None:
    reply = await in_phase(db, chat_id, "running")

    async def send(s: Session, at: int) -> None:
        request = {"messages": ["a", {"role": "system", "text": "be brief"}], "at": at}
        await replies.add_request(
            s,
            reply=ReplyId(reply.id),
            message=MessageId(new_id()),
            model_name="m",
            endpoint="Home",
            request=request,
            at=at,
        )

    for at in (30, 10, 20):
        await db.write(lambda s, at=at: send(s, at))  # type: ignore[misc]
    async with db.read() as s:
        assert [row.request["at"] for row in await replies.requests(s, ReplyId(reply.id))] == [10, 20, 30]
