"""What becomes of the calls of a round. No tool is offered yet, so every call gets the same answer."""

from app.core.messages import Message
from app.replies.manuscript import Manuscript

UNKNOWN = "unknown tool: no tools are offered in this chat. Answer without them."


async def run_calls(manuscript: Manuscript) -> Message:
    """Give every call of the last round its result and put the tool message aside, which is returned."""
    return manuscript.answer_calls("error", UNKNOWN)
