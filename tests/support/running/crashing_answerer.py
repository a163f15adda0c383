"""A gateway's part in an answer, in a process that kills itself behind one of its writes.

`python -m tests.support.running.crashing_answerer <nats url> <wait id> <decision id> <after>`; `after` is
`decided`, `told` or `published`.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.wait_events import WaitEvents
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.human.answers.answering import Answer, AnswerHandler
from pyoco_server.records.wait_models import Actor
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from tests.support.waiting import LIMIT_SEC

WRITES: dict[str, tuple[type, str]] = {
    "decided": (WaitStore, "replace"),
    "told": (WaitEvents, "publish"),
    "published": (WorkQueue, "publish_continuation"),
}


def die_after(owner: type, name: str) -> None:
    write = getattr(owner, name)

    async def last_write(*args: Any, **kwargs: Any) -> None:
        await write(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, last_write)


async def main(nats_url: str, wait_id: str, decision_id: str, after: str) -> None:
    die_after(*WRITES[after])
    connection = Connection(NatsBackendConfig(nats_url=nats_url, load_dotenv=False), name="dying")
    await connection.start()
    await connection.wait_ready(LIMIT_SEC)
    answer = Answer(payload={"ok": True}, decision_id=decision_id)
    await AnswerHandler(connection).respond(wait_id, answer, ANYBODY, Actor(name="ann"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
