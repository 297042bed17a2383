"""Drafts: what was typed and not sent, one for each chat and one for the chat that is not there yet."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.errors import TooLong
from app.core.ids import ChatId
from app.store import chats, drafts
from app.store.engine import Session
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.house import house, user


@operation(gives={200: shapes.Draft})
async def show(request: Request) -> Response:
    """Read a draft; it is empty where there is none."""
    me, chat_id = user(request), _chat(request)
    async with house(request).db.read() as s:
        if chat_id is not None:
            await chats.owned(s, chat_id, me)
        return JSONResponse({"text": await drafts.get(s, me, chat_id)})


@operation(takes=shapes.Draft, gives={204: None}, raises=[TooLong])
async def put(request: Request) -> Response:
    """Keep a draft; an empty one is none."""
    here, me, chat_id = house(request), user(request), _chat(request)
    text = (await asked.body(request, shapes.Draft))["text"]
    if len(text.encode()) > here.settings.max_text:
        raise TooLong(f"A draft can have at most {here.settings.max_text // 1024} KB.", field="text")

    async def write(s: Session) -> None:
        if chat_id is not None:
            await chats.owned(s, chat_id, me)
        await drafts.put(s, me, chat_id, text)

    await here.db.write(write)
    return Response(status_code=204)


def _chat(request: Request) -> ChatId | None:
    return ChatId(asked.path_id(request)) if "id" in request.path_params else None
