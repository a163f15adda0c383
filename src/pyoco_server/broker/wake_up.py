"""A word to one worker about one of its runs: look at it now, its snapshot has changed.

Plain NATS without storage, because it is only a hint: a worker that misses it sees the change with its
next heartbeat, when its compare-and-set finds a newer revision.
"""

from collections.abc import Callable

from nats.aio.msg import Msg

from pyoco_server.broker.connection import Connection
from pyoco_server.models import is_run_id

_PREFIX = "pyoco.wake"


async def wake_owner(connection: Connection, *, worker_id: str, run_id: str) -> None:
    await connection.publish(f"{_PREFIX}.{worker_id}", run_id.encode())


class WakeUps:
    """The words to one worker, kept over reconnects."""

    def __init__(self, connection: Connection, *, worker_id: str, on_wake: Callable[[str], None]) -> None:
        self._connection = connection
        self._subject = f"{_PREFIX}.{worker_id}"
        self._on_wake = on_wake
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
            self._on_wake(run_id)
