"""Which class an endpoint's API opens."""

import pytest

from app.core.errors import WrongProtocol
from app.providers.base import EndpointConfig
from app.providers.local import Local, LocalProvider
from app.providers.openai_chat import OpenAIChat
from app.providers.scripted import Scripted
from app.providers.table import Table, open_provider
from app.tasks import Tasks


@pytest.mark.parametrize(
    ("api", "kind"), [("openai-chat", OpenAIChat), ("local", OpenAIChat), ("scripted", Scripted)]
)
async def test_an_api_opens_its_class(http, api, kind):
    assert isinstance(open_provider(EndpointConfig("Home", api, "http://127.0.0.1/v1"), http), kind)


async def test_an_unknown_api_is_named(http):
    with pytest.raises(WrongProtocol) as caught:
        open_provider(EndpointConfig("Home", "gopher", "gopher://x"), http)
    assert caught.value.person == "'Home' speaks 'gopher', which this version of Nightdesk does not know."


async def test_the_embedded_model_is_opened_with_its_process(http):
    table = Table(http, Local(Tasks("local"), enabled=False))
    assert isinstance(table.open(EndpointConfig("Built in", "local", "")), LocalProvider)
    assert isinstance(table.open(EndpointConfig("Home", "openai-chat", "http://127.0.0.1/v1")), OpenAIChat)
