"""Fixtures for tests of the broker: a server that is killed or restored, and a worker's intake."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.intake import Intake
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.backups import Backup
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer


@pytest.fixture
async def own_connection(config: NatsBackendConfig, own_nats: NatsServer) -> AsyncIterator[Connection]:
    async with connected(replace(config, nats_url=own_nats.url)) as connection:
        yield connection


@pytest.fixture
def backup(own_nats: NatsServer, tmp_path: Path) -> Backup:
    return Backup(own_nats, tmp_path / "own-nats", tmp_path / "backup")


@pytest.fixture
async def intake(connection: Connection) -> AsyncIterator[Intake]:
    """Of a worker with the tag `default`."""
    intake = Intake(connection, ["default"])
    await intake.start()
    yield intake
    await intake.close()
