"""Messages: posted to a chat, and changed, removed or sent at once while they wait for their turn."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.accounts.access import Person
from app.core.errors import Archived, Busy, KeyReused, NotOpen, TooManyTries, UnknownModel
from app.core.ids import ChatId, FileId, MessageId, ModelId
from app.replies import accept, reply_view
from app.replies.accept import Accepted
from app.store import messages
from app.web.api import asked, shapes, waiting
from app.web.api.operation import operation
from app.web.api.replies import as_it_is
from app.web.api.schema import such
from app.web.house import House, house, person, user


class NewMessage(TypedDict):
    """What to say. `id` may be chosen by the client (a UUIDv7). `parent` makes a branch: the message that this one is
    to follow, null for a new beginning. `busy` says what to do while a reply is being written: wait for it, be refused,
    or stop it and say this instead."""

    text: str
    id: NotRequired[MessageId]
    files: NotRequired[Annotated[list[FileId], such(maxItems=20)]]
    model: NotRequired[shapes.Pick]
    parent: NotRequired[MessageId | None]
    sampling: NotRequired[shapes.Sampling]
    busy: NotRequired[Literal["queue", "reject", "replace"]]


class MessageChanges(TypedDict):
    """Other words for a message that waits."""

    text: str


class Wait(TypedDict, total=False):
    """When to answer."""

    wait: Annotated[bool, such(description="Answer with the whole reply, once it has ended")]


@operation(
    takes=NewMessage,
    query=Wait,
    gives={202: shapes.Accepted, 200: shapes.Accepted},
    raises=[Archived, Busy, KeyReused, UnknownModel, TooManyTries],
    key="required",
)
async def create(request: Request) -> Response:
    """Post a message.

    It is stored, and its reply begun, before this answers with 202. While another reply is being written it is queued,
    without a reply of its own yet. With `wait`, the answer is 200 once the reply has ended, with the reply whole; 202
    where it does not come to its end by itself.
    """
    here, me, chat_id = house(request), person(request), ChatId(asked.path_id(request))
    key, new = asked.required_key(request), await asked.body(request, NewMessage)
    wait = asked.query(request, Wait).get("wait", False)
    here.rates.post(me)
    accepted = await here.accepting.accept(me.id, chat_id, _said(new), key)
    return await _waited(here, me, accepted) if wait else _accepted(accepted)


@operation(takes=MessageChanges, gives={200: shapes.Message}, raises=[NotOpen])
async def change(request: Request) -> Response:
    """Change the words of a message that waits for its turn."""
    changes = await asked.body(request, MessageChanges)
    changed = await house(request).accepting.edit_queued(
        user(request), MessageId(asked.path_id(request)), changes["text"]
    )
    return JSONResponse(reply_view.of_message(changed))


@operation(gives={204: None}, raises=[NotOpen])
async def remove(request: Request) -> Response:
    """Remove a message that waits for its turn."""
    await house(request).accepting.remove_queued(user(request), MessageId(asked.path_id(request)))
    return Response(status_code=204)


@operation(gives={202: shapes.Accepted}, raises=[Archived, Busy, TooManyTries])
async def send_now(request: Request) -> Response:
    """Give a message that waits its turn now. Sent twice it runs once."""
    here, me, message_id = house(request), person(request), MessageId(asked.path_id(request))
    here.rates.post(me)
    return _accepted(await here.accepting.send_now(me.id, message_id))


def _said(new: NewMessage) -> accept.NewMessage:
    return accept.NewMessage(
        new["text"],
        files=tuple(new.get("files", ())),
        id=new.get("id"),
        model=ModelId(new["model"]) if "model" in new else None,
        parent=new.get("parent"),
        parent_given="parent" in new,
        sampling=dict(new.get("sampling", {})),
        busy=new.get("busy", "queue"),
    )


def _accepted(accepted: Accepted) -> Response:
    reply = reply_view.of_row(accepted.reply) if accepted.reply is not None else None
    return _answer(reply_view.of_message(accepted.message), reply, accepted.queued, 202)


async def _waited(here: House, me: Person, accepted: Accepted) -> Response:
    reply_id = await waiting.reply_to(here, me, accepted)
    if reply_id is None:
        return _accepted(accepted)
    source = await waiting.until_over(here, me, reply_id)
    async with here.db.read() as s:
        (message,) = await messages.load(s, [accepted.message.id])
    status = 200 if source.state.finished is not None else 202
    return _answer(reply_view.of_message(message), await as_it_is(here, me.id, reply_id), False, status)


def _answer(message: dict[str, Any], reply: dict[str, Any] | None, queued: bool, status: int) -> Response:
    return JSONResponse({"message": message, "reply": reply, "queued": queued}, status)
