"""kill -9 of a worker right after its first claim: its run does not wait for the default AckWait."""

import asyncio
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import httpx

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.worker_probe import WorkerProbe
from pyoco_server.broker.stores.workers.worker_registry import WorkerRegistry
from tests.faults.chaos.stack import Size, running_stack
from tests.faults.test_wait_worker_crashes import crashing_worker
from tests.flows import basics
from tests.support.running.workers import idle_worker
from tests.support.waiting import LIMIT_SEC, eventually

# Longer than a worker takes from its record to its first claim, if it does not wait until it is seen.
_UNSEEN_SEC = 4.0


async def _is_disconnected(connection: Connection, instance_id: str) -> None:
    probe = WorkerProbe(connection)
    await eventually(lambda: probe.disconnected([instance_id]), describe="NATS knows that it is gone")


async def test_a_worker_killed_right_after_its_first_claim_is_taken_over(tmp_path: Path) -> None:
    """The gateway is suspended while the worker starts, so that it cannot see it before it claims."""
    async with running_stack(tmp_path, Size(gateways=1, workers=0), default_settings=True) as stack:
        config, gateway = stack.connection.config, stack.gateways["g1"]
        registry = WorkerRegistry(stack.connection)
        async with (
            idle_worker(config, basics.noop_flow, worker_id="heir") as heir,
            httpx.AsyncClient(base_url=stack.urls[0], timeout=LIMIT_SEC, verify=False) as http,
        ):
            submitted = await http.post("/runs", json={"flow_name": "noop"})
            run_id = submitted.raise_for_status().json()["run_id"]
            gateway.pause()
            with crashing_worker(config, "first claim") as dying:
                record = await eventually(lambda: registry.get("dying"), describe="its record is stored")
                with suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(dying.process.wait, _UNSEEN_SEC)
                    # It has not waited until it is seen, and now it cannot be.
                    await _is_disconnected(stack.connection, record.instance_id)
                gateway.resume()
                assert await asyncio.to_thread(dying.end) == -signal.SIGKILL
            # How long it takes is measured by `make chaos`; a busy machine needs more than two seconds.
            assert await heir.run_once(config.consumer_ack_wait_sec / 2) == run_id
            run = (await http.get(f"/runs/{run_id}")).raise_for_status().json()
        assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)
