"""A large file passes through the worker and the gateway: neither of them ever holds much of it."""

import hashlib
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from tests.support.memory_peak import IS_COUNTED, MemoryPeak
from tests.support.places import FLOWS
from tests.support.programs import SERVER, WORKER, spawned
from tests.support.waiting import LIMIT_SEC, eventually

MIB = 1024 * 1024
FILE_MIB = 200
MOST_GROWTH_MIB = 20

pytestmark = pytest.mark.skipif(not IS_COUNTED, reason="the kernel does not count")


async def test_a_large_file_is_stored_and_downloaded_with_flat_memory(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    settings = {"PYOCO_NATS_URL": config.nats_url, "PYOCO_HIDE_PROCESS": "0"}
    with (
        spawned(SERVER, "up", "--port", "0", cwd=tmp_path, **settings) as (server, ready),
        spawned(WORKER, "--flows", str(FLOWS), cwd=tmp_path, **settings) as (worker, _),
    ):
        async with httpx.AsyncClient(base_url=ready["url"], timeout=LIMIT_SEC) as http:
            # Both have done what they do for the first time.
            await _run(http, 1)
            storing, serving = MemoryPeak(worker.pid), MemoryPeak(server.pid)
            run_id = await _run(http, FILE_MIB)
            [listed] = (await http.get(f"/runs/{run_id}/artifacts")).json()["artifacts"]
            digest = hashlib.sha256()
            async with http.stream("GET", f"/runs/{run_id}/artifacts/large.bin") as response:
                async for block in response.aiter_bytes():
                    digest.update(block)
        assert (listed["bytes"], listed["sha256"]) == (FILE_MIB * MIB, digest.hexdigest())
        assert storing.growth_mib() < MOST_GROWTH_MIB
        assert serving.growth_mib() < MOST_GROWTH_MIB


async def _run(http: httpx.AsyncClient, mib: int) -> str:
    submitted = await http.post("/runs", json={"flow_name": "large-file", "params": {"size": mib * MIB}})
    run_id: str = submitted.json()["run_id"]

    async def ended() -> bool:
        run = (await http.get(f"/runs/{run_id}")).json()
        assert run["status"] != "FAILED", run["error"]
        return bool(run["status"] == "COMPLETED")

    await eventually(ended, describe="the run has ended")
    return run_id
