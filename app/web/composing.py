"""What the composer shows: where it posts, the draft in it, and the models to pick from."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from app.core.ids import ChatId, ReplyId
from app.store.tables import Chat, Endpoint, Model
from app.web.house import House


@dataclass(frozen=True, slots=True)
class Composer:
    """`models` by endpoint; `model` the id picked; `missing` its name where it is no longer usable."""

    action: str
    draft_url: str
    text: str
    models: tuple[tuple[str, tuple[Model, ...]], ...]
    model: str | None
    missing: str | None = None
    chat: ChatId | None = None
    running: ReplyId | None = None
    temporary: bool = False


def composer(
    house: House, chat: Chat | None, text: str, *, running: ReplyId | None = None, temporary: bool = False
) -> Composer:
    """The composer of `chat`, or of one that is not there yet."""
    usable = house.models.usable()
    picked = chat.model if chat else None
    if picked is None and (default := house.models.default()) is not None:
        picked = default.id
    known = any(model.id == picked for model, _ in usable)
    chat_id = ChatId(chat.id) if chat else None
    where = f"/chats/{chat_id}" if chat_id else ""
    return Composer(
        action=f"{where}/messages" if where else "/chats",
        draft_url=f"{where}/draft",
        text=text,
        models=_by_endpoint(usable),
        model=picked,
        missing=None if known or picked is None else "The model picked here",
        chat=chat_id,
        running=running,
        temporary=temporary,
    )


def _by_endpoint(usable: Sequence[tuple[Model, Endpoint]]) -> tuple[tuple[str, tuple[Model, ...]], ...]:
    grouped = groupby(usable, key=lambda pair: pair[1].name)
    return tuple((name, tuple(model for model, _ in pairs)) for name, pairs in grouped)
