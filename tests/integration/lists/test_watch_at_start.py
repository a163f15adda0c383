"""A watch requested at the start of a gateway waits for the index."""

import asyncio
from types import ModuleType

import pytest
from starlette.requests import Request

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.streams import list_watch_routes as list_watch
from pyoco_server.http_api.streams import wait_watch_routes as wait_watch
from pyoco_server.human.inbox.wait_feed import WaitFeedReader
from pyoco_server.runs.index.run_feed_reader import RunFeedReader
from tests.support.event_reading import reading_events
from tests.support.running.gateway import running_gateway
from tests.support.waiting import eventually


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
