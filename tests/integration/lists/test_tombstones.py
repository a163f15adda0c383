"""Delete markers that were removed from a bucket are forgotten, and no list waits for that."""

from collections import Counter
from functools import partial
from typing import Any, Final

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import feed_history, jetstream_api, removed_keys
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import last_sequence
from pyoco_server.records.runs.run_models import new_run_id
from tests.integration.lists.test_run_list import ids
from tests.support.broker.stored_runs import ended, write
from tests.support.broker.stored_waits import ask
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import NEVER_SEC, eventually, eventually_equals

MARKER: Final = {"KV-Operation": "DEL"}


async def delete_unknown_keys(connection: Connection, bucket: str, keys: list[str]) -> None:
    for key in keys:
        await publish_acked(connection, f"$KV.{bucket}.{key}", b"", MARKER)


async def test_a_list_does_not_wait_for_the_marker_check(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = gateway.inside.connection
    await delete_unknown_keys(connection, "pyoco_runs", [new_run_id() for _ in range(40)])
    assert await ids(gateway) == []
    assert gateway.inside.listing.index.marker_count == 40
    asked: list[str] = []

    async def counted(connection: Connection, stream: str, subject: str) -> int:
        asked.append(subject)
        return await last_sequence(connection, stream, subject)

    monkeypatch.setattr(removed_keys, "last_sequence", counted)
    monkeypatch.setattr(removed_keys, "_MARKERS", 4)
    monkeypatch.setattr(removed_keys, "_ROUND_SEC", NEVER_SEC)
    await jetstream_api.purge(connection, "KV_pyoco_runs", "$KV.pyoco_runs.>")
    written = await write(gateway.inside.runs.store, ended(at=1.0))
    assert await ids(gateway) == written
    await eventually(lambda: asked, describe="the first markers are asked for")
    assert await ids(gateway) == written
    assert len(asked) <= 8


async def test_all_removed_markers_are_forgotten_eventually(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removed_keys, "_MARKERS", 4)
    monkeypatch.setattr(removed_keys, "_ROUND_SEC", 0.0)
    connection = gateway.inside.connection
    deleted = [new_run_id() for _ in range(30)]
    await delete_unknown_keys(connection, "pyoco_runs", deleted)
    assert await ids(gateway) == []
    for run_id in deleted[:20]:
        await jetstream_api.purge(connection, "KV_pyoco_runs", f"$KV.pyoco_runs.{run_id}")
    markers = gateway.inside.sweeper._runs.markers
    await eventually(lambda: list(markers) == deleted[20:], describe="the removed markers are forgotten")
    await eventually(lambda: gateway.inside.listing.index.marker_count == 10, describe="also by the index")


async def open_names(gateway: RunningGateway) -> set[str]:
    response = await gateway.http.get("/waits")
    return {item["name"] for item in response.json()["items"]}


async def test_a_disappeared_wait_is_found_among_markers(
    gateway: RunningGateway,
) -> None:
    connection = gateway.inside.connection
    [vanished, _] = await ask(gateway.inside, "vanished", "kept")
    keys = [f"{new_run_id()}.{number:016x}" for number in range(5)]
    await delete_unknown_keys(connection, "pyoco_waits", keys)
    assert await open_names(gateway) == {"vanished", "kept"}
    await jetstream_api.purge(connection, "KV_pyoco_waits", f"$KV.pyoco_waits.{vanished.wait_id}")
    await eventually_equals(
        lambda: open_names(gateway), {"kept"}, describe="the removed wait is not listed any more"
    )


async def test_history_of_a_bucket_with_many_markers_takes_few_requests(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = gateway.inside.connection
    keys = [f"{new_run_id()}.{number:016x}" for number in range(200)]
    await delete_unknown_keys(connection, "pyoco_waits", keys)
    await gateway.inside.waits.lists.caught_up()
    await jetstream_api.purge(connection, "KV_pyoco_waits", f"$KV.pyoco_waits.{keys[-1]}")
    asked: Counter[str] = Counter()
    for name in ("info_at", "newest_info", "next_info"):
        counting = partial(_counted, asked, getattr(feed_history, name))
        monkeypatch.setattr(feed_history, name, counting)
    connection.interruptions += 1
    await gateway.inside.waits.lists.caught_up()
    assert 0 < asked["KV_pyoco_waits"] <= 50


async def _counted(
    asked: Counter[str], ask: Any, connection: Connection, stream: str, *given: Any, **more: Any
) -> Any:
    asked[stream] += 1
    return await ask(connection, stream, *given, **more)
