"""Lists and bulk operations identify dead letters despite lagging replicas and recreated streams."""

from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch
from pyoco_server.broker.stores.runs import dead_letters
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from tests.integration.lifecycle.test_dlq import dlq, letter, put, seqs
from tests.integration.lifecycle.test_rerun import end
from tests.support.inspection import stored_run_ids
from tests.support.running.bulk_operations import counts, ends, start, without_lease
from tests.support.running.gateway import RunningGateway


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.2)


async def recreate(gateway: RunningGateway) -> None:
    """An operator deletes and recreates the stream of dead letters: it counts from 1."""
    connection = gateway.inside.connection
    await jetstream_api.call(connection, f"STREAM.DELETE.{gateway.inside.config.dlq_stream}")
    await ensure_resources(connection)


class TestBulkItems:
    @pytest.mark.parametrize("path", ["/dlq/delete", "/dlq/replay"])
    async def test_a_letter_with_a_reused_sequence_is_skipped(
        self, gateway: RunningGateway, path: str
    ) -> None:
        run_id = await end(gateway, await gateway.submit("chain"))
        await put(gateway, *(letter(timestamp=float(number)) for number in range(3)))
        with without_lease(gateway):
            operation = await start(gateway, path, expected_count=3)
            await recreate(gateway)
            await put(gateway, letter(run_id=run_id, timestamp=4.0), letter(run_id=run_id, timestamp=5.0))
        record = await ends(gateway, operation)
        assert counts(record) == ("COMPLETED", 0, 3, 0)
        assert await seqs(gateway) == [2, 1]
        assert await stored_run_ids(gateway) == {run_id}

    async def test_items_of_an_earlier_version_are_matched_by_sequence(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pyoco_server.broker.stores.runs.bulk_records._DIGESTS", "elsewhere")
        await put(gateway, letter(), letter())
        with without_lease(gateway):
            operation = await start(gateway, "/dlq/delete", expected_count=2)
            monkeypatch.undo()
        assert counts(await ends(gateway, operation)) == ("COMPLETED", 2, 0, 0)


class TestPages:
    @pytest.fixture
    def lagging(self, monkeypatch: pytest.MonkeyPatch) -> int:
        """Every direct read comes from a replica that has nothing after this sequence."""
        last = 4

        async def from_a_replica_that_lags(*args: Any, **kwargs: Any) -> list[StreamMessage]:
            batch = await read_batch(*args, **kwargs)
            return [message for message in batch if message.sequence <= last]

        monkeypatch.setattr(dead_letters, "read_batch", from_a_replica_that_lags)
        return last

    async def test_the_newest_letters_are_listed_despite_a_lagging_replica(
        self, gateway: RunningGateway, lagging: int
    ) -> None:
        await put(gateway, *(letter() for _ in range(lagging + 3)))
        first = await dlq(gateway, limit=5)
        assert [item["seq"] for item in first["items"]] == [7, 6, 5, 4, 3]
        second = await dlq(gateway, limit=5, cursor=first["next_cursor"])
        assert ([item["seq"] for item in second["items"]], second["next_cursor"]) == ([2, 1], None)

    async def test_letters_of_a_tag_are_found_among_others(
        self, gateway: RunningGateway, lagging: int
    ) -> None:
        await put(gateway, *(letter(tag=tag) for tag in ["gpu", "cpu"] * 4))
        assert await seqs(gateway, tag="gpu") == [7, 5, 3, 1]
        assert await seqs(gateway, tag="cpu") == [8, 6, 4, 2]
