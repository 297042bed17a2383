"""What pages and API change in the same way: a chat as a whole, and an endpoint that goes."""

from typing import Any

from app.accounts.access import Person
from app.core.errors import Invalid, NotFound
from app.core.ids import ChatId, EndpointId, ModelId, UserId
from app.replies import reply_view
from app.store import chats
from app.store.engine import Session
from app.store.tables import Chat
from app.web.house import House

LONGEST_TITLE = 200
LONGEST_FOLDER = 80


async def change_chat(house: House, user: UserId, chat_id: ChatId, **fields: Any) -> Chat:
    """Set title, folder, pinned, archived, unread or model of the person's chat, and tell their other pages.

    Raises NotFound, Invalid for an empty title, UnknownModel.
    """
    fields = {name: _tidy(name, value) for name, value in fields.items()}
    if fields.get("model") is not None:
        await house.models.choose(ModelId(fields["model"]))

    async def write(s: Session) -> Chat:
        chat = await chats.owned(s, chat_id, user)
        await chats.update(s, chat, **fields)
        return chat

    chat = await house.db.write(write)
    if house.bulletin.followers(user):
        async with house.db.read() as s:
            row = await chats.row(s, chat_id, user)
        house.bulletin.publish(user, "chat", {"change": _what(fields), **reply_view.of_chat(row)})
    return chat


def _tidy(name: str, value: Any) -> Any:
    """Names in one line; a folder without a name is none."""
    if name not in ("title", "folder") or value is None:
        return value
    line = " ".join(value.split())
    if name == "title" and not line:
        raise Invalid("A chat needs a title.", field="title")
    return line or None


def _what(fields: dict[str, Any]) -> str:
    """The change in a word, the most telling one if there are several."""
    if "title" in fields:
        return "renamed"
    return "unread" if fields.keys() == {"unread"} else "moved"


async def delete_endpoint(house: House, endpoint_id: EndpointId, by: Person) -> None:
    """Stop the replies that a model of the endpoint is writing, then delete it. Raises NotFound, Refused."""
    if all(row.id != endpoint_id for row, _ in house.models.all()):
        raise NotFound("There is no such endpoint, or it was deleted.")
    await house.registry.stop_all(endpoint=endpoint_id)
    await house.models.delete_endpoint(endpoint_id, by)
    await house.registry.stop_all(endpoint=endpoint_id)  # those that have chosen it meanwhile
