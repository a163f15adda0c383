"""A worker that kills itself at one point of a run's way: what others find then is all there is.

`python -m tests.support.running.crashing_worker <point> <arguments of pyoco-worker>`; the points are below.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.cli.worker_command import main
from pyoco_server.worker.session import presence
from tests.support.running.crashing_gateway import CrashPoint
from tests.support.waiting import NEVER_SEC

# For whatever must not overtake the journal, and perhaps does.
_PATIENCE_SEC = 1.0


def _die_before_journalling(*tasks: str) -> None:
    """When one of these tasks, or a step of it, is done; the rest of the run gets time to continue."""
    append, create = Journal.append, WaitStore.create
    asked = asyncio.Event()

    async def last_append(self: Journal, tag: str, run_id: str, entry: Any) -> None:
        if entry.task not in tasks:
            await append(self, tag, run_id, entry)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SEC):
                await asked.wait()
        os.kill(os.getpid(), signal.SIGKILL)

    async def reporting_create(self: WaitStore, record: Any, **outbox: Any) -> int:
        revision = await create(self, record, **outbox)
        asked.set()
        return revision

    Journal.append, WaitStore.create = last_append, reporting_create  # type: ignore[method-assign]


def _die_at_first_claim() -> None:
    """However long it takes until a gateway has seen this worker."""
    presence._SEEN_WITHIN_SEC = NEVER_SEC
    os.environ["PYOCO_WORKER_LOST_AFTER_SEC"] = str(NEVER_SEC)
    CrashPoint(RunStore, "replace").die(at=1)


POINTS: dict[str, Callable[[], None]] = {
    "task done": partial(_die_before_journalling, "prepare", "lie_down"),
    "step done": partial(_die_before_journalling, "approve", "nap"),
    "asked": partial(CrashPoint(WaitStore, "create").die, at=1),
    "suspended": partial(CrashPoint(Delivery, "ack", before=True).die, at=1),
    "delivered": partial(CrashPoint(RunStore, "replace", before=True).die, at=1),
    # In the middle of a large output, and before anything refers to it.
    "output part stored": partial(CrashPoint(RunObjects, "_write").die, at=12),
    "output stored": partial(CrashPoint(RunObjects, "put").die, at=1),
    "first claim": _die_at_first_claim,
    "claimed": partial(CrashPoint(RunStore, "replace").die, at=1),
    # Each write of the uploads of a run, in turn.
    **{f"upload {at}": partial(CrashPoint(RunObjects, "_write").die, at=at) for at in range(1, 7)},
}

if __name__ == "__main__":
    POINTS[sys.argv.pop(1)]()
    main()
