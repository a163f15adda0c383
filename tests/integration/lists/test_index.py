"""The index of a gateway: reused after a restart, rebuilt after any damage."""

import asyncio
import logging
import shutil
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_cursor import StreamCursor
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, StreamState, stream_state
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError
from pyoco_server.http_api import create_app
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.index import index_schema as schema
from pyoco_server.runs.index.run_feed_reader import RunFeedReader
from pyoco_server.runs.index.run_index import RunIndex
from tests.integration.lists.test_run_list import ids, listed
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import ended, snapshot, write, write_many
from tests.support.programs import SERVER, run_command
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.waiting import LIMIT_SEC, eventually


@pytest.fixture
def file(config: NatsBackendConfig) -> Path:
    return Path(config.index_dir) / "runs-1.sqlite"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The revisions that all gateways of this test have read."""
    revisions: list[int] = []
    take = RunFeedReader.take

    async def noting(self: RunFeedReader, batch: list[StreamMessage]) -> None:
        revisions.extend(message.sequence for message in batch)
        await take(self, batch)

    monkeypatch.setattr(RunFeedReader, "take", noting)
    return revisions


def rebuilds(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "rebuilding" in record.getMessage()]


# Kept over a restart


async def test_a_restart_reads_only_new_writes(config: NatsBackendConfig, taken: list[int]) -> None:
    async with running_gateway(config) as gateway:
        old = await write(gateway.inside.runs.store, ended(at=1.0), ended(at=2.0))
        assert await ids(gateway) == old[::-1]
    taken.clear()
    async with running_gateway(replace(config, index_dir=config.index_dir + "-other")) as other:
        new = await write(other.inside.runs.store, ended(at=3.0))
        assert await ids(other) == [*new, *old[::-1]]
    assert taken == [1, 2, 3]
    taken.clear()
    async with running_gateway(config) as gateway:
        assert await ids(gateway) == [*new, *old[::-1]]
        assert taken == [3]


async def test_open_runs_are_loaded_from_the_index(config: NatsBackendConfig, taken: list[int]) -> None:
    waiting = snapshot(timeout_sec=7.0)
    async with running_gateway(config) as gateway:
        await write(gateway.inside.runs.store, waiting, ended())
        assert len(await ids(gateway)) == 2
    taken.clear()
    async with running_gateway(config) as gateway:
        await gateway.inside.listing.lists.caught_up()
        [run] = [run async for group in gateway.inside.sweeper._runs.groups() for run in group]
        assert (run.run_id, run.revision, run.state.timeout_sec) == (waiting.run_id, 1, 7.0)
        assert taken == []


# Rebuilding


def delete(file: Path) -> None:
    file.unlink()


def overwrite(file: Path) -> None:
    file.write_bytes(b"no database " * 1000)


def cut(file: Path) -> None:
    with file.open("r+b") as content:
        content.truncate(8192)


def age(file: Path) -> None:
    with sqlite3.connect(file) as db:
        db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.close()


async def test_a_damaged_file_is_rebuilt_at_start(config: NatsBackendConfig, file: Path) -> None:
    async with running_gateway(config) as gateway:
        written = await write(gateway.inside.runs.store, *(ended(at=float(number)) for number in range(40)))
        assert len(await ids(gateway)) == 40
    for damage in (delete, overwrite, cut, age):
        damage(file)
        async with running_gateway(config) as gateway:
            assert await ids(gateway) == written[::-1], damage


async def test_a_file_deleted_while_open_is_rebuilt(
    gateway: RunningGateway, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = await write(gateway.inside.runs.store, ended(at=1.0))
    assert await ids(gateway) == written
    file.unlink()
    await eventually(file.exists, describe="there is a file again")
    await eventually(lambda: gateway.inside.listing.lists.ready, describe="it is filled again")
    assert rebuilds(caplog) == ["rebuilding the index of runs: its file was deleted"]
    written += await write(gateway.inside.runs.store, ended(at=2.0))
    assert await ids(gateway) == written[::-1]


async def test_a_file_damaged_while_open_is_rebuilt(
    gateway: RunningGateway, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = await write(gateway.inside.runs.store, *(ended(at=float(number)) for number in range(200)))
    assert len(await ids(gateway, limit=200)) == 200
    with sqlite3.connect(file) as db:
        db.execute("DROP TABLE docs")
    db.close()

    async def is_whole() -> bool:
        response = await gateway.http.get("/runs", params={"limit": 200})
        assert response.status_code in (200, 503), response.text
        return response.status_code == 200 and [run["run_id"] for run in response.json()] == written[::-1]

    assert await eventually(is_whole, describe="all runs are listed again")
    assert rebuilds(caplog)


async def test_a_replaced_bucket_is_read_again(gateway: RunningGateway, config: NatsBackendConfig) -> None:
    await write(gateway.inside.runs.store, ended(), ended(), ended())
    assert len(await ids(gateway)) == 3
    await jetstream_api.call(gateway.inside.connection, "STREAM.DELETE.KV_pyoco_runs")
    await ensure_resources(gateway.inside.connection)
    assert await listed(gateway) == []
    # As many writes as before, so that the revision alone does not tell.
    written = await write(gateway.inside.runs.store, *(ended(at=float(number)) for number in range(3)))
    assert await ids(gateway) == written[::-1]


async def test_a_bucket_replaced_while_stopped_is_read_again(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    config = replace(config, nats_url=own_nats.url)
    async with running_gateway(config) as gateway:
        await write(gateway.inside.runs.store, ended(), ended())
        assert len(await ids(gateway)) == 2
        await jetstream_api.call(gateway.inside.connection, "STREAM.DELETE.KV_pyoco_runs")
        await ensure_resources(gateway.inside.connection)
        written = await write(gateway.inside.runs.store, ended(at=1.0), ended(at=2.0), ended(at=3.0))
    async with running_gateway(config) as gateway:
        assert await ids(gateway) == written[::-1]


# Its folder


async def test_gateways_recover_from_a_deleted_folder(config: NatsBackendConfig, file: Path) -> None:
    async with running_gateway(config) as first:
        shutil.rmtree(file.parent)
        async with running_gateway(config) as second:
            await eventually(lambda: len(list(file.parent.glob("runs-*.sqlite"))) == 2, describe="two files")
            written = await write(first.inside.runs.store, ended())
            for each in (first, second):

                async def is_right(each: RunningGateway = each) -> bool:
                    return each.inside.listing.lists.ready and await ids(each) == written

                assert await eventually(is_right, describe="it lists the run")


async def test_gateways_sharing_a_folder_have_their_own_files(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as first, running_gateway(config) as second:
        written = await write(first.inside.runs.store, ended())
        assert await ids(first) == await ids(second) == written
        files = sorted(path.name for path in Path(config.index_dir).glob("*.sqlite"))
        assert files == [
            f"{index}-{n}.sqlite" for index in ("audit", "audit-log", "runs", "waits") for n in (1, 2)
        ]
        assert all(path.stat().st_mode & 0o077 == 0 for path in Path(config.index_dir).glob("*.sqlite"))


async def test_an_unusable_folder_is_reported_with_its_setting(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    (tmp_path / "a-file").touch()
    index = RunIndex(tmp_path / "a-file" / "index")
    with pytest.raises(ConfigError, match="PYOCO_INDEX_DIR"):
        await index.start()
    await index.close()


async def test_a_folder_may_have_any_name(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, index_dir=config.index_dir + "-50%25 #1?x")) as gateway:
        written = await write(gateway.inside.runs.store, ended())
        assert await ids(gateway) == written


async def test_a_temporarily_unusable_folder_is_retried(gateway: RunningGateway, file: Path) -> None:
    written = await write(gateway.inside.runs.store, ended())
    assert await ids(gateway) == written
    shutil.rmtree(file.parent)
    file.parent.touch()

    async def tells_of_it() -> bool:
        response = await gateway.http.get("/runs")
        problem = response.json()
        return response.status_code == 503 and "PYOCO_INDEX_DIR" in problem["detail"]

    await eventually(tells_of_it, describe="it says which folder cannot be used")
    response = await gateway.http.get("/runs")
    assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0031")
    file.parent.unlink()
    await eventually(lambda: gateway.inside.listing.lists.ready, describe="it is filled again")
    assert await ids(gateway) == written


async def test_a_locked_file_is_kept(
    gateway: RunningGateway, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = await write(gateway.inside.runs.store, ended(at=1.0))
    assert await ids(gateway) == old
    writer = gateway.inside.listing.index._writer
    assert writer is not None
    writer._db.execute("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    new = await write(gateway.inside.runs.store, ended(at=2.0))
    await eventually(
        lambda: any("another program uses its file" in record.getMessage() for record in caplog.records),
        describe="it was met",
    )
    assert gateway.inside.listing.lists.ready
    other.execute("ROLLBACK")
    other.close()

    async def is_right() -> bool:
        response = await gateway.http.get("/runs")
        return response.status_code == 200 and [run["run_id"] for run in response.json()] == [*new, *old]

    await eventually(is_right, describe="it goes on")
    assert rebuilds(caplog) == []


# While the bucket is written faster than it is read


class Turns(asyncio.Semaphore):
    """One is needed for each batch that is read."""

    # The revision after which each batch starts.
    read_behind: list[int]


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """For batches of four writes at most."""
    allowed = Turns(0)
    allowed.read_behind = []
    take = RunFeedReader.take

    async def held_back(self: RunFeedReader, batch: list[StreamMessage]) -> None:
        await allowed.acquire()
        allowed.read_behind.append(self.checkpoint.revision)
        await take(self, batch)

    monkeypatch.setattr(RunFeedReader, "take", held_back)
    for size in ("_BATCH", "_SMALL_BATCH"):
        monkeypatch.setattr(f"pyoco_server.broker.jetstream.bucket_feed.{size}", 4)
    return allowed


async def test_a_query_waits_for_earlier_writes_only(gateway: RunningGateway, turns: Turns) -> None:
    feed, store = gateway.inside.listing.feed, gateway.inside.runs.store
    await eventually(lambda: gateway.inside.listing.lists.ready, describe="there is an index")

    async def grows(count: int) -> None:
        await write(store, *(ended() for _ in range(count)))

    async def is_read_until(reached: Callable[[], bool], describe: str) -> None:
        def another_is_read() -> bool:
            if not reached() and turns._waiters:
                turns.release()
            return reached()

        await eventually(another_is_read, describe=describe)

    async def answered_by() -> tuple[int, int]:
        """Where the batch that has answered it begins and ends; the next one may be read soon after."""
        await feed.caught_up()
        return turns.read_behind[-1], gateway.inside.listing.index.checkpoint.revision

    async def asked(tasks: asyncio.TaskGroup) -> asyncio.Task[tuple[int, int]]:
        question = tasks.create_task(answered_by())
        # The task has its first turn now, and asks in it; the sweep asks as well, whenever it likes.
        await asyncio.sleep(0)
        return question

    await grows(8)
    async with asyncio.TaskGroup() as tasks:
        first = await asked(tasks)
        await is_read_until(lambda: not feed._barriers.new, "it looked how far there is to read")
        await grows(8)
        second = await asked(tasks)
        await is_read_until(lambda: not feed._barriers.new, "it looked again")
        await grows(40)
        await is_read_until(first.done, "the first is answered")
        await is_read_until(second.done, "the second is answered")
    # By the very batch that has the last of them; how batches begin is a matter of time.
    for question, last in ((first, 8), (second, 16)):
        begin, end = question.result()
        assert begin < last <= end


async def test_a_query_is_answered_by_the_batch_that_has_its_writes(
    gateway: RunningGateway, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they were stored after the feed had asked how much there is to read."""
    inside = gateway.inside
    await eventually(lambda: inside.listing.lists.ready, describe="there is an index")
    feed = inside.listing.feed
    # The test itself reads.
    await feed._loop.close()
    await write(inside.runs.store, ended(), ended())

    async def state_before(connection: Connection, stream: str) -> StreamState:
        monkeypatch.setattr("pyoco_server.broker.jetstream.bucket_feed.stream_state", stream_state)
        return replace(await stream_state(connection, stream), last_sequence=1)

    monkeypatch.setattr("pyoco_server.broker.jetstream.bucket_feed.stream_state", state_before)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(feed._catch_up())
        await eventually(lambda: bool(turns._waiters), describe="both are read")
        question = tasks.create_task(feed.caught_up())
        await asyncio.sleep(0)
        turns.release()
        await reading
        await asyncio.sleep(0)
        assert question.done()


async def test_a_lagging_index_serves_what_it_has(
    gateway: RunningGateway, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.broker.jetstream.bucket_feed._CATCH_UP_SEC", 0.2)
    turns.release()
    written = await write(gateway.inside.runs.store, ended(at=1.0))
    await eventually(lambda: gateway.inside.listing.index.entries == 1, describe="it is read")
    written += await write(gateway.inside.runs.store, ended(at=2.0))
    response = await gateway.http.get("/runs")
    assert response.status_code == 200, response.text
    assert [run["run_id"] for run in response.json()] == written[:1]
    assert response.headers["x-pyoco-revision"].endswith("-1")
    # The sweep asks the same way, and goes on.
    await gateway.inside.listing.lists.caught_up()
    monkeypatch.setattr("pyoco_server.broker.jetstream.bucket_feed._CATCH_UP_SEC", LIMIT_SEC)
    turns.release()
    assert await ids(gateway) == written[::-1]


# Readiness


async def test_a_list_is_a_503_with_progress_until_filled(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(config) as gateway:
        await write_many(gateway.inside.connection, [ended(at=float(number)) for number in range(600)])
    slowly = asyncio.Event()
    take = RunFeedReader.take

    async def held_back(self: RunFeedReader, batch: list[StreamMessage]) -> None:
        await take(self, batch)
        await slowly.wait()

    monkeypatch.setattr(RunFeedReader, "take", held_back)
    monkeypatch.setattr("pyoco_server.broker.jetstream.bucket_feed._CATCH_UP_SEC", 0.1)
    async with running_gateway(replace(config, index_dir=config.index_dir + "-new")) as gateway:
        await eventually(lambda: gateway.inside.listing.index.entries == 512, describe="a batch was read")
        response = await gateway.http.get("/runs")
        assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0031")
        assert "512 runs are read, at most 88 are to come" in response.json()["detail"]
        assert response.headers["retry-after"]
        health = await gateway.http.get("/health")
        assert health.status_code == 200
        assert health.json()["index"] == {"ready": False, "revision": 512, "behind": 88, "runs": 512}
        assert (await gateway.http.get("/health", params={"ready": "1"})).status_code == 503
        slowly.set()
        await eventually(lambda: gateway.inside.listing.lists.ready, describe="it is ready")
        health = await gateway.http.get("/health", params={"ready": "1"})
        assert health.status_code == 200
        assert health.json()["index"] == {"ready": True, "revision": 600, "behind": 0, "runs": 600}


async def test_a_gateway_without_nats_is_not_ready_and_responds(
    config: NatsBackendConfig,
) -> None:
    async with running_gateway(replace(config, nats_url="nats://127.0.0.1:1"), ready=False) as gateway:
        assert (await gateway.http.get("/health")).status_code == 200
        response = await gateway.http.get("/health", params={"ready": "true"})
        assert (response.status_code, response.json()["nats"]["ready"]) == (503, False)
        assert (await gateway.http.get("/health", params={"ready": "perhaps"})).status_code == 422


# Invalid data


async def test_invalid_runs_are_logged_and_not_listed(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    overwritten = ended(at=1.0)
    [other] = await write(gateway.inside.runs.store, ended(at=2.0))
    await write(gateway.inside.runs.store, overwritten)
    assert len(await ids(gateway)) == 2
    connection = gateway.inside.connection
    strange = ended().run_id
    await publish_acked(connection, f"$KV.pyoco_runs.{overwritten.run_id}", b"{nonsense")
    await publish_acked(connection, f"$KV.pyoco_runs.{strange}", b'{"run_id": "\xff"}')
    await publish_acked(connection, "$KV.pyoco_runs.not-a-run", b"{}")
    assert await ids(gateway) == [other]
    said = {getattr(record, "run_id", "") for record in caplog.records if record.levelno >= logging.WARNING}
    assert said == {overwritten.run_id, strange, "not-a-run"}
    written = await write(gateway.inside.runs.store, ended(at=3.0))
    assert await ids(gateway) == [*written, other]


async def test_sqlite_never_blocks_the_event_loop(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every statement runs outside the event loop's thread."""
    loop_thread = threading.get_ident()
    threads: set[int] = set()
    connect = sqlite3.connect

    def noting(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(lambda _: threads.add(threading.get_ident()))
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr(sqlite3, "connect", noting)
    async with running_gateway(replace(config, index_dir=config.index_dir + "-traced")) as traced:
        await write(traced.inside.runs.store, ended(), snapshot(status=RunStatus.RUNNING))
        await listed(traced, total="true", q="noop", include="full")
        await traced.inside.listing.lists.counts()
    assert threads
    assert loop_thread not in threads


def test_creating_an_app_creates_no_file(config: NatsBackendConfig) -> None:
    create_app(config)
    assert not Path(config.index_dir).exists()


def test_the_command_reports_an_unusable_folder(tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    folder = str(tmp_path / "a-file" / "index")
    outcome = run_command(SERVER, "up", "--port", "0", cwd=tmp_path, PYOCO_INDEX_DIR=folder)
    assert outcome.returncode == 1
    assert f"PYOCO_INDEX_DIR={folder!r}" in outcome.stderr
    assert "choose a folder that can be written to" in outcome.stderr


async def test_a_batch_is_read_again_if_its_last_message_was_replaced_meanwhile(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NATS ends a batch at the last message of its beginning, which may have been replaced by then."""
    read = StreamCursor.read
    replaced: list[StreamMessage] = []

    async def replaced_once(self: StreamCursor, **query: Any) -> list[StreamMessage]:
        messages: list[StreamMessage] = await read(self, **query)
        if messages and not replaced:
            replaced.extend(messages)
            return []
        return messages

    async with running_gateway(config) as gateway:
        assert await ids(gateway) == []
        monkeypatch.setattr(StreamCursor, "read", replaced_once)
        await write(gateway.inside.runs.store, snapshot())
        assert len(await ids(gateway)) == 1
    assert replaced


async def test_a_write_that_a_pull_without_waiting_misses_is_listed(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as JetStream has not told the consumer of it, which it does after the ack of the write."""

    async def missed(*_: Any, **__: Any) -> list[StreamMessage]:
        return []

    monkeypatch.setattr(StreamCursor, "read", missed)
    written = await write(gateway.inside.runs.store, snapshot())
    assert await ids(gateway) == written
