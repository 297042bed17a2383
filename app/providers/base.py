"""The seam between a reply and a model: `Request` in, `ProviderEvent`s out, `ProviderError`s raised."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.core.messages import Message, StopReason, ToolUsePart, Usage


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One model call. `model` is the endpoint's own name of it.

    `max_output` None leaves the limit to the endpoint.
    `sampling` holds neutral names (`temperature`, `top_p`, `seed`, `stop`, `reasoning_effort`).
    """

    model: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    max_output: int | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextSeen:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningSeen:
    text: str
    opaque: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CallSeen:
    """One whole call, given once its arguments are complete: after the last fragment, before `Done`."""

    call: ToolUsePart


@dataclass(frozen=True, slots=True)
class UsageSeen:
    usage: Usage


@dataclass(frozen=True, slots=True)
class Done:
    """The last event of every stream that did not raise. None: no end mark came, the stream was cut off."""

    stop_reason: StopReason | None
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class Starting:
    """Nothing of the answer yet: what serves the model has to be started first. `text` is a status to show."""

    text: str


ProviderEvent = TextSeen | ReasoningSeen | CallSeen | UsageSeen | Starting | Done


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model as its endpoint lists it; what the endpoint does not tell is None."""

    wire_name: str
    name: str | None = None
    context_length: int | None = None
    max_output: int | None = None
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """Where and how a provider reaches its models. `key` is the decrypted secret, or None.

    `label` is the person's name for it, used in every error sentence. `idle_timeout` is in seconds: the
    longest silence that is borne before the first byte and between two.
    """

    label: str
    api: str
    base_url: str
    key: str | None = field(default=None, repr=False)
    idle_timeout: float = 300.0


class Provider(Protocol):
    """One wire API at one endpoint."""

    def stream(self, request: Request) -> AsyncIterator[ProviderEvent]:
        """Ask, and yield what comes. Text of one network read is yielded together, as one event.

        Closing the iterator closes the connection. Raises a `ProviderError`; never yields after `Done`.
        An error object inside the stream raises after the text before it was yielded.
        """
        ...

    async def models(self) -> list[FoundModel]:
        """What the endpoint offers. Raises a `ProviderError`."""
        ...


class Providers(Protocol):
    """Opens a provider for an endpoint; built by `main` from the table, the vault and `outbound`."""

    def open(self, config: EndpointConfig) -> Provider: ...
