"""The bench's upstream: a server of its own that streams chat completions and adds no delay.

The model's name says what comes: `text-RATE-COUNT` sends words, `stamp-RATE-COUNT` sends the monotonic clock
in nanoseconds as each token, so that whoever reads it on this machine knows how old it is. RATE is tokens per
second, 0 is as fast as the connection takes them. Prints its URL; ends with its standard input.
"""

import asyncio
import json
import re
import sys
import time

_WORDS = ("the", "lamp", "over", "a", "desk", "is", "lit", "and", "pages", "are", "read", "by", "night")
_BATCH = 200


class Stream(asyncio.Protocol):
    """One connection: requests in, chunked event streams out."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.buffer, self.paused = transport, b"", False
        self.timer: asyncio.TimerHandle | None = None

    def connection_lost(self, error: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head.lower())
        if not found or (length and len(body) < int(length[1])):
            return
        self.buffer = b""
        if head.startswith(b"GET"):
            self._answer_models()
        else:
            self._begin(json.loads(body)["model"])

    def _answer_models(self) -> None:
        names = [
            "text-0-2000",
            "text-0-20000",
            "text-50-500",
            "stamp-30-300",
            "stamp-50-250",
            "stamp-0-1",
            "text-30-300",
        ]
        body = json.dumps(
            {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
        ).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)

    def _begin(self, model: str) -> None:
        kind, rate, count = model.split("-")
        self.kind, self.left, self.sent = kind, int(count), 0
        self.pause = 1 / int(rate) if int(rate) else 0.0
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        self.due = asyncio.get_running_loop().time()
        self._tick()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        if self.paused:
            self.timer = loop.call_later(0.001, self._tick)
            return
        many = 1 if self.pause else min(_BATCH, self.left)
        self.transport.write(b"".join(_chunk(self._token()) for _ in range(many)))
        self.left -= many
        if not self.left:
            self.transport.write(_chunk("", '"stop"') + _frame(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            return
        self.due += self.pause
        self.timer = loop.call_at(self.due, self._tick)

    def _token(self) -> str:
        self.sent += 1
        if self.kind == "stamp":
            return f"{time.monotonic_ns()} "
        return _WORDS[self.sent % len(_WORDS)] + (". \\n\\n" if self.sent % 60 == 0 else " ")


def _chunk(text: str, finish: str = "null") -> bytes:
    data = (
        '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
        f'"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":{finish}}}]}}'
    )
    return _frame(f"data: {data}\n\n".encode())


def _frame(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Stream, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
