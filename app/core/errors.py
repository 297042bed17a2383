"""The one error tree. Each error has a text for the log (`str(error)`) and one for the person (`person`).

    NightdeskError
    ├── Refused                 what a person asked for cannot be done; nothing was changed
    │   ├── Invalid             malformed input; `field` names what is at fault
    │   ├── SignInNeeded        nobody is signed in, or the session ended
    │   ├── NotAllowed          signed in, but not for this
    │   ├── NotFound            no such thing, or somebody else's
    │   ├── Busy                the chat's lane is taken; `reply` names the running reply
    │   ├── KeyReused           an idempotency key or id that stands for something else
    │   ├── NotOpen             stale, answered or ended
    │   ├── TooLong             over a limit of size
    │   ├── UnknownModel        no such model, or no longer usable
    │   ├── Archived            the chat is archived
    │   ├── OverBudget          a budget is spent
    │   ├── TooManyTries        a rate limit; `retry_after` in seconds
    │   └── Closing             the server is shutting down
    ├── StorageFault            the database or disk failed; nothing was half-written
    │   ├── DiskFull
    │   └── StorageBusy         locked by somebody else for longer than the time-out
    ├── Superseded              a run that has lost its fencing token tried to write
    └── ProviderError           an endpoint failed
        ├── Unreachable         no connection
        ├── KeyRefused          401 or 403
        ├── ModelMissing        the endpoint no longer knows the model
        ├── RateLimited         429; `retry_after` in seconds or None
        ├── Overloaded          500, 502, 503, 504, 529
        ├── RequestRejected     another 4xx: the request is at fault
        ├── ContextExceeded     the prompt is longer than the model's window
        ├── WrongProtocol       the answer is not what this API speaks (HTML, say)
        ├── IdleTimeout         nothing came for longer than the endpoint's time-out
        └── BrokenStream        the stream ended or turned to rubbish before its end mark

`name` is the stable code: the last part of a problem document's type, and `code` of an `error` event.
`actions` are the helping buttons an `error` event offers. `may_retry` says whether the same request may
succeed a moment later.
"""

from typing import ClassVar, Literal

Action = Literal["retry", "continue", "settings"]


class NightdeskError(Exception):
    """Root of the tree. `detail` goes to the log; `person` is shown, and never holds a key or header."""

    name: ClassVar[str] = "error"
    actions: ClassVar[tuple[Action, ...]] = ("retry",)
    may_retry: ClassVar[bool] = False

    def __init__(self, person: str, detail: str | None = None) -> None:
        super().__init__(detail or person)
        self.person = person


class Refused(NightdeskError):
    name = "refused"


class Invalid(Refused):
    name = "invalid"

    def __init__(self, person: str, field: str | None = None, detail: str | None = None) -> None:
        super().__init__(person, detail)
        self.field = field


class SignInNeeded(Refused):
    name = "sign-in"

    def __init__(self, person: str = "Please sign in.", detail: str | None = None) -> None:
        super().__init__(person, detail)


class NotAllowed(Refused):
    name = "not-allowed"


class NotFound(Refused):
    name = "not-found"

    def __init__(self, person: str = "There is nothing here.", detail: str | None = None) -> None:
        super().__init__(person, detail)


class Busy(Refused):
    name = "busy"

    def __init__(self, reply: str) -> None:
        super().__init__("A reply is still being written in this chat. Stop it first, or wait for its end.")
        self.reply = reply


class KeyReused(Refused):
    name = "key-reused"

    def __init__(
        self, person: str = "This key was already used for something else. Send again with a fresh one."
    ) -> None:
        super().__init__(person)


class NotOpen(Refused):
    name = "not-open"


class TooLong(Refused):
    name = "too-long"

    def __init__(self, person: str, field: str | None = None) -> None:
        super().__init__(person)
        self.field = field


class UnknownModel(Refused):
    name = "unknown-model"
    actions = ("settings",)


class Archived(Refused):
    name = "archived"

    def __init__(self) -> None:
        super().__init__("This chat is archived. Restore it to go on.")


class OverBudget(Refused):
    name = "over-budget"


class TooManyTries(Refused):
    name = "too-many-tries"

    def __init__(self, person: str, retry_after: float) -> None:
        super().__init__(person)
        self.retry_after = retry_after


class Closing(Refused):
    name = "closing"

    def __init__(self) -> None:
        super().__init__("The server is restarting. Try again in a moment; what you typed is kept.")


class StorageFault(NightdeskError):
    name = "storage"


class DiskFull(StorageFault):
    name = "storage"


class StorageBusy(StorageFault):
    name = "storage-busy"
    may_retry = True


class Superseded(NightdeskError):
    name = "superseded"

    def __init__(self, detail: str) -> None:
        super().__init__("A newer reply has taken the place of this one.", detail)


class ProviderError(NightdeskError):
    """An endpoint failed. `person` names the endpoint; `detail` may quote what it said, without secrets.

    `may_cost`: it may have worked on the request, and count it, although nothing came of it.
    """

    name = "provider"
    may_cost: ClassVar[bool] = False


class Unreachable(ProviderError):
    name = "unreachable"
    actions = ("retry", "settings")
    may_retry = True


class KeyRefused(ProviderError):
    name = "key-refused"
    actions = ("settings", "retry")


class ModelMissing(ProviderError):
    name = "model-missing"
    actions = ("settings",)


class RateLimited(ProviderError):
    name = "rate-limited"
    may_retry = True

    def __init__(self, person: str, detail: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(person, detail)
        self.retry_after = retry_after


class Overloaded(ProviderError):
    name = "overloaded"
    may_retry = True

    def __init__(self, person: str, detail: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(person, detail)
        self.retry_after = retry_after


class RequestRejected(ProviderError):
    name = "request-rejected"
    actions = ("settings", "retry")


class ContextExceeded(ProviderError):
    name = "context-exceeded"
    actions = ()


class WrongProtocol(ProviderError):
    name = "wrong-protocol"
    actions = ("settings",)


class IdleTimeout(ProviderError):
    name = "idle-timeout"
    actions = ("continue", "retry")
    may_cost = True


class BrokenStream(ProviderError):
    name = "broken-stream"
    actions = ("continue", "retry")
    may_cost = True
