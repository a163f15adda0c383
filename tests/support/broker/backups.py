"""A copy of a NATS server's data that is put in its place later: a restored backup, or a lost tail."""

import shutil
from pathlib import Path

from tests.support.broker.nats_server import NatsServer


class Backup:
    """What the server had on its disk at a moment."""

    def __init__(self, server: NatsServer, data: Path, copy: Path) -> None:
        self._server = server
        self._data = data
        self._copy = copy

    def take(self) -> None:
        """Copy the data between two of the server's moments, as a power failure would leave it."""
        shutil.rmtree(self._copy, ignore_errors=True)
        with self._server.paused():
            shutil.copytree(self._data, self._copy)

    def restore(self) -> None:
        """End the server without warning, and start it with the copy."""
        self._server.kill()
        shutil.rmtree(self._data)
        shutil.copytree(self._copy, self._data)
        self._server.start()
