"""A NATS server with users, accounts or TLS: whatever its configuration says beside the usual."""

from pathlib import Path
from typing import Any

from tests.support.broker.nats_server import NatsServer


class SecuredNats(NatsServer):
    def __init__(self, data_dir: Path, **options: Any) -> None:
        super().__init__(data_dir)
        self._options = options

    def _configuration(self) -> dict[str, object]:
        return {**super()._configuration(), **self._options}
