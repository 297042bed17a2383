"""Messages: sent to a new chat or to one that is there, sent again in other words, waiting in the queue."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.errors import Invalid, NightdeskError, Refused
from app.core.ids import ChatId, FileId, MessageId, ModelId, ReplyId, UserId
from app.core.messages import FilePart
from app.replies.accept import Accepted, NewMessage
from app.store import chats, drafts, messages
from app.store.engine import Session
from app.web import answers, forms, transcript
from app.web.forms import Fields
from app.web.house import House, house, person, user
from app.web.turns import MessageView


async def create_chat(request: Request) -> Response:
    """`POST /chats`: a new chat with its first message."""
    here, me, fields = house(request), person(request), await forms.form(request)
    async with _kept(request, None, fields):
        here.rates.post(me)
        new, temporary = _new_message(here, fields), fields.flag("temporary")
        chat, _ = await here.accepting.start_chat(
            me.id, new, _key(request, fields), model=new.model, temporary=temporary
        )
    return answers.go(request, f"/chats/{chat.id}")


async def create(request: Request) -> Response:
    """`POST /chats/{id}/messages`. A script gets what it shows: the message, and its reply or the queue."""
    here, me, fields = house(request), person(request), await forms.form(request)
    chat_id = ChatId(answers.path_id(request))
    async with _kept(request, chat_id, fields):
        here.rates.post(me)
        new = _new_message(here, fields)
        accepted = await here.accepting.accept(me.id, chat_id, new, _key(request, fields))
    if not answers.by_script(request):
        return answers.go(request, f"/chats/{chat_id}")
    return JSONResponse({"html": await _drawn(here, me.id, accepted)}, 202)


async def resend(request: Request) -> Response:
    """`POST /messages/{id}/resend`: other words in its place, as a version beside it."""
    here, me = house(request), person(request)
    here.rates.post(me)
    message_id, fields = MessageId(answers.path_id(request)), await forms.form(request)
    async with here.db.read() as s:
        row = await messages.owned(s, message_id, me.id)
        (old,) = await messages.load(s, [message_id])
    if old.role != "user" or old.queued:
        raise Invalid("Only what you said can be sent again.")
    new = _new_message(here, fields, parent=old.parent, parent_given=True, files=_files(old))
    await here.accepting.accept(me.id, ChatId(row.chat), new, _key(request, fields))
    return answers.go(request, f"/chats/{row.chat}")


async def send_now(request: Request) -> Response:
    """`POST /messages/{id}/send-now`: the turn of a message that waits."""
    here, me = house(request), person(request)
    here.rates.post(me)
    accepted = await here.accepting.send_now(me.id, MessageId(answers.path_id(request)))
    return answers.go(request, f"/chats/{accepted.message.chat}")


async def edit(request: Request) -> Response:
    """`POST /messages/{id}/edit`: other words for a message that waits, in `text-{id}` or `text`."""
    message_id, fields = MessageId(answers.path_id(request)), await forms.form(request)
    here, own = house(request), f"text-{message_id}"
    text = fields.text(own if own in fields else "text", most=here.settings.max_text)
    changed = await here.accepting.edit_queued(user(request), message_id, text)
    return answers.go(request, f"/chats/{changed.chat}")


async def remove(request: Request) -> Response:
    """`POST /messages/{id}/remove`: a message that waits."""
    here, message_id = house(request), MessageId(answers.path_id(request))
    async with here.db.read() as s:
        chat = (await messages.owned(s, message_id, user(request))).chat
    await here.accepting.remove_queued(user(request), message_id)
    return answers.go(request, f"/chats/{chat}")


@asynccontextmanager
async def _kept(request: Request, chat: ChatId | None, fields: Fields) -> AsyncIterator[None]:
    """What a form is refused with stays in the composer: as the draft, since its page is gone. Scripts see to it."""
    try:
        yield
    except Refused:
        text = fields.get("text")
        if isinstance(text, str) and not answers.by_script(request):
            await _keep(house(request), user(request), chat, text)
        raise


async def _keep(here: House, me: UserId, chat: ChatId | None, text: str) -> None:
    async def write(s: Session) -> None:
        if chat is not None:
            await chats.owned(s, chat, me)
        await drafts.put(s, me, chat, text)

    with suppress(NightdeskError):  # the first error is the one to tell
        await here.db.write(write)


def _new_message(here: House, fields: Fields, **more: Any) -> NewMessage:
    model, id = fields.optional_id("model"), fields.optional_id("id")
    return NewMessage(
        fields.text("text", most=here.settings.max_text),
        id=MessageId(id) if id else None,
        model=ModelId(model) if model else None,
        **more,
    )


def _key(request: Request, fields: Fields) -> str:
    """The idempotency key: a header from scripts, a hidden field in forms."""
    return request.headers.get("idempotency-key") or fields.text("key")


def _files(old: messages.StoredMessage) -> tuple[FileId, ...]:
    return tuple(part.file for part in old.parts if isinstance(part, FilePart))


async def _drawn(here: House, me: UserId, accepted: Accepted) -> str:
    """The pieces of the page that an accepted message changes."""
    message = accepted.message
    if accepted.queued:
        async with here.db.read() as s:
            waiting = await messages.queued(s, message.chat)
        queued = [MessageView.of(found) for found in waiting]
        return here.render.fragment("messages/_queue.html", queued=queued)
    drawn = here.render.fragment("messages/_message.html", message=MessageView.of(message))
    if accepted.reply is None:
        return drawn
    reply = await transcript.one_reply(here, me, ReplyId(accepted.reply.id))
    return drawn + here.render.fragment("replies/_reply.html", reply=reply)
