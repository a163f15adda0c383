"""A large wheel passes through the gateway and the worker: neither of them ever holds much of it.

The kernel counts the most memory that a process has had. The wheel cannot be compressed, and who held it as a
whole, even once, would have grown by more than its size.
"""

import os
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from tests.support.memory_peak import IS_COUNTED, MemoryPeak
from tests.support.programs import SERVER, WORKER, spawned
from tests.support.running.gateway import RunningGateway
from tests.support.samples.wheel_uploads import synced
from tests.support.samples.wheels import wheel_bytes
from tests.support.waiting import LIMIT_SEC

MIB = 1024 * 1024
WHEEL_MIB = 48
# Buffers, and what memory is not given back at once.
MOST_GROWTH_MIB = 16

pytestmark = pytest.mark.skipif(not IS_COUNTED, reason="the kernel does not count")


async def test_a_large_wheel_is_uploaded_and_synchronised_with_flat_memory(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    content = wheel_bytes("large", files={"large.bin": os.urandom(WHEEL_MIB * MIB)})
    settings = {"PYOCO_NATS_URL": config.nats_url, "TMPDIR": str(tmp_path), "PYOCO_HIDE_PROCESS": "0"}
    syncing = {"PYOCO_WHEEL_SYNC_ENABLED": "1", "PYOCO_WHEEL_SYNC_DIR": str(tmp_path / "wheels")}
    with (
        spawned(SERVER, "up", "--port", "0", cwd=tmp_path, **settings) as (server, ready),
        spawned(WORKER, "--worker-id", "w-1", cwd=tmp_path, **settings, **syncing) as (
            worker,
            _,
        ),
    ):
        uploading, synchronising = MemoryPeak(server.pid), MemoryPeak(worker.pid)
        async with httpx.AsyncClient(base_url=ready["url"], timeout=LIMIT_SEC) as http:
            response = await http.post("/wheels", files={"wheel": ("large-0.1.0-py3-none-any.whl", content)})
        assert response.status_code == 200, response.text
        await synced(gateway, "w-1", last_result="ok", updated_count=1)
        assert uploading.growth_mib() < MOST_GROWTH_MIB
        assert synchronising.growth_mib() < MOST_GROWTH_MIB
    assert len(list((tmp_path / "wheels").rglob("large.bin"))) == 1
