"""A gateway that kills itself in the middle of its work: who watches it from outside may be too late.

`python -m tests.support.dying_gateway <moment> <count> <arguments of pyoco-server>`: behind so many chunks of
a wheel that are stored (`chunk`), or items of a bulk operation that are dealt with (`item`); or inside the
answer to a wait: before its first write (`answer checked`), behind each of its writes (`answer stored`,
`answer reported`, `run queued`), or when the same answer
came again and was found to be the same (`repeated`).
"""

import itertools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from pyoco_server.broker.object_store import ObjectStore
from pyoco_server.broker.wait_events import WaitEvents
from pyoco_server.broker.wait_store import WaitStore
from pyoco_server.broker.work_queue import WorkQueue
from pyoco_server.cli.server import main
from pyoco_server.human.answering import Answers
from pyoco_server.runs.bulk_steps import BulkSteps
from pyoco_server.wait_models import WaitEventKind, WaitState


@dataclass(frozen=True)
class Moment:
    """A step of the gateway's work: it dies behind it, or in its place."""

    owner: type
    name: str
    # The same method is used for other things, too.
    counts: Callable[..., bool] = lambda *_: True
    before: bool = False


MOMENTS: dict[str, Moment] = {
    "chunk": Moment(ObjectStore, "_store_chunk"),
    "item": Moment(BulkSteps, "take"),
    "answer checked": Moment(Answers, "_decide", before=True),
    "answer stored": Moment(
        WaitStore, "replace", lambda _, record, *rest: record.state is WaitState.ANSWERED
    ),
    "answer reported": Moment(WaitEvents, "publish", lambda _, event: event.kind is WaitEventKind.ANSWERED),
    "run queued": Moment(WorkQueue, "publish_continuation"),
    "repeated": Moment(Answers, "_follow", before=True),
}


def dying(moment: Moment, at: int) -> Callable[..., Awaitable[Any]]:
    step = getattr(moment.owner, moment.name)
    numbers = itertools.count(1)

    @wraps(step)
    async def last(*args: Any, **options: Any) -> Any:
        is_last = moment.counts(*args) and next(numbers) == at
        if is_last and moment.before:
            os.kill(os.getpid(), signal.SIGKILL)
        done = await step(*args, **options)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return last


if __name__ == "__main__":
    moment = MOMENTS[sys.argv.pop(1)]
    setattr(moment.owner, moment.name, dying(moment, at=int(sys.argv.pop(1))))
    main()
