"""A gateway and NATS with least rights: the attacker has the credentials of the worker group `cpu` alone."""

import json
import pickle
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import nats.errors
import nats.js.errors
import pytest
import pytest_asyncio
from nats.aio.client import Client

from pyoco_server.broker.queue.tag_consumers import ensure_consumer
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.journal_models import JournalEntry
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import SecuredNats
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.installation import Installation, printed
from tests.support.running.workers import serving_worker

TAGS = ("cpu", "gpu")


class CodeThatRuns:
    """Its pickle writes a file where it is loaded."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._mark,)


@dataclass
class Attacker:
    """Whoever has the NATS credentials of a worker of group `cpu`."""

    client: Client

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> bool:
        """Whether the server has stored it."""
        try:
            await self.client.jetstream().publish(subject, payload, headers=headers, timeout=1.0)
        except (nats.errors.Error, nats.js.errors.Error):
            return False
        return True

    async def write_run(self, run: dict[str, Any]) -> None:
        assert await self.publish(f"$KV.pyoco_runs.{run['run_id']}", json.dumps(run).encode())

    async def read_run(self, run_id: str) -> dict[str, Any]:
        stored = await self.client.jetstream().get_last_msg("KV_pyoco_runs", f"$KV.pyoco_runs.{run_id}")
        run: dict[str, Any] = json.loads(stored.data or b"")
        return run

    async def write_journal(
        self, run_id: str, payload: bytes, headers: dict[str, str] | None = None
    ) -> list[bool]:
        """Under every subject that a journal has or had: whether each was stored."""
        tokens = (run_id, *(f"{tag}.{run_id}" for tag in TAGS))
        return [await self.publish(f"pyoco.journal.{token}", payload, headers) for token in tokens]


def forged_run(**fields: Any) -> dict[str, Any]:
    """A snapshot of a run of the group `gpu` that nobody has submitted."""
    now = time.time()
    return {
        "flow_name": "chain",
        "status": "PENDING",
        "params": {},
        "tasks": {},
        "heartbeat_at": now,
        "updated_at": now,
        "submitted_at": now,
        "tag": "gpu",
        "tags": ["gpu"],
        "tenant_id": "victim",
        "task_records": {},
        **fields,
    }


def pickled_entry(mark: Path, task: str = "load") -> bytes:
    """The journal entry of a finished task, whose result is code."""
    entry = JournalEntry(
        key=f"{task}||0",
        task=task,
        attempt=1,
        started_at=1.0,
        ended_at=2.0,
        output=pickle.dumps(CodeThatRuns(mark)),
        number=1,
    )
    return msgspec.msgpack.encode(entry)


@pytest.fixture(scope="module")
def two_groups(
    tmp_path_factory: pytest.TempPathFactory, shared_config: NatsBackendConfig
) -> Iterator[Installation]:
    """A server with the accounts of `nats-config --worker cpu=cpu --worker gpu=gpu`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOCO_LOAD_DOTENV", "0")
        accounts = printed("--worker", "cpu=cpu", "--worker", "gpu=gpu")
    server = SecuredNats(tmp_path_factory.mktemp("two-groups"), accounts=accounts)
    server.start()
    users = {user["user"]: user for account in accounts.values() for user in account["users"]}
    yield Installation(server, users, replace(shared_config, sweep_interval_sec=0.3))
    server.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attacked(two_groups: Installation) -> AsyncIterator[RunningGateway]:
    """A gateway with a worker of the group `gpu`."""
    async with connected(two_groups.settings("admin")) as admin:
        for tag in TAGS:
            await ensure_consumer(admin, tag)
    async with (
        running_gateway(two_groups.settings("gateway")) as gateway,
        serving_worker(two_groups.settings("gpu"), tags=["gpu"], worker_id="victim"),
    ):
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def attacker(two_groups: Installation) -> AsyncIterator[Attacker]:
    async with two_groups.client("cpu") as (client, _):
        yield Attacker(client)
