"""Replies: read as they are now, stopped, asked for anew, and gone on with."""

from typing import Any, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.clock import rfc3339
from app.core.errors import Archived, Busy, KeyReused, NotOpen, TooManyTries, UnknownModel
from app.core.ids import ModelId, ReplyId, UserId
from app.replies import reply_view
from app.store import messages, replies
from app.store.tables import Reply, SentRequest
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.api.schema import Page
from app.web.house import House, house, person, user


class Again(TypedDict, total=False):
    """By which model; left out: by the same."""

    model: shapes.Pick


@operation(gives={200: shapes.Reply})
async def show(request: Request) -> Response:
    """Read a reply as it is now, whether it is being written or has ended."""
    shown = await as_it_is(house(request), user(request), ReplyId(asked.path_id(request)))
    return JSONResponse(shown)


@operation(gives={202: shapes.Reply})
async def stop(request: Request) -> Response:
    """Stop a reply.

    What was written is kept. Answers once the outcome is stored; a reply that has ended stays as it is.
    """
    here, me, reply_id = house(request), user(request), ReplyId(asked.path_id(request))
    async with here.db.read() as s:
        await replies.owned(s, reply_id, me)
    await here.registry.stop(reply_id)
    return JSONResponse(await as_it_is(here, me, reply_id), 202)


@operation(
    takes=Again,
    gives={202: shapes.Reply},
    raises=[Archived, Busy, KeyReused, UnknownModel, TooManyTries],
    key="optional",
)
async def regenerate(request: Request) -> Response:
    """Ask for another reply to the same input.

    It stands beside the old one, which is stopped first if it is being written.
    """
    here, me, model = house(request), person(request), await _model(request)
    reply_id, key = ReplyId(asked.path_id(request)), asked.key(request)
    here.rates.post(me)
    return _new(await here.accepting.regenerate(me.id, reply_id, key, model))


@operation(
    takes=Again,
    gives={202: shapes.Reply},
    raises=[Archived, Busy, KeyReused, NotOpen, UnknownModel, TooManyTries],
    key="optional",
)
async def resume(request: Request) -> Response:
    """Go on with a reply that was stopped, cut off or failed.

    Makes a new reply to the same input, which begins with what the old one has shown.
    """
    here, me, model = house(request), person(request), await _model(request)
    reply_id, key = ReplyId(asked.path_id(request)), asked.key(request)
    here.rates.post(me)
    return _new(await here.accepting.resume_from(me.id, reply_id, key, model))


@operation(gives={200: Page[shapes.Sent]})
async def requests(request: Request) -> Response:
    """List what was sent for a reply, one entry for each model call."""
    reply_id = ReplyId(asked.path_id(request))
    async with house(request).db.read() as s:
        await replies.owned(s, reply_id, user(request))
        sent = await replies.requests(s, reply_id)
    return JSONResponse({"items": [_sent(row) for row in sent], "next": None})


async def as_it_is(here: House, me: UserId, reply_id: ReplyId) -> dict[str, Any]:
    """The whole reply: its live state while it is being written, else what is stored of it. Raises NotFound."""
    source = await here.registry.follow_source(reply_id, me)
    async with here.db.read() as s:
        row = await replies.owned(s, reply_id, me)
        stored = await messages.of_reply(s, reply_id)
    return reply_view.view(source.state, stored, row)


async def _model(request: Request) -> ModelId | None:
    again = await asked.body(request, Again)
    return ModelId(again["model"]) if "model" in again else None


def _new(reply: Reply) -> Response:
    return JSONResponse(reply_view.of_row(reply), 202)


def _sent(row: SentRequest) -> dict[str, Any]:
    return {
        "message": row.message,
        "at": rfc3339(row.at),
        "model": row.model_name,
        "endpoint": row.endpoint,
        "request": row.request,
    }
