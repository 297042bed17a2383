"""One place owns every background task: strong references, names, an orderly close.

`Tasks.start` is the only caller of `asyncio.create_task` (a lint holds it): a task that nobody refers to may
be collected in the middle of its work, and one that fails in silence is a lost reply.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Tasks:
    """A group of background tasks. A failure is logged and touches no sibling."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._running: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._running)

    def start(self, name: str, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `coroutine` in the background under `name`. Raises RuntimeError once the group is closed."""
        if self._closed:
            coroutine.close()
            raise RuntimeError(f"{self.name} is closed")
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self.name}: {name}")
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("task failed: %s", task.get_name(), exc_info=error)

    async def close(self, grace: float = 0.0) -> None:
        """Refuse new tasks, wait `grace` seconds, then cancel what is left in reverse order of start."""
        self._closed = True
        if self._running and grace > 0:
            await asyncio.wait(self._running, timeout=grace)
        for task in reversed(list(self._running)):
            task.cancel()
            await asyncio.wait({task})


async def shielded(tasks: Tasks, name: str, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` to its end as a task of its own, even if the caller is cancelled meanwhile."""
    return await asyncio.shield(tasks.start(name, coroutine))
