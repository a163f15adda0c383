"""A result of 200 MB passes through the worker and the gateway: neither of them ever holds much of it."""

from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from tests.support.places import FLOWS
from tests.support.programs import SERVER, WORKER, spawned
from tests.support.running.memory_peak import IS_COUNTED, MemoryPeak
from tests.support.waiting import LIMIT_SEC, eventually

SIZE = 200 * 1024 * 1024
MOST_GROWTH_MIB = 20

pytestmark = pytest.mark.skipif(not IS_COUNTED, reason="the kernel does not count")


async def test_a_large_result_is_stored_and_read_with_flat_memory(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    settings = {"PYOCO_NATS_URL": config.nats_url, "PYOCO_HIDE_PROCESS": "0"}
    with (
        spawned(SERVER, "up", "--port", "0", cwd=tmp_path, **settings) as (server, ready),
        spawned(WORKER, "--flows", str(FLOWS), cwd=tmp_path, **settings) as (worker, _),
    ):
        async with httpx.AsyncClient(base_url=ready["url"], timeout=LIMIT_SEC) as http:

            async def completed(size: int) -> str:
                body = {"flow_name": "returning-bytes", "params": {"size": size}}
                run_id: str = (await http.post("/runs", json=body)).json()["run_id"]

                async def ended() -> bool:
                    run = (await http.get(f"/runs/{run_id}")).json()
                    assert run["status"] not in ("FAILED", "CANCELLED"), run["error"]
                    return bool(run["status"] == "COMPLETED")

                await eventually(ended, describe="the run is completed")
                return run_id

            # With all that the first result needs.
            await http.get(f"/runs/{await completed(1_000_000)}/result")
            serving, storing = MemoryPeak(server.pid), MemoryPeak(worker.pid)
            run_id = await completed(SIZE)
            received = 0
            async with http.stream("GET", f"/runs/{run_id}/result") as response:
                async for block in response.aiter_raw():
                    received += len(block)
        assert received == SIZE
        grown = {"gateway": serving.growth_mib(), "worker": storing.growth_mib()}
        assert max(grown.values()) < MOST_GROWTH_MIB, grown
