"""What decoding a chat stream costs: `python -m tests.bench.decode` prints microseconds per chunk.

Each kind of stream is read with one, eight and 64 events per network read. The best of several runs counts: on a
busy machine the others measure their neighbours.
"""

import json
import time
from collections.abc import Callable, Mapping

from app.providers.chat_decoder import ChatDecoder
from tests.bench.measures import Figure

CHUNKS = 10_000
RUNS = 5


def _event(delta: Mapping[str, object], **beside: object) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    head = {
        "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
        "object": "chat.completion.chunk",
        "created": 1741570283,
    }
    body = {
        **head,
        "model": "gpt-4o-2024-08-06",
        "system_fingerprint": "fp_fc9f1d70",
        "choices": [choice],
        **beside,
    }
    return b"data: " + json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


KINDS: Mapping[str, Callable[[int], bytes]] = {
    "text": lambda number: _event({"content": f" word{number}"}),
    "text, all alike but padded at random": lambda number: _event(
        {"content": " word"}, pad="x" * (number * 7 % 13)
    ),
    "text that is not ASCII": lambda number: _event({"content": f" wörter🌍{number}"}),
    "reasoning": lambda number: _event({"reasoning_content": f" word{number}"}),
    "usage in every chunk": lambda number: _event(
        {"content": " word"}, usage={"prompt_tokens": 9, "completion_tokens": number}
    ),
    "call arguments": lambda number: _event(
        {"tool_calls": [{"index": 0, "function": {"arguments": f'"{number}",'}}]}
    ),
}


def microseconds(stream: list[bytes]) -> float:
    """The cost of one chunk when each item of `stream` is one network read."""
    best = float("inf")
    for _ in range(RUNS):
        decoder = ChatDecoder()
        started = time.process_time_ns()
        for read in stream:
            decoder.feed(read)
        decoder.close()
        best = min(best, (time.process_time_ns() - started) / CHUNKS / 1000)
    return best


def figures() -> list[Figure]:
    """What a chunk costs when each comes in a network read of its own."""
    return [
        Figure(f"decoding, {name}", microseconds([make(number) for number in range(CHUNKS)]), "us", 12)
        for name, make in KINDS.items()
    ]


def main() -> None:
    print(f"{'us per chunk, by events in a network read':44}{'1':>8}{'8':>8}{'64':>8}")
    for name, make in KINDS.items():
        events = [make(number) for number in range(CHUNKS)]
        streams = ([b"".join(events[at : at + size]) for at in range(0, CHUNKS, size)] for size in (1, 8, 64))
        print(f"{name:44}" + "".join(f"{microseconds(stream):8.2f}" for stream in streams))


if __name__ == "__main__":
    main()
