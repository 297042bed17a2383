"""Finding words in one's own chats: a page, and the same hits as a piece for the palette."""

from dataclasses import dataclass

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from app.store import chats, search
from app.store.search import BEGIN, END, Hit
from app.web import sidebar
from app.web.house import house, user
from app.web.render import preferences_of

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class HitView:
    """A place that was found: where it leads, and its words with the found ones marked."""

    path: str
    title: str
    snippet: Markup
    at: int

    @classmethod
    def of(cls, hit: Hit) -> "HitView":
        place = f"/chats/{hit.chat}"
        if hit.message is None:
            return cls(place, hit.title, Markup(""), hit.at)
        return cls(f"{place}?at={hit.message}#at", hit.title, marked(hit.snippet), hit.at)


def marked(snippet: str) -> Markup:
    """A snippet of the store, its found words as `<mark>`. Escaped before it is marked."""
    safe = str(escape(snippet)).replace(BEGIN, "<mark>").replace(END, "</mark>")
    return Markup(safe)


async def find(request: Request) -> Response:
    """`GET /search?q=&cursor=`: hits, or without words the last chats; `?archived=1` the archived ones."""
    here, me, query = house(request), user(request), request.query_params
    words = query.get("q", "")[:_LONGEST].replace("\x00", "")
    archived, partial = bool(query.get("archived")), "hx-request" in request.headers
    async with here.db.read() as s:
        if words.strip():
            hits, following = await search.find(s, me, words, cursor=query.get("cursor"))
            found = [HitView.of(hit) for hit in hits]
        else:
            rows, following = await chats.listing(
                s, me, archived=archived, cursor=query.get("cursor"), limit=30
            )
            found = [HitView(f"/chats/{row.id}", row.title, Markup(""), row.active) for row in rows]
        listed = None if partial else await sidebar.read(s, me, preferences_of(request))
    return here.render.page(
        request,
        "chats/_hits.html" if partial else "chats/search.html",
        sidebar=listed,
        current=None,
        words=words,
        found=found,
        following=following,
        archived=archived,
    )
