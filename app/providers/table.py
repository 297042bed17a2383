"""Which class speaks which wire API: the one place that knows the names, and where a new API is entered."""

from collections.abc import Callable, Mapping

from app.core.errors import WrongProtocol
from app.outbound import Http
from app.providers.base import EndpointConfig, Provider
from app.providers.local import Local
from app.providers.openai_chat import OpenAIChat
from app.providers.scripted import Scripted

APIS: Mapping[str, Callable[[EndpointConfig, Http], Provider]] = {
    "openai-chat": OpenAIChat,
    "local": OpenAIChat,  # what the embedded model's process speaks
    "scripted": Scripted,
}

# What somebody can add; the embedded model's endpoint is made by Nightdesk itself.
OFFERED = tuple(api for api in APIS if api != "local")


def open_provider(config: EndpointConfig, http: Http) -> Provider:
    """The adapter of an endpoint. Opens no connection. Raises WrongProtocol for an API that is not known."""
    if config.api not in APIS:
        said = f"'{config.label}' speaks '{config.api}', which this version of Nightdesk does not know."
        raise WrongProtocol(said)
    return APIS[config.api](config, http)


class Table:
    """Opens the provider of any endpoint (`Providers`); the embedded model's starts its process when called."""

    def __init__(self, http: Http, local: Local) -> None:
        self._http = http
        self._local = local

    def open(self, config: EndpointConfig) -> Provider:
        """See `open_provider`."""
        if config.api == "local":
            return self._local.provider(config, self._adapter)
        return self._adapter(config)

    def _adapter(self, config: EndpointConfig) -> Provider:
        return open_provider(config, self._http)
