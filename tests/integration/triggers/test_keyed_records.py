"""Stored records that are changed by compare-and-set: no write is lost, and no lost write is a success."""

import asyncio

import pytest

from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.keyed_records import KeyedRecords
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.triggers.trigger_models import ChatSettings, decode_chat_settings
from pyoco_server.records.unreadable_records import RecordKind
from tests.support.broker.connections import connected


def added(before: ChatSettings | None) -> ChatSettings:
    return ChatSettings(webhook=None, updated_at=1.0 if before is None else before.updated_at + 1)


async def test_changes_at_the_same_moment_all_count(config: NatsBackendConfig) -> None:
    async with connected(config) as connection:
        bucket = config.triggers_kv_bucket
        stores = [
            KeyedRecords(connection, bucket, RecordKind.CHAT_SETTINGS, decode_chat_settings) for _ in "ab"
        ]
        key = added(None).key
        await asyncio.gather(*(store.change(key, added) for store in stores for _ in range(5)))
        stored = await stores[0].get_from_leader(key)
        assert stored is not None
        assert stored.record.updated_at == 10.0
        # What is returned as it was is not written.
        unchanged = await stores[0].change(key, lambda record: record or added(None))
        assert unchanged.revision == stored.revision

        removed = await stores[1].remove(key, lambda _: None)
        assert removed is not None
        assert await stores[0].get_from_leader(key) is None
        assert await stores[0].remove(key, lambda _: None) is None


async def test_a_write_that_never_succeeds_is_an_error(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(config) as connection:
        store = KeyedRecords(
            connection, config.triggers_kv_bucket, RecordKind.CHAT_SETTINGS, decode_chat_settings
        )
        created = await store.change(added(None).key, added)

        async def too_late(*_: object) -> None:
            raise RevisionConflict

        monkeypatch.setattr(store, "replace", too_late)
        monkeypatch.setattr(store, "delete", too_late)
        with pytest.raises(NatsUnavailable, match="all the time; try again"):
            await store.change(created.record.key, added)
        with pytest.raises(NatsUnavailable, match="all the time; try again"):
            await store.remove(created.record.key, lambda _: None)
