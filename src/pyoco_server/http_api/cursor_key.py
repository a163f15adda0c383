"""The cursors of this gateway, signed with the key that all gateways share."""

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.shared_secret import shared_secret
from pyoco_server.runs.index.pagination import Cursors


class SharedCursors:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._cursors: Cursors | None = None
        connection.add_hook(self._forget)

    async def get(self) -> Cursors:
        """The key is read once per connection; NatsUnavailable when it cannot be."""
        if self._cursors is None:
            self._cursors = Cursors(await shared_secret(self._connection, "cursors"))
        return self._cursors

    async def _forget(self) -> None:
        # Whoever came back may have lost its data, and have another key now.
        self._cursors = None
