"""From what an endpoint said, or did not say, to one error of the tree with a calm sentence about it.

`person` names the endpoint by its label and says what to do; `detail` quotes the endpoint for the log. Neither
ever holds the key: some endpoints repeat it in their answers, so whatever they said is scrubbed first.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

from app.core.errors import (
    BrokenStream,
    ContextExceeded,
    IdleTimeout,
    KeyRefused,
    ModelMissing,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestRejected,
    Unreachable,
    WrongProtocol,
)
from app.core.text import storable
from app.outbound import Blocked, Broken, NoConnection, OutboundError, Timeout
from app.providers.base import EndpointConfig


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# What endpoints say about each kind of failure, in type, code or message. Many use no other sign.
_CONTEXT = _words(
    r"context.?(length|size|window)",
    r"maximum context",
    r"(prompt|input) is too long",
    r"too many (input )?tokens",
    r"reduce the length",
    r"tokens to keep from the initial prompt",
    r"exceed_context",
)
_CREDIT = _words(r"insufficient.?(quota|balance|credit|funds)", r"exceeded your current quota", r"billing")
_KEY = _words(r"invalid.?api.?key", r"incorrect api key", r"authentication", r"unauthori[sz]ed")
_RATE = _words(r"rate.?limit", r"too many requests", r"throttl", r"resource_exhausted")
_DOWN = _words(r"overload", r"(server|internal).?error", r"unavailable", r"timed? ?out", r"disconnected")
_MODEL = _words(r"model")
_MISSING = _words(
    r"model_not_found",
    r"model\b.{0,80}(not found|not exist|no longer)",
    r"(not a valid|unknown|no such|invalid) model",
)
# Keys of the usual forms, whole or masked ("sk-proj-abc***xyz"), and what stands behind "Bearer".
_SECRET = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf)[-_][\w*.…-]{6,}|(?<=Bearer )\S+", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")

_MOVED = "'{label}' has moved to another address. Enter it under Settings, Models."
_NO_CREDIT = "The account at '{label}' has no credit left. Top it up there, or choose another model."
_TOO_LONG = (
    "This chat has become longer than what the model at '{label}' can read at once. "
    "Begin a new chat, or choose a model with a larger context."
)
_TOO_MANY = "'{label}' is getting too many requests."
_DOWN_NOW = "'{label}' is overloaded or has a fault of its own."
_FAILED_INSIDE = "'{label}' reported an error in the middle of the reply. What had come is kept."
_NOT_THIS_API = (
    "'{label}' did not answer as a model's endpoint does. Check its address under Settings, Models; "
    "it often ends in /v1."
)


@dataclass(frozen=True, slots=True)
class WireError:
    """An error as an endpoint sent it; what it did not send is None."""

    type: str | None = None
    code: str | int | None = None
    message: str | None = None

    @property
    def words(self) -> str:
        """All of it in one line, to look for known words in."""
        return " ".join(str(value) for value in (self.type, self.code, self.message) if value is not None)


def error_in(body: Any, *, certain: bool = False) -> WireError | None:
    """The error that a JSON body or event holds. With `certain` any object is taken to be one."""
    if isinstance(body, list):
        body = body[0] if body else None
    if not isinstance(body, dict):
        return WireError(message=str(body)) if certain and isinstance(body, str) and body else None
    error = body.get("error") or body.get("errors")
    if isinstance(error, list):
        error = error[0] if error else None
    if error:
        return _of(error)
    status = body.get("base_resp")  # MiniMax
    if isinstance(status, dict) and status.get("status_code"):
        return _of({"code": status["status_code"], "message": status.get("status_msg")})
    if certain or ("choices" not in body and _is_error(body)):
        return _of(body)
    return None


def _is_error(body: Mapping[str, Any]) -> bool:
    """Whether an object without `error` and `choices` is one: vLLM, FastAPI, DashScope have their own forms."""
    return body.get("object") == "error" or "detail" in body or ("message" in body and "code" in body)


def _of(error: Any) -> WireError:
    if not isinstance(error, dict):
        return WireError(message=storable(str(error)))
    if isinstance(error.get("error"), dict) and not error.get("message"):
        error = error["error"]
    message = error.get("message") or error.get("detail") or error.get("msg")
    if message is not None and not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False)
    code = error.get("code")
    return WireError(
        type=storable(error["type"]) if isinstance(error.get("type"), str) else None,
        code=storable(code) if isinstance(code, str) else code if isinstance(code, int) else None,
        message=storable(message) if message is not None else None,
    )


def error_of_body(body: bytes) -> WireError:
    """The error in the body of an answer that was refused, in whatever form it is."""
    text = body.decode("utf-8", "replace").strip()
    try:
        return error_in(json.loads(text), certain=True) or WireError()
    except (ValueError, RecursionError):
        plain = " ".join(_TAG.sub(" ", text).split())
        return WireError(type="html" if text.startswith("<") else None, message=plain[:300] or None)


@dataclass(frozen=True)
class Failures:
    """Makes the errors of one endpoint."""

    config: EndpointConfig

    def refused(
        self, status: int, error: WireError, headers: Mapping[str, str] | None = None, model: str = ""
    ) -> ProviderError:
        """The endpoint answered with `status`, which is none of the 200s."""
        wait = _retry_after(headers or {})
        detail = self._detail(error, status)
        if 300 <= status < 400:
            return WrongProtocol(self._say(_MOVED), detail)
        if status == 402 or _CREDIT.search(error.words):
            return RequestRejected(self._say(_NO_CREDIT), detail)
        if status in (401, 403):
            return self._key_refused(detail)
        if status != 429 and (status == 413 or _CONTEXT.search(error.words)):
            return ContextExceeded(self._say(_TOO_LONG), detail)
        if status in (404, 405, 410) or (status == 400 and _MISSING.search(error.words)):
            return self._not_there(error, model, detail)
        if status == 429:
            return RateLimited(self._say(_TOO_MANY) + _in_a_while(wait), detail, wait)
        if status in (408, 425) or status >= 500:
            return Overloaded(self._say(_DOWN_NOW) + _in_a_while(wait), detail, wait)
        return self._rejected(error, detail)

    def inside(self, error: WireError, *, shown: bool, model: str = "") -> ProviderError:
        """The endpoint reported `error` under status 200; `shown` says that part of a reply had come."""
        detail, words = self._detail(error), error.words
        if error.type == "invalid_stream":
            return self.not_a_stream(error.message or "")
        if _CONTEXT.search(words):
            return ContextExceeded(self._say(_TOO_LONG), detail)
        if isinstance(error.code, int) and 401 <= error.code < 600:
            return self.refused(error.code, error, model=model)
        if _CREDIT.search(words):
            return RequestRejected(self._say(_NO_CREDIT), detail)
        if _KEY.search(words):
            return self._key_refused(detail)
        if _RATE.search(words):
            return RateLimited(self._say(_TOO_MANY) + _in_a_while(None), detail)
        if _MISSING.search(words):
            return self._not_there(error, model, detail)
        if shown:
            return BrokenStream(self._say(_FAILED_INSIDE), detail)
        if _DOWN.search(words):
            return Overloaded(self._say(_DOWN_NOW) + _in_a_while(None), detail)
        return self._rejected(error, detail)

    def not_a_stream(self, what: str) -> WrongProtocol:
        """The answer is a web page, or nothing that this API speaks."""
        return WrongProtocol(
            self._say(_NOT_THIS_API),
            f"{self.config.label}: not an answer of this API: {self._scrub(what)[:300]}",
        )

    def silent(self, error: OutboundError) -> Unreachable:
        """The connection was there, and was closed before any answer."""
        said = "'{label}' closed the connection without an answer. Check that it is running, and try again."
        return Unreachable(self._say(said), self._scrub(f"{self.config.label}: {error}"))

    @contextmanager
    def mapped(self, idle_timeout: float) -> Iterator[None]:
        """Turns what `outbound` raises into errors of the tree. `idle_timeout` is what it was given, in seconds."""
        try:
            yield
        except NoConnection as error:
            said = "'{label}' cannot be reached. Check that it is running, and its address under Settings, Models."
            raise Unreachable(self._say(said), self._scrub(f"{self.config.label}: {error}")) from error
        except Blocked as error:
            said = "Nightdesk does not connect to the address of '{label}'. Check it under Settings, Models."
            # Another try meets the same guard.
            raise RequestRejected(
                self._say(said), self._scrub(f"{self.config.label}: {error.reason}")
            ) from error
        except Timeout as error:
            seconds = f"{idle_timeout:g} seconds"
            said = (
                f"'{{label}}' has sent nothing for {seconds}. What had come is kept; try again or continue."
            )
            raise IdleTimeout(self._say(said), f"{self.config.label}: silent for {seconds}") from error
        except Broken as error:
            said = "The connection to '{label}' broke off in the middle of the reply. What had come is kept."
            raise BrokenStream(self._say(said), self._scrub(f"{self.config.label}: {error}")) from error

    def _key_refused(self, detail: str) -> KeyRefused:
        if not self.config.key:
            return KeyRefused(self._say("'{label}' asks for a key. Add one under Settings, Models."), detail)
        return KeyRefused(
            self._say("The key for '{label}' was refused. Check it under Settings, Models."), detail
        )

    def _not_there(self, error: WireError, model: str, detail: str) -> ProviderError:
        if not model or error.type == "html" or not _MODEL.search(error.words):
            return self.not_a_stream(detail)
        said = (
            f"'{{label}}' does not offer the model '{model}'. Choose another, or look under Settings, Models."
        )
        return ModelMissing(self._say(said), detail)

    def _rejected(self, error: WireError, detail: str) -> RequestRejected:
        if not error.message:
            return RequestRejected(self._say("'{label}' rejected the request."), detail)
        quoted = " ".join(self._scrub(error.message).split())
        quoted = quoted if len(quoted) <= 200 else quoted[:199] + "…"
        return RequestRejected(self._say("'{label}' rejected the request: ") + quoted, detail)

    def _say(self, sentence: str) -> str:
        return sentence.replace("{label}", self.config.label)

    def _detail(self, error: WireError, status: int | None = None) -> str:
        status_words = f"HTTP {status}: " if status is not None else ""
        return self._scrub(f"{self.config.label}: {status_words}{error.words[:500]}")

    def _scrub(self, text: str) -> str:
        """`text` without the key, or the beginning of it that a mask left over."""
        key = (self.config.key or "").strip()
        if key:
            text = text.replace(key, "[key]")
        if len(key) >= 12:
            text = re.sub(re.escape(key[:6]) + r"[^\s\"',;)]*", "[key]", text)
        return _SECRET.sub("[key]", text)


def _in_a_while(seconds: float | None) -> str:
    return f" Try again in {seconds:.0f} seconds." if 1 <= (seconds or 0) < 1e6 else " Try again in a moment."


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or an HTTP date)."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return max(0.0, float(milliseconds) / 1000)
        if value := headers.get("retry-after"):
            return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time())
    except ValueError:
        return None
