"""Replies: stop one, have another in its place, or let it go on."""

from starlette.requests import Request
from starlette.responses import Response

from app.core.ids import ModelId, ReplyId
from app.store import replies
from app.web import answers, forms
from app.web.forms import Fields
from app.web.house import house, person, user


async def stop(request: Request) -> Response:
    """`POST /replies/{id}/stop`: returns once the outcome is stored; on an ended reply it changes nothing."""
    here, reply_id = house(request), ReplyId(answers.path_id(request))
    async with here.db.read() as s:
        chat = (await replies.owned(s, reply_id, user(request))).chat
    await here.registry.stop(reply_id)
    return answers.stay(request, f"/chats/{chat}")


async def regenerate(request: Request) -> Response:
    """`POST /replies/{id}/regenerate`: another reply to the same input, perhaps by another `model`."""
    here, me = house(request), person(request)
    here.rates.post(me)
    fields = await forms.form(request)
    reply = await here.accepting.regenerate(
        me.id, ReplyId(answers.path_id(request)), _key(request, fields), _model(fields)
    )
    return answers.go(request, f"/chats/{reply.chat}")


async def resume(request: Request) -> Response:
    """`POST /replies/{id}/continue`: another reply that begins with the text of this one."""
    here, me = house(request), person(request)
    here.rates.post(me)
    fields = await forms.form(request)
    reply = await here.accepting.resume_from(
        me.id, ReplyId(answers.path_id(request)), _key(request, fields), _model(fields)
    )
    return answers.go(request, f"/chats/{reply.chat}")


def _key(request: Request, fields: Fields) -> str | None:
    return request.headers.get("idempotency-key") or fields.optional_text("key")


def _model(fields: Fields) -> ModelId | None:
    model = fields.optional_id("model")
    return ModelId(model) if model else None
