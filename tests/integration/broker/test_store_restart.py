"""The embedded server is restarted when its store has stopped and there is space again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest

from pyoco_server.broker.embedded.data_folder import ENOUGH_BYTES
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.broker.embedded.store_restart import StoreRestarter
from tests.support.broker.full_disk import disk_full
from tests.support.waiting import LIMIT_SEC, eventually


class Disk:
    """Its free space, as the restarter sees it."""

    def __init__(self) -> None:
        self.free_bytes = 0
        self.times_looked = 0

    def free(self, folder: Path) -> int:
        self.times_looked += 1
        return self.free_bytes


@asynccontextmanager
async def restarter(server: EmbeddedNats, disk: Disk) -> AsyncIterator[list[str]]:
    events: list[str] = []
    restarting = StoreRestarter(server, events.append, poll_sec=0.02, free=disk.free)
    task = asyncio.create_task(restarting.run())
    try:
        yield events
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_stopped_store_is_restarted_with_its_data_as_soon_as_there_is_space(tmp_path: Path) -> None:
    async with EmbeddedNats(tmp_path) as server:
        connection = await nats.connect(server.url)
        context = connection.jetstream(timeout=LIMIT_SEC)
        await context.add_stream(name="KEPT", subjects=["kept"])
        await context.publish("kept", b"before")
        pid, port, disk = server.pid, server.port, Disk()
        ended = asyncio.create_task(server.wait())
        async with restarter(server, disk) as events:
            with disk_full(pid):
                await connection.publish("kept", b"not stored")
                await eventually(lambda: disk.times_looked > 3, describe="the full disk is looked at again")
            # Reported once, and not restarted: nothing would be stored.
            assert server.pid == pid
            [event] = events
            assert "NATS cannot write to KEPT" in event
            disk.free_bytes = ENOUGH_BYTES
            await eventually(lambda: events[-1] == "NATS is running again.", describe="it is restarted")
            assert (server.pid != pid, server.port) == (True, port)
            assert await server.write_errors() == {}
        assert not ended.done()
        ended.cancel()
        await connection.close()
        connection = await nats.connect(server.url)
        context = connection.jetstream(timeout=LIMIT_SEC)
        await context.publish("kept", b"after")
        state = (await context.stream_info("KEPT")).state
        assert state.messages == 2
        await connection.close()


async def test_a_store_that_stops_again_is_not_restarted_in_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarts: list[float] = []
    pauses: list[float] = []

    class StoppedForEver(EmbeddedNats):
        async def write_errors(self) -> dict[str, str]:
            return {"KEPT": "write error: input/output error"}

        async def restart(self) -> None:
            restarts.append(0.0)

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(restarts) == 9:
            raise asyncio.CancelledError

    monkeypatch.setattr("pyoco_server.broker.embedded.store_restart.asyncio.sleep", pause)
    disk = Disk()
    disk.free_bytes = ENOUGH_BYTES
    events: list[str] = []
    with pytest.raises(asyncio.CancelledError):
        await StoreRestarter(StoppedForEver(tmp_path), events.append, poll_sec=0, free=disk.free).run()
    assert [seconds for seconds in pauses if seconds] == [5, 10, 20, 40, 80, 160, 320, 600, 600]
