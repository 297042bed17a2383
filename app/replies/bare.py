"""The answer to a model call outside of any reply: nobody follows it, so it is taken in as a whole."""

from dataclasses import dataclass

from app.core.errors import BrokenStream, ProviderError
from app.core.messages import Usage
from app.core.text import estimate_tokens
from app.providers.base import Done, ProviderEvent, ReasoningSeen, Request, TextSeen, UsageSeen

_PER_MESSAGE = 4  # tokens of a message's frame, for estimates
# Characters. Nobody sees such a call run, so nobody would stop a model that goes round in circles.
_LONGEST = 100_000


@dataclass(slots=True)
class Answer:
    """What has come of the call so far."""

    text: str = ""
    thought: str = ""
    reported: Usage | None = None
    done: Done | None = None

    def take(self, event: ProviderEvent) -> None:
        match event:
            case TextSeen(text):
                self.text += text
            case ReasoningSeen(text):
                self.thought += text
            case UsageSeen(usage):
                self.reported = usage
            case Done():
                self.done = event

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come yet."""
        return not self.text and not self.thought and self.reported is None

    @property
    def is_too_long(self) -> bool:
        """Whether more has come than any such answer has; it is cut off."""
        return len(self.text) + len(self.thought) > _LONGEST

    def whole(self, endpoint: str) -> str:
        """The text of an answer that came to its end. Raises BrokenStream or ProviderError."""
        if self.done is None or self.done.stop_reason is None:
            raise BrokenStream(f"The answer of '{endpoint}' broke off before its end.")
        if self.done.stop_reason == "error":
            raise ProviderError(f"'{endpoint}' ended its answer with an error.", self.done.raw)
        return self.text

    def usage(self, request: Request) -> Usage:
        """As the endpoint counted, or as much as can be guessed of a call that it did not count."""
        if self.reported is not None:
            return self.reported
        asked = [request.system, *(message.text for message in request.messages)]
        return Usage(
            input_tokens=sum(estimate_tokens(text) + _PER_MESSAGE for text in asked),
            output_tokens=estimate_tokens(self.text + self.thought),
            reasoning_tokens=estimate_tokens(self.thought),
            estimated=True,
        )
