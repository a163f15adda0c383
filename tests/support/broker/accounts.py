"""Empty JetStream accounts for tests, on servers that do not outlive the modules that use them."""

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.broker.nats_server import NatsServer

# Of one server. More of them start slower, and each that was used costs its server time until the end.
ACCOUNTS = 60


class Accounts(Iterator[str]):
    """The URL of one account after another, each of which no test has used."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._servers: list[NatsServer] = []
        self._unused: list[str] = []

    def __next__(self) -> str:
        if not self._unused:
            server = NatsServer(self._new_folder(), accounts=ACCOUNTS)
            self._servers.append(server)
            server.start()
            self._unused = server.account_urls
        return self._unused.pop()

    def end_used_up(self) -> None:
        """End the servers without an unused account; called when no test uses them any more."""
        self._end(self._servers[:-1] if self._unused else self._servers)

    def close(self) -> None:
        self._end(self._servers)

    def _end(self, servers: list[NatsServer]) -> None:
        for server in list(servers):
            # To stop it would write the state of thousands of streams that nobody reads.
            server.kill()
            server.remove_store()
            self._servers.remove(server)
