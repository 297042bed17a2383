"""Typed identifiers. Every id is a UUIDv7 (RFC 9562, section 5.7) in its canonical text form."""

import os
import re
import time
from typing import NewType
from uuid import UUID

UserId = NewType("UserId", str)
ChatId = NewType("ChatId", str)
MessageId = NewType("MessageId", str)
ReplyId = NewType("ReplyId", str)
RunId = NewType("RunId", str)
EndpointId = NewType("EndpointId", str)
ModelId = NewType("ModelId", str)
FileId = NewType("FileId", str)

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def new_id() -> str:
    """A fresh UUIDv7: 48 bits of Unix time in milliseconds, then 74 random bits."""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=value))


def new_run() -> RunId:
    """A fresh fencing token: 10 hexadecimal digits, new at each start of a reply.

    Short, because it stands in the `id:` of every event on the wire.
    """
    return RunId(os.urandom(5).hex())


def is_id(text: str) -> bool:
    """Whether `text` is a canonical UUIDv7, the only shape accepted from a client."""
    return _UUID7.fullmatch(text) is not None
