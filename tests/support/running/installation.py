"""A NATS server with the configuration that `nats-config` prints, and the settings of each part."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import nats
import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from typer.testing import CliRunner

from pyoco_server.admin_cli import app as admin_app
from pyoco_server.broker.queue.tag_consumers import ensure_consumer
from pyoco_server.broker.streams_and_buckets import resources
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import SecuredNats
from tests.support.waiting import LIMIT_SEC

KEY = "$KV.pyoco_auth.key.forged"


@dataclass(frozen=True)
class Installation:
    """One server, and the settings of each part."""

    server: SecuredNats
    users: dict[str, dict[str, str]]
    base: NatsBackendConfig

    def settings(self, user: str, **changes: Any) -> NatsBackendConfig:
        known = self.users[user]
        return replace(
            self.base,
            nats_url=self.server.url,
            nats_user=known["user"],
            nats_password=known["password"],
            **changes,
        )

    @asynccontextmanager
    async def client(self, user: str) -> AsyncIterator[tuple[Client, list[str]]]:
        """A bare client, for what our own programs would not try; and what the server complained about."""
        complaints: list[str] = []

        async def on_error(error: Exception) -> None:
            complaints.append(str(error))

        known = self.users[user]
        client = await nats.connect(
            self.server.url, user=known["user"], password=known["password"], error_cb=on_error
        )
        try:
            yield client, complaints
        finally:
            await client.close()


def printed(*arguments: str) -> dict[str, Any]:
    """The accounts that the command prints."""
    result = CliRunner().invoke(admin_app, ["nats-config", *arguments])
    assert result.exit_code == 0, result.output
    accounts: dict[str, Any] = json.loads(result.stdout.partition("\naccounts: ")[2])
    return accounts


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecuredNats, dict[str, Any]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOCO_LOAD_DOTENV", "0")
        accounts = printed("--worker", "worker", "--worker", "gpu=gpu")
    server = SecuredNats(tmp_path_factory.mktemp("secured"), accounts=accounts)
    server.start()
    yield server, {user["user"]: user for account in accounts.values() for user in account["users"]}
    server.stop()


@pytest.fixture
async def installation(
    started: tuple[SecuredNats, dict[str, Any]], config: NatsBackendConfig
) -> AsyncIterator[Installation]:
    """The shared server, emptied and set up anew."""
    server, users = started
    found = Installation(server, users, replace(config, sweep_interval_sec=0.3))
    async with connected(found.settings("admin")) as admin:
        for tag in ("default", "gpu"):
            await ensure_consumer(admin, tag)
    yield found
    async with found.client("admin") as (client, _):
        for stream in resources(config):
            await client.jetstream().delete_stream(str(stream.name))


def violations(caplog: pytest.LogCaptureFixture) -> list[str]:
    words = ("permissions violation", "nothing answers")
    return [text for text in caplog.messages if any(word in text.lower() for word in words)]


# What a worker must not be able to do


async def answered(client: Client, subject: str, payload: bytes = b"") -> dict[str, Any] | None:
    """The same for a request that the server takes: its answer may be long in coming."""
    return await request(client, subject, payload, within=LIMIT_SEC)


async def request(
    client: Client, subject: str, payload: bytes = b"", *, within: float = 1.0
) -> dict[str, Any] | None:
    """The answer of the server; None when it did not take the request at all."""
    try:
        reply = await client.request(subject, payload, timeout=within)
    except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
        return None
    answer: dict[str, Any] = json.loads(reply.data or b"{}")
    return answer
