"""`?wait=1`: answers that come once a reply has ended."""

import asyncio

from app.accounts.access import Person
from app.core.errors import SignInNeeded
from app.core.ids import ReplyId
from app.replies.accept import Accepted
from app.replies.feed import Source
from app.store import replies
from app.web.house import House


async def reply_to(house: House, me: Person, accepted: Accepted) -> ReplyId | None:
    """The reply to an accepted message, once its turn has come; None where nothing runs that leads to it.

    Raises as `until_over`.
    """
    if accepted.reply is not None:
        return ReplyId(accepted.reply.id)
    while True:
        async with house.db.read() as s:
            made = await replies.of_input(s, accepted.message.id)
            lane = await replies.live_in(s, accepted.message.chat)
        if made:
            return ReplyId(made[0].id)
        # The outcome of one reply and the start of the next are stored together, so nothing is missed between them.
        if lane is None or (await until_over(house, me, ReplyId(lane.id))).state.finished is None:
            return None


async def until_over(house: House, me: Person, reply_id: ReplyId) -> Source:
    """The reply, once it has ended, waits for a person, or is let go by a server that closes.

    Raises NotFound, and SignInNeeded when the session or key that it was asked with ends meanwhile.
    """
    source = await house.registry.follow_source(reply_id, me.id)
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look() -> None:
        if not over.done() and (source.feed.closed or source.state.phase == "waiting"):
            over.set_result(None)

    def revoked() -> None:
        if not over.done():
            over.set_exception(SignInNeeded())

    leave, detach = source.feed.watch(look), house.sessions.on_revoked(me, revoked)
    try:
        look()
        await over
    finally:
        leave()
        detach()
    return source
