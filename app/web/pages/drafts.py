"""Drafts: what has been typed and not sent, kept for every device of a person."""

from starlette.requests import Request
from starlette.responses import Response

from app.core.ids import ChatId
from app.store import chats, drafts
from app.store.engine import Session
from app.web import answers, forms
from app.web.house import house, user


async def put(request: Request) -> Response:
    """`PUT /chats/{id}/draft` and `PUT /draft` (the chat that is not there yet) with `{"text"}`."""
    here, me = house(request), user(request)
    text = (await forms.json_object(request)).text("text", most=here.settings.max_text)
    chat_id = ChatId(answers.path_id(request)) if "id" in request.path_params else None

    async def write(s: Session) -> None:
        if chat_id is not None:
            await chats.owned(s, chat_id, me)
        await drafts.put(s, me, chat_id, text)

    await here.db.write(write)
    return Response(status_code=204)
