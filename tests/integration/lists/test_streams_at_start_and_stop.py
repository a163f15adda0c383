"""Streams that are open while a gateway starts or stops."""

import asyncio
import re
import signal
import threading
from types import ModuleType

import httpx
import pytest
from starlette.requests import Request

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.streams import list_watch_routes as list_watch
from pyoco_server.http_api.streams import wait_watch_routes as wait_watch
from pyoco_server.runs.index.run_feed_reader import RunFeedReader
from pyoco_server.waits.index.wait_feed import WaitFeedReader
from tests.support.event_reading import reading_events
from tests.support.programs import SERVER, running
from tests.support.running.gateway import running_gateway
from tests.support.running.printing_runs import SyncPrintingRun
from tests.support.waiting import LIMIT_SEC, eventually


@pytest.mark.parametrize(
    ("path", "endpoint", "reader"),
    [("/runs/watch", list_watch, RunFeedReader), ("/waits/watch", wait_watch, WaitFeedReader)],
)
async def test_a_watch_at_start_waits_for_the_index(
    config: NatsBackendConfig,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    endpoint: ModuleType,
    reader: type[RunFeedReader | WaitFeedReader],
) -> None:
    asked = asyncio.Event()
    begin = reader.begin

    async def when_asked(self: RunFeedReader | WaitFeedReader, created: str) -> None:
        await asked.wait()
        await begin(self, created)  # type: ignore[arg-type]

    def asking(request: Request) -> Gateway:
        asked.set()
        return gateway_of(request)

    monkeypatch.setattr(reader, "begin", when_asked)
    monkeypatch.setattr(endpoint, "gateway_of", asking)
    async with running_gateway(config) as gateway, reading_events(gateway.http, path) as reading:
        await eventually(lambda: reading.events, describe="the first event")


class OpenStream(threading.Thread):
    """A client that reads until the stream ends."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.begun = threading.Event()
        self.received = b""

    def run(self) -> None:
        with httpx.stream("GET", self._url, timeout=LIMIT_SEC) as response:
            for chunk in response.iter_raw():
                self.received += chunk
                self.begun.set()


def test_a_stopping_gateway_ends_its_streams(nats_url: str) -> None:
    with running(SERVER, "up", "--port", "0", "--nats-url", nats_url) as (program, facts):
        run = SyncPrintingRun(nats_url)
        run.prints("a")
        watch, log = (
            OpenStream(f"{facts['url']}/runs/{run.run_id}/{path}") for path in ("watch", "logs?follow=1")
        )
        for stream in (watch, log):
            stream.start()
            assert stream.begun.wait(LIMIT_SEC)
        program.send(signal.SIGTERM)
        assert program.end() == 0
        for stream in (watch, log):
            stream.join(LIMIT_SEC)
            assert not stream.is_alive()
        # Heartbeats do not count: a slow machine may have sent some.
        events = re.findall(rb"event: (?!heartbeat)\w+", watch.received)
        assert len(events) == 1
        assert b"event: end" not in log.received
        assert "Traceback" not in program.stdout + program.stderr
        assert "ERROR" not in program.stdout + program.stderr
