"""A gateway that is killed in the middle of an upload: nothing of it shows, and what it left is removed."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.config import NatsBackendConfig
from pyoco_server.wheels.wheel_registry import ABANDONED_SEC
from tests.support.places import ROOT
from tests.support.programs import running
from tests.support.running.gateway import RunningGateway
from tests.support.samples.wheels import wheel_bytes
from tests.support.waiting import LIMIT_SEC

NAME = "greetings-0.1.0-py3-none-any.whl"


async def chunks(gateway: RunningGateway) -> int:
    state = await stream_state(gateway.inside.connection, "OBJ_pyoco_wheels", subjects="$O.pyoco_wheels.C.>")
    return sum(state.subjects.values())


async def uploading(url: str, content: bytes) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_SEC) as http:
        with pytest.raises(httpx.TransportError):
            await http.post("/wheels", files={"wheel": (NAME, content)})


async def test_a_gateway_killed_while_it_stores_a_wheel_leaves_none_visible(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    content = wheel_bytes(files={"data.bin": os.urandom(32 * 1024 * 1024)})
    settings = {"PYOCO_NATS_URL": config.nats_url, "TMPDIR": str(tmp_path)}
    # By itself: who watches the chunks from here may be too late to kill it.
    dying = ("tests.support.running.crashing_gateway", "chunk", "100", "up", "--port", "0")
    with running(*dying, cwd=ROOT, **settings) as (program, ready):
        await uploading(ready["url"], content)
        assert await asyncio.to_thread(program.end) == -signal.SIGKILL, program.stderr
    stored = await chunks(gateway)
    assert 0 < stored < len(content) / (128 * 1024)
    assert (await gateway.http.get("/wheels")).json() == []
    assert (await gateway.http.get(f"/wheels/{NAME}")).status_code == 404
    # The file that it kept the upload in had no name, and is gone with it.
    assert [path for path in tmp_path.glob("*") if path.is_file() and path.stat().st_size > 10**6] == []

    registry = gateway.inside.wheels.registry
    assert await registry.drop_abandoned(ABANDONED_SEC) == 0, "it could still be under way"
    assert await registry.drop_abandoned(0) == 1
    assert await chunks(gateway) == 0
    again = await gateway.http.post("/wheels", files={"wheel": (NAME, wheel_bytes())})
    assert again.status_code == 200, again.text
    assert await registry.drop_abandoned(0) == 0
    assert await chunks(gateway) == 1
