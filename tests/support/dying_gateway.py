"""A gateway that kills itself in the middle of its work: who watches it from outside may be too late.

`python -m tests.support.dying_gateway <moment> <count> <arguments of pyoco-server>`: behind so many chunks of
a wheel that are stored (`chunk`), or items of a bulk operation that are dealt with (`item`).
"""

import itertools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from pyoco_server.broker.object_store import ObjectStore
from pyoco_server.cli.server import main
from pyoco_server.runs.bulk_steps import BulkSteps

MOMENTS: dict[str, tuple[type, str]] = {
    "chunk": (ObjectStore, "_store_chunk"),
    "item": (BulkSteps, "take"),
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
