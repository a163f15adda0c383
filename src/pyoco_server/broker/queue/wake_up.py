"""A word to one worker: look now, the snapshot of one of your runs has changed, or your own record has.

Plain NATS without storage, because it is only a hint: a worker that misses it sees the change with its
next heartbeat, when its compare-and-set finds a newer revision.
"""

from collections.abc import Callable

from nats.aio.msg import Msg

from pyoco_server.broker.client.connection import Connection
from pyoco_server.records.models import is_run_id

_PREFIX = "pyoco.wake"
# In the place of a run's id.
_OWN_RECORD = b"worker"


def wake_up_subject(worker_id: str) -> str:
    return f"{_PREFIX}.{worker_id}"


async def wake_owner(connection: Connection, *, worker_id: str, run_id: str) -> None:
    await connection.publish(wake_up_subject(worker_id), run_id.encode())


async def wake_worker(connection: Connection, worker_id: str) -> None:
    await connection.publish(wake_up_subject(worker_id), _OWN_RECORD)


class WakeUps:
    """The words to one worker, kept over reconnects."""

    def __init__(
        self,
        connection: Connection,
        *,
        worker_id: str,
        on_run: Callable[[str], None],
        on_own_record: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._subject = wake_up_subject(worker_id)
        self._on_run = on_run
        self._on_own_record = on_own_record
        self._client: object = None

    async def start(self) -> None:
        self._connection.add_hook(self._subscribe)
        await self._subscribe()

    async def _subscribe(self) -> None:
        # nats-py renews subscriptions over a reconnect, but not over a connection that was made anew.
        if self._client is not self._connection.client:
            self._client = self._connection.client
            await self._connection.subscribe(self._subject, self._on_message)

    async def _on_message(self, message: Msg) -> None:
        run_id = message.data.decode("ascii", "replace")
        if is_run_id(run_id):
            self._on_run(run_id)
        elif message.data == _OWN_RECORD:
            self._on_own_record()
