"""A person who uses the API and keeps a ledger: every answer of success is a promise to be checked later."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.server import ServerProcess, client
from tests.support.upstream import UpstreamProcess
from tests.support.upstream_modes import parse, text_of

ENDED = ("complete", "stopped", "failed", "interrupted")


@dataclass(frozen=True)
class Promise:
    """One acknowledged post: the key it was sent under, what was said, and the ids that came back."""

    key: str
    chat: str
    text: str
    message: str
    reply: str | None


@dataclass
class Caller:
    server: ServerProcess
    key: str
    ledger: list[Promise] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._http = client(self.server, self.key)

    def close(self) -> None:
        self._http.close()

    def reconnect(self) -> None:
        """After a restart: the server has another port."""
        self._http.close()
        self._http = client(self.server, self.key)

    def get(self, path: str) -> Any:
        answer = self._http.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._http.request(method, path, **options)

    def model(self, name: str) -> str:
        """The id of the upstream's model `name`, which is added first where it is not listed yet."""
        return next(str(m["id"]) for m in self.get("/api/v1/models")["items"] if m["name"] == name)

    def new_chat(self, model: str) -> str:
        answer = self._http.post("/api/v1/chats", json={"kind": "chat", "model": self.model(model)})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def try_post(self, chat: str, text: str, key: str) -> httpx.Response:
        return self._http.post(
            f"/api/v1/chats/{chat}/messages", json={"text": text}, headers={"Idempotency-Key": key}
        )

    def post(self, chat: str, text: str, key: str | None = None) -> Promise:
        """Send a message that must be accepted, and write it into the ledger."""
        key = key or str(uuid.uuid4())
        answer = self.try_post(chat, text, key)
        assert answer.status_code == 202, f"{answer.status_code} {answer.text}"
        body = answer.json()
        reply = body["reply"]["id"] if body["reply"] else None
        promise = Promise(key, chat, text, body["message"]["id"], reply)
        self.ledger.append(promise)
        return promise

    def reply(self, reply: str | None) -> dict[str, Any]:
        return dict(self.get(f"/api/v1/replies/{reply}"))

    def until(self, claim: Callable[[], Any], what: str, seconds: float = 20) -> Any:
        """Wait until `claim` holds; what it gave."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := claim():
                return found
            time.sleep(0.02)
        raise AssertionError(f"never happened: {what}")

    def ended(self, reply: str | None, seconds: float = 30) -> dict[str, Any]:
        """The reply once it has its outcome."""

        def over() -> dict[str, Any] | None:
            found = self.reply(reply)
            return found if found["state"] in ENDED else None

        found: dict[str, Any] = self.until(over, f"reply {reply} ends", seconds)
        return found

    def shown(self, reply: str | None, characters: int = 1) -> str:
        """The text so far, once it has at least so many characters."""
        text: str = self.until(
            lambda: (
                (t := self.reply(reply)["text"]) if len(self.reply(reply)["text"]) >= characters else None
            ),
            f"reply {reply} shows text",
        )
        return text

    def events(
        self, reply: str | None, headers: dict[str, str] | None = None
    ) -> Iterator[tuple[str, str, Any]]:
        """`(id, type, data)` of each event of the reply's stream until it closes."""
        with self._http.stream("GET", f"/api/v1/replies/{reply}/events", headers=headers or {}) as answer:
            assert answer.status_code == 200, answer.status_code
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif not line and "event" in fields:
                    yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
                    fields = {}

    def messages(self, chat: str) -> list[dict[str, Any]]:
        return list(self.get(f"/api/v1/chats/{chat}")["messages"])


def whole_texts(upstream: UpstreamProcess, prompt: str) -> list[str]:
    """What the upstream meant to answer to `prompt`, once for each time it was asked."""
    found = []
    for request in upstream.requests():
        asked = next(m["content"] for m in reversed(request["body"]["messages"]) if m["role"] == "user")
        if prompt in asked:
            _, options = parse(request["mode"])
            found.append(text_of(asked, int(options.get("seed", 0)), int(options.get("tokens", 40))))
    return found
