"""Background tasks: owned, isolated from each other, closed in order."""

import asyncio
import logging

import pytest

from app.tasks import Tasks, shielded


async def test_a_failure_is_logged_and_touches_no_sibling(caplog: pytest.LogCaptureFixture) -> None:
    tasks, done = Tasks("test"), asyncio.Event()

    async def fail() -> None:
        raise ValueError("broken")

    async def work() -> None:
        await done.wait()

    sibling = tasks.start("sibling", work())
    failing = tasks.start("failing", fail())
    with caplog.at_level(logging.ERROR):
        await asyncio.wait({failing})
        await asyncio.sleep(0)
    assert "test: failing" in caplog.text
    done.set()
    await sibling
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_closing_refuses_then_cancels_in_reverse_order() -> None:
    tasks, ended = Tasks("test"), list[str]()

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    tasks.start("first", wait("first"))
    tasks.start("second", wait("second"))
    await asyncio.sleep(0)
    await tasks.close()
    assert ended == ["second", "first"]
    with pytest.raises(RuntimeError, match="closed"):
        tasks.start("late", wait("late"))


async def test_closing_gives_work_its_grace() -> None:
    tasks, ended = Tasks("test"), list[str]()

    async def work() -> None:
        await asyncio.sleep(0)
        ended.append("done")

    tasks.start("work", work())
    await tasks.close(grace=5)
    assert ended == ["done"]


async def test_shielded_work_ends_although_its_caller_was_cancelled() -> None:
    tasks, begun, go, ended = Tasks("test"), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go.wait()
        ended.set()

    caller = tasks.start("caller", shielded(tasks, "work", work()))
    await begun.wait()
    caller.cancel()
    await asyncio.wait({caller})
    go.set()
    await asyncio.wait_for(ended.wait(), 5)
    assert caller.cancelled()
