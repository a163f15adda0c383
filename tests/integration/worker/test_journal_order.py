"""The stored journal keeps the order of entries through lost and rejected publishes."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.worker.session import run_recorder
from pyoco_server.worker.session.run_recorder import RunRecorder
from tests.integration.worker.conftest import OwnQueue
from tests.support.waiting import eventually
from tests.unit.worker.test_journal_order import entry

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_run_resumes_in_another_process_with_its_whole_journal(
    own_queue: OwnQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long NATS takes to store it: what is missing would be executed again."""
    monkeypatch.setattr(run_recorder, "_FLUSH_SEC", 0.05)
    append, entries, flush = Journal.append, Journal.entries, RunRecorder.flush
    nats_is_back, settled = asyncio.Event(), itertools.count(1)

    async def held(self: Journal, tag: str, run_id: str, each: JournalEntry) -> None:
        await nats_is_back.wait()
        await append(self, tag, run_id, each)

    async def read_too_early(self: Journal, tag: str, run_id: str, **options: Any) -> list[JournalEntry]:
        found = await entries(self, tag, run_id, **options)
        nats_is_back.set()
        return found

    async def waited_again(self: RunRecorder) -> None:
        if next(settled) > 1:
            nats_is_back.set()
        await flush(self)

    monkeypatch.setattr(Journal, "append", held)
    monkeypatch.setattr(Journal, "entries", read_too_early)
    monkeypatch.setattr(RunRecorder, "flush", waited_again)
    book = tmp_path / "book"
    async with own_queue.worker():
        run = await own_queue.run("slow-but-isolated", params={"book": str(book)})
    assert run["tasks"] == {"slow": "FAILED", "first": "SUCCEEDED", "second": "SUCCEEDED"}
    assert sorted(book.read_text().splitlines()) == ["first", "second"]


def new_recorder(connection: Connection, run_id: str) -> RunRecorder:
    async def nothing(*_: object) -> None: ...

    return RunRecorder(
        connection,
        Journal(connection),
        RunLogs(connection),
        run_id,
        tag="default",
        ask=nothing,
        verify_ownership=nothing,
    )


async def test_an_entry_whose_publish_was_lost_keeps_its_position(
    shared_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, lost, later_is_stored = Journal.append, asyncio.Event(), asyncio.Event()

    async def losing(self: Journal, tag: str, run_id: str, each: JournalEntry) -> None:
        if each.key == "a" and not lost.is_set():
            lost.set()
            await later_is_stored.wait()
            raise self._connection.unavailable("no answer")
        await append(self, tag, run_id, each)

    monkeypatch.setattr(Journal, "append", losing)
    journal, run_id = Journal(shared_connection), new_run_id()
    recorder = new_recorder(shared_connection, run_id)
    recorder.finished(entry("a", 1))
    await eventually(lost.is_set, describe="the first publish was lost")
    recorder.finished(entry("b", 2))

    async def stored() -> bool:
        return len(await journal._messages(f"pyoco.journal.default.{run_id}")) == 1

    await eventually(stored, describe="the second entry is stored")
    assert await journal.entries("default", run_id) == []
    later_is_stored.set()
    await recorder.flush()
    assert [each.key for each in await journal.entries("default", run_id)] == ["a", "b"]
    await recorder.close()


async def test_an_entry_that_nats_rejects_leaves_no_gap(
    shared_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Journal.append

    async def refusing(self: Journal, tag: str, run_id: str, each: JournalEntry) -> None:
        if len(each.output) > 100:
            raise PayloadTooLarge("the stream takes 100 bytes")
        await append(self, tag, run_id, each)

    monkeypatch.setattr(Journal, "append", refusing)
    journal, run_id = Journal(shared_connection), new_run_id()
    recorder = new_recorder(shared_connection, run_id)
    recorder.finished(entry("large", 1, output=b"x" * 101))
    recorder.finished(entry("b", 2))
    await recorder.flush()
    found = await journal.entries("default", run_id)
    assert [(each.key, each.output) for each in found] == [("large", b""), ("b", b"1")]
    await recorder.close()


async def test_a_copy_is_numbered_again_in_order(shared_connection: Connection) -> None:
    journal, origin, rerun = Journal(shared_connection), new_run_id(), new_run_id()
    # The first one is stored in parts, and others overtake it.
    for each in (entry("b", 2), entry("c", 3, attempt=2, base=2), entry("late", 3)):
        await journal.append("default", origin, each)
    await journal.append("default", origin, entry("a", 1, output=b"x" * 2_000_000))
    await journal.copy("default", origin, rerun)
    found = await journal.entries("default", rerun)
    assert [(each.key, each.attempt, each.number, each.base) for each in found] == [
        ("a", 0, 1, 0),
        ("b", 0, 2, 0),
        ("c", 0, 3, 0),
    ]
