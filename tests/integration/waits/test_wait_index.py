"""The index of waits: its queries, restarts, and rebuilding it after damage."""

import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import IndexNotReady
from pyoco_server.records.runs.run_models import WaitKind, new_run_id
from pyoco_server.records.waits.wait_models import NO_DEADLINE, WaitRecord, WaitState
from pyoco_server.runs.index.pagination import SortKey
from pyoco_server.runs.index.search.filter_sql import where
from pyoco_server.waits.index.wait_feed import WaitFeedReader
from pyoco_server.waits.index.wait_index import (
    NEW_FOR_TOPICS,
    OPEN_FOR_EVENT,
    TOPIC_WAITS,
    WaitIndex,
    WaitWrite,
    _conditions,
)
from pyoco_server.waits.index.wait_items import OPEN, WaitFilter, item_of
from tests.support.broker.stored_waits import a_wait, ask, decide, decided
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.waiting import LIMIT_SEC, eventually

BUCKET = "a bucket"


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[WaitIndex]:
    """An index that is ready, and empty."""
    made = WaitIndex(tmp_path)
    await made.start()
    await made.begin(BUCKET)
    await made.complete()
    yield made
    await made.close()


async def put(index: WaitIndex, *waits: WaitRecord) -> None:
    for wait in waits:
        revision = index.checkpoint.revision + 1
        await index.apply([WaitWrite(wait.wait_id, revision, item_of(wait))], upto=revision)


def wait(name: str = "approve", **fields: Any) -> WaitRecord:
    return a_wait(new_run_id(), name, **fields)


async def names(gateway: RunningGateway, **query: Any) -> set[str]:
    answer = await gateway.http.get("/waits", params=query)
    assert answer.status_code == 200, answer.text
    return {item["name"] for item in answer.json()["items"]}


# What it answers


async def test_due_waits_are_open_and_past_their_deadline(index: WaitIndex) -> None:
    late, later, coming = wait(deadline_at=2.0), wait(deadline_at=1.0), wait(deadline_at=10.0)
    await put(index, late, later, coming, decided(wait(deadline_at=0.5)))
    assert await index.due(9.0, 10) == [later.wait_id, late.wait_id]
    assert await index.due(10.0, 10) == [later.wait_id, late.wait_id, coming.wait_id]
    assert await index.due(9.0, 1) == [later.wait_id]
    assert await index.next_deadline(0.0) == 1.0
    # What is due and cannot be dealt with does not hide what comes next.
    assert await index.next_deadline(2.0) == 10.0


async def test_a_decided_wait_replaces_the_open_one(index: WaitIndex) -> None:
    assert await index.next_deadline(0.0) is None
    one, two = wait(deadline_at=5.0), wait(deadline_at=7.0)
    await put(index, one, two)
    assert await index.next_deadline(0.0) == 5.0
    ids = sorted([one.wait_id, two.wait_id])
    assert await index.open_after("", 10) == ids
    assert await index.open_after(ids[0], 10) == ids[1:]
    assert await index.open_among([*ids, "other"]) == set(ids)
    assert await index.asking_among([one.run_id, "other"]) == {one.run_id}
    await put(index, decided(one), decided(two, WaitState.EXPIRED))
    assert await index.next_deadline(0.0) is None
    assert await index.due(10.0, 10) == []
    assert await index.open_after("", 10) == []
    assert index.entries == 2
    assert (await index.list(WaitFilter(states=OPEN), limit=1)).total == 0
    assert (await index.list(WaitFilter(), limit=1)).total == 2
    assert (await index.open_of(None)).count == 0


async def test_responses_reveal_nothing_of_other_tenants(index: WaitIndex) -> None:
    await put(index, wait("a", tenant_id="acme", created_at=5.0), wait("n", created_at=1.0))
    for tenant, expected in ((None, 2), ("acme", 1), ("rival", 0)):
        assert (await index.list(WaitFilter(tenant=tenant), limit=10)).total == expected
        items, _ = await index.all_open(tenant)
        assert len(items) == expected
        assert (await index.open_of(tenant)).count == expected
    assert (await index.open_of("acme")).oldest_at == 5.0
    assert (await index.open_of("rival")).oldest_at is None


async def test_closed_waits_are_listed_by_their_decision_with_its_answer(index: WaitIndex) -> None:
    old, young, still_open = (wait(name, created_at=at) for name, at in (("a", 1.0), ("b", 2.0), ("c", 3.0)))
    first = structs.replace(decided(young, payload={"amount": 5}), decided_at=10.0)
    last = structs.replace(decided(old, payload="yes\n" + "x" * 500), decided_at=20.0)
    expired = structs.replace(decided(wait("d"), WaitState.EXPIRED), decided_at=15.0)
    await put(index, old, young, still_open, last, first, expired)

    async def listed(*states: WaitState, **page: Any) -> tuple[list[tuple[str, str | None]], SortKey | None]:
        found = await index.list(WaitFilter(states=frozenset(states)), limit=2, **page)
        items = [msgspec.json.decode(raw) for raw in found.items]
        return [(item["name"], item["answer"]) for item in items], found.next_after

    items, more = await listed(WaitState.ANSWERED)
    assert [name for name, _ in items] == ["a", "b"]
    assert items[1] == ("b", '{"amount":5}')
    assert items[0][1] is not None
    assert (len(items[0][1]), items[0][1][:4], more) == (200, "yes\n", None)
    both, more = await listed(WaitState.ANSWERED, WaitState.EXPIRED)
    assert [name for name, _ in both] == ["a", "d"]
    assert await listed(WaitState.ANSWERED, WaitState.EXPIRED, after=more) == ([("b", '{"amount":5}')], None)
    assert (await listed(WaitState.OPEN))[0] == [("c", None)]


async def test_deleted_waits_are_dropped_and_returned(index: WaitIndex) -> None:
    one, two, three, four = [wait(name) for name in "1234"]
    await put(index, one, two, three, four)
    [before] = await index.apply([WaitWrite(four.wait_id, 5, None)], upto=5)
    assert before == item_of(four)
    assert await index.others(0, 3, [2], limit=10) == [(1, one.wait_id), (3, three.wait_id)]
    assert await index.others(0, 3, [2], limit=1) == [(1, one.wait_id)]
    assert [item.name for item in await index.drop([1])] == ["1"]
    assert index.entries == 2


async def test_the_memory_for_filling_it_is_given_back_when_it_is_full(index: WaitIndex) -> None:
    """A gateway with ten thousand waits is hardly larger than one with none."""

    async def cache_mb() -> float:
        def read() -> int:
            [(kib,)] = index._used()._db.execute("PRAGMA cache_size")
            return -int(kib)

        return await index._write(read) / 1024

    assert await cache_mb() == 0.5
    await index.begin("another bucket")
    assert await cache_mb() == 64
    await index.complete()
    assert await cache_mb() == 0.5


async def test_queries_fail_until_the_index_is_complete(tmp_path: Path) -> None:
    made = WaitIndex(tmp_path)
    await made.start()
    try:
        await made.begin(BUCKET)
        for question in (made.next_deadline(0.0), made.open_after("", 1), made.due(1.0, 1)):
            with pytest.raises(IndexNotReady):
                await question
    finally:
        await made.close()


async def test_ten_thousand_open_waits_are_asked_about_quickly(index: WaitIndex) -> None:
    many = [wait(deadline_at=1e9 + number) for number in range(10_000)]
    batch = [WaitWrite(each.wait_id, number, item_of(each)) for number, each in enumerate(many, 1)]
    await index.apply(batch, upto=len(batch))
    # What it costs, in whatever thread, and not what else this machine does meanwhile.
    began = time.process_time()
    assert await index.next_deadline(0.0) == 1e9
    assert len(await index.due(1e9 + 99, 1000)) == 100
    assert (await index.list(WaitFilter(states=OPEN), limit=50)).total == 10_000
    assert time.process_time() - began < 1.0


# Restarts and rebuilding


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The revisions that were read from the bucket, by all gateways of this test."""
    revisions: list[int] = []
    take = WaitFeedReader.take

    async def noting(self: WaitFeedReader, batch: list[StreamMessage]) -> None:
        revisions.extend(message.sequence for message in batch)
        await take(self, batch)

    monkeypatch.setattr(WaitFeedReader, "take", noting)
    return revisions


async def test_a_restart_reads_what_was_written_since_and_a_damaged_file_is_recreated(
    config: NatsBackendConfig, taken: list[int]
) -> None:
    async with running_gateway(config) as gateway:
        await ask(gateway.inside, "one", "two")
        assert await names(gateway) == {"one", "two"}
    taken.clear()
    async with running_gateway(config) as gateway:
        assert await names(gateway) == {"one", "two"}
        assert taken == []
        await ask(gateway.inside, "three")
        assert await names(gateway) == {"one", "two", "three"}
    assert taken == [3]
    file = Path(config.index_dir) / "waits-1.sqlite"
    file.write_bytes(b"no database " * 1000)
    async with running_gateway(config) as gateway:
        assert await names(gateway) == {"one", "two", "three"}
        # Also one that is deleted while the gateway runs.
        file.unlink()

        async def there_again() -> bool:
            return file.exists() and (await gateway.http.get("/waits")).status_code == 200

        await eventually(there_again, describe="the file is created again")
        assert await names(gateway) == {"one", "two", "three"}


async def test_a_bucket_that_is_recreated_is_read_again(gateway: RunningGateway) -> None:
    await ask(gateway.inside, "old")
    assert await names(gateway) == {"old"}
    connection = gateway.inside.connection
    await jetstream_api.call(connection, f"STREAM.DELETE.KV_{connection.config.waits_kv_bucket}")
    await ensure_resources(connection)
    # The maintenance of waits may have missed the bucket, which the connection prepares again then.
    await connection.wait_ready(LIMIT_SEC)
    await ask(gateway.inside, "new")

    async def is_listed() -> bool:
        return (await gateway.http.get("/waits")).status_code == 200

    await eventually(is_listed, describe="the waits are listed again")
    # The first list that is answered has nothing of the old bucket.
    assert await names(gateway) == {"new"}


async def test_unreadable_waits_are_not_listed(gateway: RunningGateway) -> None:
    [broken] = await ask(gateway.inside, "broken")
    assert await names(gateway) == {"broken"}
    prefix = f"$KV.{gateway.inside.config.waits_kv_bucket}."
    for key in (broken.wait_id, "no-wait"):
        await publish_acked(gateway.inside.connection, prefix + key, b"{}", {})
    await ask(gateway.inside, "good")
    assert await names(gateway) == {"good"}


async def test_waits_whose_markers_are_gone_are_forgotten(gateway: RunningGateway) -> None:
    one, _ = await ask(gateway.inside, "one", "two")
    await ask(gateway.inside, "kept")
    assert await names(gateway) == {"one", "two", "kept"}
    # Nothing is left that says so.
    await gateway.inside.waits.store.purge_run(one.run_id)

    async def forgotten() -> bool:
        return await names(gateway) == {"kept"}

    await eventually(forgotten, describe="what is gone is not listed")


async def test_two_gateways_list_the_same(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as one, running_gateway(config) as other:
        for _ in range(5):
            [asked] = await ask(one.inside, "asked")
            assert await names(other) == {"asked"}
            await decide(other.inside.waits.store, asked)
            assert await names(one) == set()


async def test_a_gateway_is_ready_when_its_waits_are_known(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def health() -> int:
        return (await gateway.http.get("/health", params={"ready": "1"})).status_code

    async def is_ready() -> bool:
        return await health() == 200

    async def stays_unready() -> None:
        """The next read of the feed would make it ready."""

    await eventually(is_ready, describe="all is known")
    monkeypatch.setattr(gateway.inside.waits.index, "complete", stays_unready)
    monkeypatch.setattr(gateway.inside.waits.index, "ready", False)
    assert await health() == 503


async def test_lists_have_questions_unless_other_kinds_are_selected(index: WaitIndex) -> None:
    asked, sleep = wait(deadline_at=5.0), wait(deadline_at=7.0, kind=WaitKind.SLEEP)
    await put(index, asked, sleep)
    assert (await index.list(WaitFilter(states=OPEN), limit=10)).total == 1
    assert (await index.list(WaitFilter(kinds=frozenset({WaitKind.SLEEP})), limit=10)).total == 1
    assert (await index.list(WaitFilter(kinds=frozenset()), limit=10)).total == 2
    assert (await index.open_of(None)).count == 1
    assert await index.due(8.0, 10) == [asked.wait_id, sleep.wait_id]


def for_event(topic: str, **fields: Any) -> WaitRecord:
    return wait(kind=WaitKind.EVENT, topic=topic, deadline_at=NO_DEADLINE, **fields)


async def test_waits_for_an_event_are_found_by_tenant_and_name(index: WaitIndex) -> None:
    own, other = for_event("paid", tenant_id="acme"), for_event("paid", tenant_id="rival")
    without = for_event("paid")
    ignored = (for_event("sent"), wait(kind=WaitKind.SIGNAL, topic="paid"), wait())
    await put(index, own, other, without, *ignored, decided(for_event("paid", tenant_id="acme")))
    for tenant, expected in (("acme", own), ("rival", other), (None, without)):
        found = await index.open_for_event(tenant, "paid", upto=100)
        assert [each.wait_id for each in found] == [expected.wait_id]
    # What the caller has not reached yet.
    assert await index.open_for_event(None, "paid", upto=2) == []
    reached = await index.open_for_topics(after=1, limit=3)
    assert [each.revision for each in reached] == [2, 3, 4]


async def cost(index: WaitIndex, query: str, values: list[Any]) -> tuple[str, int, int]:
    """The plan, how many rows were found, and how many times a hundred steps of SQLite's machine it took."""

    def read(db: sqlite3.Connection) -> tuple[str, int, int]:
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        [(*_, plan)] = db.execute(f"EXPLAIN QUERY PLAN {query}", values)
        db.set_progress_handler(count, 100)
        found = len(db.execute(query, values).fetchall())
        db.set_progress_handler(None, 100)
        return plan, found, steps

    return await index._read(read)


async def test_sleeping_runs_cost_the_look_for_new_topics_nothing(index: WaitIndex) -> None:
    """It is done every second, also with a hundred thousand sleepers."""
    sleeping = [wait(kind=WaitKind.SLEEP) for _ in range(10_000)]
    writes = [WaitWrite(each.wait_id, number, item_of(each)) for number, each in enumerate(sleeping, start=1)]
    await index.apply(writes, upto=len(writes))
    await put(index, for_event("paid"))
    _, found, steps = await cost(index, NEW_FOR_TOPICS, [0, 100])
    assert found == 1
    assert steps <= 2


async def test_a_wait_that_is_written_twice_in_a_batch(index: WaitIndex) -> None:
    """Each write is returned with what was known before it; the last one counts."""
    one, other, gone = wait(), wait(), wait()
    await put(index, one, gone)
    writes = [
        WaitWrite(one.wait_id, 11, item_of(decided(one))),
        WaitWrite(other.wait_id, 12, item_of(other)),
        WaitWrite(gone.wait_id, 13, None, deleted=True),
        WaitWrite(other.wait_id, 14, item_of(decided(other))),
    ]
    assert await index.apply(writes, upto=14) == [item_of(one), None, item_of(gone), item_of(other)]
    assert (index.entries, index.marker_count) == (2, 1)
    assert await index.open_among([one.wait_id, other.wait_id, gone.wait_id]) == set()


async def test_waits_for_other_events_cost_an_event_nothing(index: WaitIndex) -> None:
    others = [for_event(f"other-{number}") for number in range(10_000)]
    writes = [
        WaitWrite(each.wait_id, number, item_of(each), match={"/id": number})
        for number, each in enumerate(others, start=1)
    ]
    await index.apply(writes, upto=len(writes))
    await put(index, for_event("paid"))
    values = [WaitKind.EVENT, "paid", None, 2**40]

    plan, rows, steps = await cost(index, f"{TOPIC_WAITS} WHERE {OPEN_FOR_EVENT}", values)
    assert rows == 1
    assert "by_topic (kind=? AND topic=? AND tenant=?)" in plan
    assert steps <= 2
    [found] = await index.open_for_event(None, "other-7", upto=2**40)
    assert found.match == {"/id": 8}


@pytest.mark.parametrize("states", [OPEN, frozenset(), frozenset({WaitState.EXPIRED})])
async def test_waits_of_other_runs_cost_a_list_of_one_run_nothing(
    index: WaitIndex, states: frozenset[WaitState]
) -> None:
    mine = [wait("a")]
    mine.append(decided(a_wait(mine[0].run_id, "b"), WaitState.EXPIRED))
    await put(index, *mine, *(wait() for _ in range(500)))
    selected = WaitFilter(states=states, run_id=mine[0].run_id)
    expected = {each.wait_id for each in mine if not states or each.state in states}
    page = await index.list(selected, limit=10)
    assert {msgspec.json.decode(item)["wait_id"] for item in page.items} == expected
    sql, values = where(_conditions(selected))
    plan, rows, steps = await cost(index, f"SELECT item FROM waits WHERE {sql}", values)
    assert (rows, "(wait_id>? AND wait_id<?)" in plan) == (len(expected), True), plan
    assert steps <= 2


async def test_open_waits_of_runs_are_found_whatever_their_ids_begin_with(index: WaitIndex) -> None:
    one, other = wait("a"), for_event("paid")
    await put(index, one, other, decided(wait("b")))
    runs = [one.run_id, other.run_id, one.run_id[:-1]]
    assert await index.asking_among(runs) == {one.run_id, other.run_id}
    assert await index.waiting_for_signals(runs) == set()


async def test_a_wait_without_a_deadline_is_never_due(index: WaitIndex) -> None:
    await put(index, endless := wait(deadline_at=NO_DEADLINE, kind=WaitKind.SIGNAL, topic="paid"))
    assert await index.due(time.time() + 1e9, 10) == []
    [item] = (await index.list(WaitFilter(kinds=frozenset({WaitKind.SIGNAL})), limit=10)).items
    shown = msgspec.json.decode(item)
    assert (shown["deadline_at"], shown["kind"], shown["topic"]) == (None, "signal", "paid")
    assert await index.waiting_for_signals([endless.run_id]) == {endless.run_id}
