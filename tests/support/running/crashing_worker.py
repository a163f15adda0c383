"""A worker that kills itself at one point of a run's way: what others find then is all there is.

`python -m tests.support.running.crashing_worker <point> <arguments of pyoco-worker>`; the points are below.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.cli.worker_command import main

# For whatever must not overtake the journal, and perhaps does.
_PATIENCE_SEC = 1.0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: type, name: str) -> Callable[[], None]:
    def set_up() -> None:
        async def never(*args: Any, **kwargs: Any) -> None:
            die()

        setattr(owner, name, never)

    return set_up


def _after(owner: type, name: str) -> Callable[[], None]:
    def set_up() -> None:
        write = getattr(owner, name)

        async def last_write(*args: Any, **kwargs: Any) -> None:
            await write(*args, **kwargs)
            die()

        setattr(owner, name, last_write)

    return set_up


def _before_journalling(task: str) -> Callable[[], None]:
    """When that task, or a step of it, is done; the rest of the run gets time to continue."""

    def set_up() -> None:
        append, create = Journal.append, WaitStore.create
        asked = asyncio.Event()

        async def last_append(self: Journal, run_id: str, entry: Any) -> None:
            if entry.task != task:
                await append(self, run_id, entry)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_SEC):
                    await asked.wait()
            die()

        async def telling_create(self: WaitStore, record: Any, **outbox: Any) -> int:
            revision = await create(self, record, **outbox)
            asked.set()
            return revision

        Journal.append, WaitStore.create = last_append, telling_create  # type: ignore[method-assign]

    return set_up


POINTS: dict[str, Callable[[], None]] = {
    "task done": _before_journalling("prepare"),
    "step done": _before_journalling("approve"),
    "asked": _after(WaitStore, "create"),
    "suspended": _before(Delivery, "ack"),
    "delivered": _before(RunStore, "replace"),
    "claimed": _after(RunStore, "replace"),
}

if __name__ == "__main__":
    POINTS[sys.argv.pop(1)]()
    main()
