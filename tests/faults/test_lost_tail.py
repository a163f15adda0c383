"""A NATS that lost its newest messages while gateways and workers live on; and one restored from a backup.

Runs and writes are lost then, which nobody can change. What is promised: every gateway lists what the bucket
has, every run that is still there ends, and the service goes on.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from pyoco_server.broker.jetstream.stream_reads import last_sequence
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import TERMINAL, decode_snapshot
from tests.faults.chaos.history import read_everything
from tests.faults.chaos.stack import Size, Stack, running_stack
from tests.support.broker.backups import Backup
from tests.support.broker.nats_server import NatsServer
from tests.support.waiting import LIMIT_SEC, eventually

BUCKET = "$KV.pyoco_runs.*"
FLOWS = ("noop", "chain", "steps", "branches")
TWO_OF_EACH = Size(gateways=2, workers=2)


class Submitting:
    """A client that submits runs one after the other to any gateway, until it is told to stop."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._stopping = asyncio.Event()
        # By status; 0 where there was none.
        self.answers: Counter[int] = Counter()

    @property
    def accepted(self) -> int:
        return self.answers[200]

    async def run(self) -> None:
        number = 0
        async with httpx.AsyncClient(timeout=LIMIT_SEC, verify=False) as http:
            while not self._stopping.is_set():
                url = self._stack.urls[number % len(self._stack.urls)]
                body = {"flow_name": FLOWS[number % len(FLOWS)], "params": {"task_sec": 0.1}}
                number += 1
                try:
                    self.answers[(await http.post(f"{url}/runs", json=body)).status_code] += 1
                except httpx.TransportError:
                    self.answers[0] += 1
                await asyncio.sleep(0.05)

    def stop(self) -> None:
        self._stopping.set()

    async def has(self, more: int) -> None:
        """Wait until so many more runs were accepted."""
        wanted = self.accepted + more
        await eventually(lambda: self.accepted >= wanted, describe=f"{more} runs are accepted")


@asynccontextmanager
async def submitting(stack: Stack) -> AsyncIterator[Submitting]:
    client = Submitting(stack)
    async with asyncio.TaskGroup() as group:
        group.create_task(client.run())
        try:
            yield client
        finally:
            client.stop()


async def in_bucket(stack: Stack) -> dict[str, str]:
    """Every run that is stored, with its status."""
    messages = await read_everything(stack.connection, "KV_pyoco_runs", BUCKET)
    snapshots = (decode_snapshot(message.data) for message in messages if not message.is_marker)
    return {snapshot.run_id: snapshot.status for snapshot in snapshots}


async def listed(url: str) -> dict[str, str] | None:
    """Every run that a gateway lists; None while it cannot."""
    found: dict[str, str] = {}
    query = {"limit": "200", "paged": "true"}
    async with httpx.AsyncClient(timeout=LIMIT_SEC, verify=False) as http:
        while True:
            try:
                answer = await http.get(f"{url}/runs", params=query)
            except httpx.TransportError:
                return None
            if answer.status_code == 503:
                return None
            assert answer.status_code == 200, answer.text
            page = answer.json()
            found |= {item["run_id"]: item["status"] for item in page["items"]}
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]


async def check(stack: Stack) -> None:
    """Every run ends, every gateway lists what the bucket has, and a new run is executed."""

    async def all_ended() -> bool:
        try:
            runs = await in_bucket(stack)
        except NatsUnavailable:
            return False
        return all(status in TERMINAL for status in runs.values())

    await eventually(all_ended, describe="every run that is stored has ended")
    stored = await in_bucket(stack)
    for url in stack.urls:

        async def is_right(url: str = url) -> bool:
            return await listed(url) == stored

        await eventually(is_right, describe=f"{url} lists what the bucket has")
    async with httpx.AsyncClient(timeout=LIMIT_SEC, verify=False) as http:
        for url in stack.urls:
            answer = await http.post(f"{url}/runs", json={"flow_name": "chain", "params": {"task_sec": 0.0}})
            run_id = answer.json()["run_id"]

            async def has_completed(run_id: str = run_id, url: str = url) -> bool:
                return bool((await http.get(f"{url}/runs/{run_id}")).json().get("status") == "COMPLETED")

            await eventually(has_completed, describe="a new run is executed")


def backup_of(stack: Stack, folder: Path) -> Backup:
    assert isinstance(stack.nats, NatsServer)
    return Backup(stack.nats, folder / "nats", folder / "copy")


@pytest.mark.parametrize("lost_runs", [1, 20])
async def test_a_nats_that_lost_its_newest_messages_while_all_others_live(
    lost_runs: int, tmp_path: Path
) -> None:
    async with running_stack(tmp_path, TWO_OF_EACH, every_write=False) as stack:
        backup = backup_of(stack, tmp_path)
        async with submitting(stack) as client:
            await client.has(10)
            await asyncio.to_thread(backup.take)
            await client.has(lost_runs)
            await asyncio.to_thread(backup.restore)
            await client.has(10)
        await check(stack)


async def test_a_backup_restored_while_a_gateway_that_keeps_its_index_is_away(tmp_path: Path) -> None:
    async with running_stack(tmp_path, TWO_OF_EACH, every_write=False) as stack:
        backup, gateway = backup_of(stack, tmp_path), stack.gateways["g1"]
        async with submitting(stack) as client:
            await client.has(10)
            await asyncio.to_thread(backup.take)
            await client.has(10)
            assert await listed(stack.urls[0])
            gateway.kill()
            read_to = await last_sequence(stack.connection, "KV_pyoco_runs", BUCKET)
            await asyncio.to_thread(backup.restore)

            async def passed() -> bool:
                try:
                    return await last_sequence(stack.connection, "KV_pyoco_runs", BUCKET) > read_to
                except NatsUnavailable:
                    return False

            await eventually(passed, describe="the bucket's sequence has passed the old one")
            await gateway.start()
            await client.has(5)
        await check(stack)
