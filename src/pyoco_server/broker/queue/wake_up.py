"""Wake-up messages to one worker: the snapshot of one of its runs has changed, or its own record has.

Plain NATS without storage, because they are hints: a worker that misses one sees the change with its next
heartbeat, when its compare-and-set finds a newer revision.
"""

from collections.abc import Callable

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.records.value_types import is_run_id

_PREFIX = "pyoco.wake"
# Instead of a run id.
_OWN_RECORD = b"worker"


def wake_up_subject(worker_id: str) -> str:
    return f"{_PREFIX}.{worker_id}"


async def wake_owner(connection: Connection, *, worker_id: str, run_id: str) -> None:
    await connection.publish(wake_up_subject(worker_id), run_id.encode())


async def wake_worker(connection: Connection, worker_id: str) -> None:
    await connection.publish(wake_up_subject(worker_id), _OWN_RECORD)


class WakeUps:
    """The subscription of one worker."""

    def __init__(
        self,
        connection: Connection,
        *,
        worker_id: str,
        on_run: Callable[[str], None],
        on_own_record: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._subscription = RenewableSubscription(connection, self._on_message, wake_up_subject(worker_id))
        self._on_run = on_run
        self._on_own_record = on_own_record

    async def start(self) -> None:
        self._connection.on_connect(self._subscription.renew)
        await self._subscription.renew()

    def _on_message(self, message: Message) -> None:
        run_id = message.data.decode("ascii", "replace")
        if is_run_id(run_id):
            self._on_run(run_id)
        elif message.data == _OWN_RECORD:
            self._on_own_record()
