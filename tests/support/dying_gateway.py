"""`pyoco-server` in a process that kills itself in the middle of a bulk operation.

`python -m tests.support.dying_gateway up ...`: as `pyoco-server up ...`, until it has dealt with 300 items.
"""

import itertools
import os
import signal

from pyoco_server.broker.bulk_records import BulkRecord
from pyoco_server.cli.entry import run
from pyoco_server.cli.server import app
from pyoco_server.runs.bulk_steps import BulkSteps, Step

LAST = 300

take, numbers = BulkSteps.take, itertools.count(1)


async def last_take(steps: BulkSteps, record: BulkRecord, item: str) -> Step:
    step = await take(steps, record, item)
    if next(numbers) == LAST:
        os.kill(os.getpid(), signal.SIGKILL)
    return step


if __name__ == "__main__":
    BulkSteps.take = last_take  # type: ignore[method-assign, assignment]
    run(app, "pyoco-server")
