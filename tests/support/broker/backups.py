"""A copy of a NATS server's data that is restored later: a truncated stream."""

import shutil
from pathlib import Path

from tests.support.broker.nats_server import NatsServer


class Backup:
    """The data of the server at one time."""

    def __init__(self, server: NatsServer, data: Path, copy: Path) -> None:
        self._server = server
        self._data = data
        self._copy = copy

    def take(self) -> None:
        """Copy the data of the paused server, as a power failure would leave it."""
        shutil.rmtree(self._copy, ignore_errors=True)
        with self._server.paused():
            shutil.copytree(self._data, self._copy)

    def restore(self) -> None:
        """Kill the server, and start it with the copy."""
        self._server.kill()
        shutil.rmtree(self._data)
        shutil.copytree(self._copy, self._data)
        self._server.start()
