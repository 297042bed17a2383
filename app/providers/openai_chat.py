"""OpenAI chat completions, and all that speak them: https://platform.openai.com/docs/api-reference/chat

llama.cpp, Ollama, vLLM, LM Studio, OpenRouter, DeepSeek, Groq, Mistral, Gemini, Azure and so on. What they do
differently in a stream is the decoder's affair; what they want differently in a request is learned from what
they refuse (`Dialect`), never guessed from a name.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from app.core.errors import ProviderError
from app.outbound import Broken, Http, HttpResponse, OutboundError, Timeout
from app.providers.base import Done, EndpointConfig, FoundModel, ProviderEvent, Request
from app.providers.calls import calls_in
from app.providers.chat_decoder import ChatDecoder
from app.providers.chat_request import Dialect, body_of
from app.providers.failures import Failures, WireError, error_of_body
from app.providers.listing import is_llama_cpp, models_in, window_in

__all__ = ["ChatDecoder", "OpenAIChat"]

_ERROR_LIMIT = 64 * 1024
_LISTING_LIMIT = 16 * 1024 * 1024
_LISTING_TIMEOUT = 15.0
# How long to wait for usage and end mark once a finish_reason has come; some servers send neither and hang, or
# send comments to keep the connection open.
_AFTER_FINISH = 10.0
# How long to wait for the end of the body after the end mark, so that the connection can be used again.
_AFTER_DONE = 0.05


class OpenAIChat:
    """One endpoint. `http` reaches it; the key in `config` goes into the request's header and nowhere else."""

    def __init__(self, config: EndpointConfig, http: Http) -> None:
        self.config = config
        self._http = http
        self._failures = Failures(config)
        self._dialect = Dialect()

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """See `Provider`. Close the generator (`contextlib.aclosing`) to close the connection."""
        decoder = ChatDecoder(calls_in(request.messages))
        clock, patience = asyncio.get_running_loop().time, min(_AFTER_FINISH, self.config.idle_timeout)
        with self._failures.mapped(self.config.idle_timeout):
            async with self._answer(request) as response:
                chunks = response.chunks()
                try:
                    async for chunk in chunks:
                        for event in decoder.feed(chunk):
                            yield event
                        if decoder.finished or decoder.error is not None:
                            break
                    until = clock() + patience
                    while decoder.awaits_end and (chunk := await _next(chunks, until - clock())):
                        for event in decoder.feed(chunk):
                            until = clock() + patience
                            yield event
                except (Timeout, Broken):
                    for event in decoder.close():
                        if not isinstance(event, Done):
                            yield event
                    raise
                if decoder.ended:
                    await _next(chunks, _AFTER_DONE)
                for event in decoder.close():
                    yield event
        if decoder.error is not None:
            raise self._failures.inside(decoder.error, shown=decoder.seen, model=request.model)

    async def models(self) -> list[FoundModel]:
        """What `GET /models` lists. llama.cpp tells there what a model could do, and under `/props` what it does."""
        with self._failures.mapped(_LISTING_TIMEOUT):
            async with self._ask("GET", self._url("/models"), None, _LISTING_TIMEOUT) as response:
                if not 200 <= response.status < 300:
                    raise await self._refusal(response)
                listing = _parsed(await response.read(_LISTING_LIMIT))
            models = models_in(listing)
            if models is None:
                raise self._failures.not_a_stream(f"no list of models: {str(listing)[:200]}")
        if is_llama_cpp(listing) and len(models) == 1:
            window = window_in(await self._props())
            models = [replace(model, context_length=window or model.context_length) for model in models]
        return models

    @asynccontextmanager
    async def _answer(self, request: Request) -> AsyncIterator[HttpResponse]:
        """The answer to `request`, asked again in another way where the endpoint refuses how it was said.

        That ends: `learn` says yes at most once for each thing there is to learn.
        """
        url, answered = self._url("/chat/completions"), False
        try:
            while True:
                body = body_of(request, self._dialect)
                async with self._ask("POST", url, body, self.config.idle_timeout) as response:
                    answered = True
                    if 200 <= response.status < 300:
                        if response.headers.get("content-type", "").startswith("text/html"):
                            raise self._failures.not_a_stream("text/html")
                        yield response
                        return
                    refusal = await self._refusal(response, request.model)
                if response.status not in (400, 422) or not self._dialect.learn(str(refusal)):
                    raise refusal
        except Broken as error:
            if answered:
                raise
            raise self._failures.silent(error) from error

    async def _refusal(self, response: HttpResponse, model: str = "") -> ProviderError:
        try:
            error = error_of_body(await response.read(_ERROR_LIMIT))
        except OutboundError:  # the status says enough
            error = WireError()
        return self._failures.refused(response.status, error, response.headers, model)

    async def _props(self) -> Any:
        """`/props` of llama.cpp, which is not under `/v1`; None if there is none."""
        try:
            async with self._ask("GET", self._url("/props", below="/v1"), None, _LISTING_TIMEOUT) as response:
                return _parsed(await response.read(_LISTING_LIMIT)) if response.status == 200 else None
        except OutboundError:
            return None

    def _ask(
        self, method: str, url: str, body: Any, idle_timeout: float
    ) -> AbstractAsyncContextManager[HttpResponse]:
        key = (self.config.key or "").strip()
        if not (key.isascii() and key.isprintable()):
            raise self._failures.refused(401, WireError(message="the key holds characters that no key has"))
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return self._http.stream(method, url, headers=headers, json=body, idle_timeout=idle_timeout)

    def _url(self, path: str, below: str = "/chat/completions") -> str:
        """The address of `path`, next to the base address without `below`; a query of the base address stays."""
        try:
            base = urlsplit(self.config.base_url.strip())
        except ValueError:
            return self.config.base_url  # `outbound` says what is wrong with it
        root = base.path.rstrip("/").removesuffix("/chat/completions").removesuffix(below).rstrip("/")
        return urlunsplit(base._replace(path=root + path, fragment=""))


async def _next(chunks: AsyncIterator[bytes], seconds: float) -> bytes:
    """The next chunk; nothing if it ends, breaks or takes longer than `seconds`."""
    if seconds <= 0:
        return b""
    try:
        async with asyncio.timeout(seconds):
            return await anext(chunks, b"")
    except (TimeoutError, OutboundError):
        return b""


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body[:200].decode("utf-8", "replace")
