"""Counts the tokens of a reply: as estimates from the assembled request on, as reported once they are."""

from dataclasses import replace

from app.core.events import UsageReported
from app.core.messages import Usage
from app.store.tables import Model


class Meter:
    """The running totals of one reply, its current model call last.

    Nothing is counted twice: `begin` opens a call, `end` closes it and gives what belongs into the ledger.
    """

    def __init__(self, before: UsageReported | None = None) -> None:
        """`before` are the totals of the rounds that an earlier run of the reply finished."""
        self._done = _usage(before) if before else Usage()
        self._cost = before.cost if before else None
        self._call = Usage()
        self._reported = False
        self._bytes = 0
        self._last = Usage()
        self._model: Model | None = None

    def begin(self, model: Model | None, input_tokens: int) -> None:
        """A call of `model` begins with a request of about `input_tokens`."""
        self._model, self._bytes, self._reported = model, 0, False
        self._call = Usage(input_tokens=input_tokens, estimated=True)

    def wrote(self, text: str) -> None:
        """The model wrote `text`: answer, reasoning or the arguments of a call."""
        self._bytes += len(text.encode("utf-8", "surrogatepass"))

    def reported(self, usage: Usage) -> None:
        """The endpoint counts the call so far as `usage`."""
        self._call, self._reported = usage, True

    @property
    def call(self) -> Usage:
        """The current call so far: what the endpoint said, or what was written since if that is more."""
        written = (self._bytes + 3) // 4
        if written > self._call.output_tokens:
            return replace(self._call, output_tokens=written, estimated=True)
        return self._call

    def end(self, *, whole: bool) -> Usage:
        """Close the call and give its usage. Of a `whole` one the endpoint's own count stands as it is."""
        call = self._call if whole and self._reported else self.call
        self._done, self._cost = self._done + call, _sum(self._cost, cost_of(self._model, call))
        self._call, self._bytes, self._reported, self._last = Usage(), 0, False, call
        return call

    def add(self, usage: Usage, cost: float | None) -> None:
        """Count a call that is over, as it was stored."""
        self._done, self._cost, self._last = self._done + usage, _sum(self._cost, cost), usage

    def drop(self) -> Usage:
        """Close the call as one that has used nothing."""
        self._call, self._bytes, self._reported = Usage(), 0, False
        return self._call

    def event(self) -> UsageReported:
        """The totals with the current call, as followers are told."""
        call = self.call
        total = self._done + call
        context = call if call != Usage() else self._last
        return UsageReported(
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cache_read_tokens=total.cache_read_tokens,
            cache_write_tokens=total.cache_write_tokens,
            reasoning_tokens=total.reasoning_tokens,
            context_tokens=context.input_tokens + context.output_tokens,
            context_limit=self._model.context_length if self._model else 0,
            estimated=total.estimated,
            cost=_sum(self._cost, cost_of(self._model, call)),
        )


def cost_of(model: Model | None, usage: Usage) -> float | None:
    """What `usage` costs in the currency of the model's prices (per million tokens); None without prices."""
    if model is None or (model.price_input is None and model.price_output is None):
        return None
    cached_price = model.price_cached if model.price_cached is not None else model.price_input
    fresh = max(0, usage.input_tokens - usage.cache_read_tokens) * (model.price_input or 0.0)
    cached = usage.cache_read_tokens * (cached_price or 0.0)
    return (fresh + cached + usage.output_tokens * (model.price_output or 0.0)) / 1_000_000


def _usage(event: UsageReported) -> Usage:
    return Usage(
        event.input_tokens,
        event.output_tokens,
        event.cache_read_tokens,
        event.cache_write_tokens,
        event.reasoning_tokens,
        event.estimated,
    )


def _sum(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return first if second is None else second
    return first + second
