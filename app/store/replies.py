"""Replies: their lane, their phases and their one outcome. Every write of a run carries its fencing token."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from sqlalchemy import Table, bindparam, select, text, update
from sqlalchemy.exc import IntegrityError

from app.core.clock import now_ms
from app.core.errors import Busy, NotFound
from app.core.ids import ChatId, MessageId, ModelId, ReplyId, RunId, UserId, new_id
from app.core.reply import LIVE, MOVES, Ended, Phase
from app.store import rows
from app.store.engine import Session
from app.store.prepared import Prepared
from app.store.tables import IN_LANE, Chat, Reply, SentRequest

_LIVE = text(f"reply.{IN_LANE}")
_T = cast(Table, Reply.__table__)
_BY_ID = Prepared(select(_T).where(_T.c.id == bindparam("reply")))
_LIVE_IN = Prepared(select(_T).where(_T.c.chat == bindparam("chat"), _LIVE))
_OWNED = Prepared(
    select(_T)
    .join(Chat, Chat.id == _T.c.chat)
    .where(_T.c.id == bindparam("reply"), Chat.owner == bindparam("user"))
)


async def owned(s: Session, reply_id: ReplyId, user: UserId) -> Reply:
    """The reply, if its chat is theirs. Raises NotFound."""
    reply = await _OWNED.one(s, Reply, reply=reply_id, user=user)
    if reply is None:
        raise NotFound("There is no such reply, or its chat was deleted.")
    return reply


async def get(s: Session, reply_id: ReplyId) -> Reply | None:
    """The reply whoever it belongs to; None if its chat is gone."""
    return await _BY_ID.one(s, Reply, reply=reply_id)


async def create(
    s: Session,
    *,
    chat: ChatId,
    input: MessageId,
    after: MessageId,
    run: RunId,
    model: ModelId | None,
    sampling: Mapping[str, Any],
    continues: ReplyId | None = None,
    id: ReplyId | None = None,
) -> Reply:
    """Store an accepted reply, which takes the chat's lane.

    Raises Busy while another reply holds it, NotFound if the chat is gone.
    """
    reply = Reply(
        id=id or new_id(),
        chat=chat,
        input=input,
        after=after,
        continues=continues,
        phase="accepted",
        run=run,
        model=model,
        sampling=dict(sampling),
        created=now_ms(),
    )
    try:
        await rows.add(s, reply)
    except IntegrityError as error:
        running = await live_in(s, chat)
        if running is None:
            raise NotFound("This chat was deleted.") from error
        raise Busy(running.id) from error
    return reply


async def live_in(s: Session, chat_id: ChatId) -> Reply | None:
    """The reply that holds the chat's lane."""
    return await _LIVE_IN.one(s, Reply, chat=chat_id)


async def move(s: Session, reply_id: ReplyId, run: RunId, to_phase: Phase, **fields: Any) -> bool:
    """Whether the reply went to `to_phase`: not if it is gone, has ended, or belongs to another run."""
    values = {"phase": to_phase, **fields}
    changes = {f"to_{name}": value for name, value in values.items()}
    if not await _moving(to_phase, tuple(values)).change(s, this=reply_id, by=run, **changes):
        return False
    rows.take_over(s, Reply, reply_id, values)
    return True


@cache
def _moving(to_phase: Phase, columns: tuple[str, ...]) -> Prepared:
    """The conditional UPDATE of these columns."""
    before = ", ".join(f"'{phase}'" for phase, after in MOVES.items() if to_phase in after)
    mine = (_T.c.id == bindparam("this"), _T.c.run == bindparam("by"), text(f"phase IN ({before})"))
    return Prepared(update(_T).where(*mine).values({name: bindparam(f"to_{name}") for name in columns}))


async def outcome(s: Session, reply_id: ReplyId, run: RunId, phase: Ended, **fields: Any) -> bool:
    """Write the one outcome; False if there is one, the run has lost its token, or the chat is gone."""
    return await move(s, reply_id, run, phase, **{"ended": now_ms(), **fields})


async def claim_run(s: Session, reply_id: ReplyId, new_run: RunId) -> bool:
    """Give a live reply a new fencing token, so that nothing of its former run can write any more."""
    statement = (
        update(Reply)
        .where(Reply.id == reply_id, Reply.phase.in_(LIVE))
        .values(run=new_run, resumed=Reply.resumed + 1)
    )
    return await rows.changed(s, statement)


async def left_over(s: Session) -> list[Reply]:
    """Every reply without an outcome, oldest first: what a start finds of the run before."""
    return list((await s.scalars(select(Reply).where(_LIVE).order_by(Reply.created, Reply.id))).all())


async def of_input(s: Session, message_id: MessageId) -> list[Reply]:
    """All replies to that message, oldest first."""
    query = select(Reply).where(Reply.input == message_id).order_by(Reply.created, Reply.id)
    return list((await s.scalars(query)).all())


async def of_inputs(s: Session, inputs: Sequence[MessageId]) -> list[Reply]:
    """All replies to those messages, oldest first."""
    query = select(Reply).where(Reply.input.in_(rows.EACH)).order_by(Reply.created, Reply.id)
    return list((await s.scalars(query, {"ids": rows.each(inputs)})).all())


async def add_request(
    s: Session,
    *,
    reply: ReplyId,
    message: MessageId,
    model_name: str,
    endpoint: str,
    request: dict[str, Any],
    at: int | None = None,
) -> None:
    """Keep what was sent for the assistant message `message`: ids of stored messages, and nothing secret."""
    row = SentRequest(
        reply=reply,
        message=message,
        at=now_ms() if at is None else at,
        model_name=model_name,
        endpoint=endpoint,
        request=request,
    )
    await rows.add(s, row)


async def requests(s: Session, reply_id: ReplyId) -> list[SentRequest]:
    """What was sent for the reply, in the order of the calls."""
    query = (
        select(SentRequest).where(SentRequest.reply == reply_id).order_by(SentRequest.at, SentRequest.message)
    )
    return list((await s.scalars(query)).all())
