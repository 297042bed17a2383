"""Replies as HTML: the views that templates draw, and the frames that followers of a page are sent."""

from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from app.core.messages import Outcome


@dataclass(frozen=True, slots=True)
class SegmentView:
    """One piece of a reply as `replies/_segment.html` draws it: a run of text, of reasoning, or a tool call.

    `html` is everything written so far, in its place: what is settled and the block that is still open. Both
    stand side by side in `.blocks`; `marks` are that element's attributes, which tell a script where the open
    block begins (empty once the segment is closed). `ms` is how long the reasoning or the call took.
    """

    id: str
    kind: Literal["text", "reasoning", "call"]
    html: Markup = Markup("")
    marks: Markup = Markup("")
    open: bool = False
    ms: int | None = None
    last: str = ""
    name: str = ""
    label: str = ""
    arguments: str = ""
    outcome: Outcome | None = None
    text: str = ""
    progress: str = ""
