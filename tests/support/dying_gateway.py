"""A gateway that kills itself in the middle of its work: who watches it from outside may be too late.

`python -m tests.support.dying_gateway <moment> <count> <arguments of pyoco-server>`: behind the call of this
number of the method that `MOMENTS` names, such as the first job that is published.
"""

import itertools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from pyoco_server.broker.bulk_records import BulkRecords
from pyoco_server.broker.dead_letters import DeadLetters
from pyoco_server.broker.idempotency_keys import IdempotencyKeys
from pyoco_server.broker.object_store import ObjectStore
from pyoco_server.broker.run_store import RunStore
from pyoco_server.broker.wait_events import WaitEvents
from pyoco_server.broker.wait_store import WaitStore
from pyoco_server.broker.work_queue import WorkQueue
from pyoco_server.cli.server import main
from pyoco_server.runs.bulk_steps import BulkSteps

MOMENTS: dict[str, tuple[type, str]] = {
    "chunk": (ObjectStore, "_store_chunk"),
    "item": (BulkSteps, "take"),
    "key held": (IdempotencyKeys, "create"),
    "key accepted": (IdempotencyKeys, "replace"),
    "part of a bulk operation": (BulkRecords, "_create_part"),
    "bulk operation": (BulkRecords, "create"),
    "progress of a bulk operation": (BulkRecords, "replace"),
    "run created": (RunStore, "create"),
    "run replaced": (RunStore, "replace"),
    "job": (WorkQueue, "publish"),
    "letter deleted": (DeadLetters, "delete"),
    "wait event": (WaitEvents, "publish"),
    "wait": (WaitStore, "create"),
}


def dying(step: Callable[..., Awaitable[Any]], behind: int) -> Callable[..., Awaitable[Any]]:
    numbers = itertools.count(1)

    @wraps(step)
    async def last(*args: Any, **kwargs: Any) -> Any:
        done = await step(*args, **kwargs)
        if next(numbers) == behind:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return last


if __name__ == "__main__":
    owner, name = MOMENTS[sys.argv.pop(1)]
    setattr(owner, name, dying(getattr(owner, name), behind=int(sys.argv.pop(1))))
    main()
