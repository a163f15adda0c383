"""The clock of the NATS server: the time by which things are due, whatever this machine's clock says."""

import logging
import time

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import server_clock
from pyoco_server.broker.jetstream.server_clock import ServerClock
from pyoco_server.broker.streams_and_buckets import ensure_resources
from tests.support.clocks import shifted_time
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import LIMIT_SEC


async def test_a_wrong_clock_is_noticed_and_does_not_count(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await ensure_resources(connection)
    machine = shifted_time(monkeypatch, server_clock)
    clock = ServerClock(connection)
    machine.by_sec = -3600.0
    # Not measured yet.
    assert clock.now() < time.time() - 1800
    assert not clock.differs
    with caplog.at_level(logging.WARNING, server_clock.__name__):
        for _ in range(2):
            assert await clock.run_due(clock.now()) > time.time()
    # Reported once.
    [warning] = caplog.records
    assert "ahead of this machine's" in warning.message
    assert warning.err_id == "ERR-PYOCO-0051"  # type: ignore[attr-defined]
    assert clock.differs
    assert clock.offset_sec == pytest.approx(3600, abs=LIMIT_SEC)
    assert clock.now() == pytest.approx(time.time(), abs=LIMIT_SEC)
    # Setting the clock makes nothing due.
    machine.by_sec = 10**6
    assert clock.now() == pytest.approx(time.time(), abs=LIMIT_SEC)
    await clock.measure()
    assert clock.offset_sec == pytest.approx(-(10**6), abs=LIMIT_SEC)


async def test_a_slow_reply_is_not_used(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    await ensure_resources(connection)
    clock = ServerClock(connection)
    monkeypatch.setattr(server_clock, "_SHORT_REPLY_SEC", 0.0)
    monkeypatch.setattr(server_clock, "_LONGEST_REPLY_SEC", 0.0)
    # Unless there is no other.
    assert not await clock.measure()
    measured = clock.offset_sec
    assert measured is not None
    shifted_time(monkeypatch, server_clock).by_sec = 3600.0
    assert not await clock.measure()
    assert clock.offset_sec == measured


async def test_a_gateway_knows_the_time_before_it_does_anything(gateway: RunningGateway) -> None:
    assert "clock_offset_sec" in (await gateway.http.get("/health")).json()
