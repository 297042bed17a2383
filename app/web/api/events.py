"""Events: the two streams of the API, as `web.follow` serves them."""

from typing import Annotated, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from app.core.ids import ReplyId
from app.web import follow
from app.web.api import asked
from app.web.api.operation import Bytes, operation
from app.web.api.schema import such

STREAM = Bytes("text/event-stream", "Server-sent events, each with one JSON object as its data")

Point = Annotated[str, such(maxLength=80, description="`<run>-<n>`: only what comes after that event")]


class After(TypedDict, total=False):
    """Where to go on. The header Last-Event-ID wins."""

    after: Point


class Along(After, total=False):
    """Which reply to follow along."""

    reply: ReplyId


@operation(query=After, gives={200: STREAM, 204: None})
async def of_reply(request: Request) -> Response:
    """Follow a reply.

    First one `state` event with everything so far, then each event as it comes, until `finished`. With `after` the
    events after that one alone, and 204 where none will come. `status` and `tool_progress` pass by: they have no id
    and are not sent again. A comment every 15 seconds keeps the connection open.
    """
    asked.path_id(request)
    return await follow.reply_events(request)


@operation(query=Along, gives={200: STREAM})
async def of_person(request: Request) -> Response:
    """Follow what is not of one reply: chats, queues, replies that begin and end.

    First one `snapshot`, then `chat`, `queue`, `reply`, `card` and `toast` as they come. With `reply`, the events of
    that reply come along, their types written `reply.<type>`; only those have an id.
    """
    asked.query(request, Along)
    return await follow.person_events(request)
