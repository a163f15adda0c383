"""A journal is read in the order in which tasks finished, even if entries were stored late."""

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from pyoco import Flow
from pyoco.core.context import Context
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.broker.client.connection import PayloadTooLarge
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_log_store import RunLogs
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.journal_order import last_number, valid_entries
from pyoco_server.records.models import JournalEntry, new_run_id
from pyoco_server.worker.session import run_recorder
from pyoco_server.worker.session.run_recorder import RunRecorder
from tests.support.broker.connections import connected
from tests.support.running.flow_runs import FlowUnderTest
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def entry(
    key: str, number: int = 0, *, attempt: int = 1, base: int = 0, output: bytes = b"1"
) -> JournalEntry:
    return JournalEntry(
        key=key,
        task=key,
        attempt=attempt,
        started_at=1.0,
        ended_at=2.0,
        output=output,
        number=number,
        base=base,
    )


def keys(entries: Sequence[JournalEntry]) -> list[tuple[str, int]]:
    return [(each.key, each.attempt) for each in entries]


class TestValidEntries:
    def test_entries_are_in_the_order_of_their_numbers(self) -> None:
        stored = [entry("b", 2), entry("a", 1), entry("c", 3)]
        assert keys(valid_entries(stored)) == [("a", 1), ("b", 1), ("c", 1)]

    def test_entries_after_a_gap_are_ignored(self) -> None:
        assert keys(valid_entries([entry("a", 1), entry("c", 3), entry("d", 4)])) == [("a", 1)]
        assert valid_entries([entry("b", 2)]) == []

    def test_an_attempt_voids_entries_that_it_had_not_read(self) -> None:
        second = [entry("b", 2, attempt=2, base=1)]
        late = [entry("b", 2), entry("c", 3)]
        assert keys(valid_entries([entry("a", 1), *second, *late])) == [("a", 1), ("b", 2)]

    def test_an_attempt_voids_entries_after_a_gap_for_good(self) -> None:
        """Its successors find the gap filled, and must not take up what it has executed again."""
        read = [entry("a", 1), entry("c", 3)]
        assert last_number(valid_entries(read)) == 1
        stored = [*read, entry("b", 2), entry("b", 2, attempt=2, base=1)]
        assert keys(valid_entries(stored)) == [("a", 1), ("b", 2)]

    def test_a_missing_entry_of_a_later_attempt_is_not_replaced_by_an_earlier_one_s(self) -> None:
        stored = [entry("a", 1), entry("c", 3, attempt=2, base=1), entry("b", 2)]
        assert keys(valid_entries(stored)) == [("a", 1)]

    def test_an_attempt_that_stored_nothing_voids_nothing(self) -> None:
        stored = [entry("a", 1), entry("b", 2), entry("c", 3, attempt=3, base=2)]
        assert keys(valid_entries(stored)) == [("a", 1), ("b", 1), ("c", 3)]

    def test_an_attempt_in_another_process_continues_from_what_it_has_read(self) -> None:
        first = [entry("a", 1), entry("late", 3)]
        assert keys(valid_entries([*first, entry("b", 2, base=1)])) == [("a", 1), ("b", 1)]

    def test_a_duplicate_entry_counts_once(self) -> None:
        stored = [entry("a", 1), entry("b", 2), entry("a", 1)]
        assert keys(valid_entries(stored)) == [("a", 1), ("b", 1)]

    def test_entries_without_numbers_are_in_stream_order(self) -> None:
        stored = [entry("b"), entry("a"), entry("b", attempt=2), entry("a", attempt=1, output=b"again")]
        found = valid_entries(stored)
        assert keys(found) == [("b", 2), ("a", 1)]
        assert found[1].output == b"again"

    def test_a_journal_of_two_versions_is_valid(self) -> None:
        old_then_new = [entry("a"), entry("b"), entry("d", 2, attempt=2), entry("c", 1, attempt=2)]
        assert [each.key for each in valid_entries(old_then_new)] == ["a", "b", "c", "d"]
        then_old_again = [*old_then_new, entry("e", attempt=3), entry("f", 3, attempt=4, base=2)]
        assert [each.key for each in valid_entries(then_old_again)] == ["a", "b", "c", "d", "e", "f"]


def flow_of(*functions: Any) -> Flow:
    flow = Flow("ordered")
    for function in functions:
        flow = flow >> TaskWrapper(Task(func=function, name=function.__name__))
    return flow


def phases() -> Flow:
    def a(ctx: Context) -> None:
        ctx.scratch["phase"] = "a"

    def b(ctx: Context) -> None:
        ctx.scratch["phase"] = "b"

    def c(ctx: Context) -> str:
        return str(ctx.scratch["phase"])

    return flow_of(a, b, c)


def output(raw: bytes) -> Any:
    return msgspec.json.decode(raw)["output"]


def test_a_resumed_run_has_the_newer_value_even_if_it_was_stored_earlier() -> None:
    first = FlowUnderTest(phases())
    first.execute()
    a, b = first.written[:2]
    outcome = FlowUnderTest(phases()).execute(journal=valid_entries([b, a]), attempt=2)
    assert output(outcome.task_records["c"]) == "b"


class OrderFlow:
    """Each order is another one: results of two attempts must not be mixed."""

    def __init__(self) -> None:
        self._commands = itertools.count(1)

    def flow(self) -> Flow:
        def order() -> str:
            return f"order-{next(self._commands)}"

        def charge(order: str) -> str:
            return f"charge for {order}"

        def ship(order: str, charge: str) -> str:
            return f"ship {order} ({charge})"

        return flow_of(order, charge, ship)


def test_late_entries_of_a_replaced_attempt_are_ignored() -> None:
    shop = OrderFlow()
    first, second = FlowUnderTest(shop.flow()), FlowUnderTest(shop.flow())
    first.execute(attempt=1)
    second.execute(attempt=2)
    # The second attempt died after its order; the first one's connection came back only then.
    stored = [second.written[0], *first.written[:2]]
    third = FlowUnderTest(shop.flow())
    outcome = third.execute(journal=valid_entries(stored), attempt=3)
    assert output(outcome.task_records["ship"]) == "ship order-2 (charge for order-2)"
    # A fourth attempt decides as the third did.
    stored += third.written[:1]
    outcome = FlowUnderTest(shop.flow()).execute(journal=valid_entries(stored), attempt=4)
    assert output(outcome.task_records["ship"]) == "ship order-2 (charge for order-2)"


def test_numbers_continue_after_the_journal() -> None:
    first = FlowUnderTest(phases())
    first.execute()
    assert [(each.number, each.base) for each in first.written] == [(1, 0), (2, 0), (3, 0)]
    second = FlowUnderTest(phases())
    second.execute(journal=first.written[:1], attempt=2)
    assert [(each.number, each.base) for each in second.written] == [(2, 1), (3, 1)]


def test_reused_entries_keep_their_position() -> None:
    """The first attempt of the rerun makes only one entry its own; the other must not seem older by that."""

    def flow() -> Flow:
        def early(ctx: Context) -> None:
            ctx.scratch["phase"] = "early"

        def late(ctx: Context) -> None:
            ctx.scratch["phase"] = "late"

        def last(ctx: Context) -> str:
            return str(ctx.scratch["phase"])

        return flow_of(early, late, last)

    first = FlowUnderTest(flow())
    first.execute()
    copies = [structs.replace(each, attempt=0) for each in first.written[:2]]
    rerun = FlowUnderTest(flow())
    rerun.execute(journal=valid_entries(copies), attempt=1)
    only_early = [*copies, rerun.written[0]]
    assert keys(valid_entries(only_early)) == [("early||0", 1), ("late||0", 0)]
    outcome = FlowUnderTest(flow()).execute(journal=valid_entries(only_early), attempt=2)
    assert output(outcome.task_records["last"]) == "late"


async def test_a_run_resumes_in_another_process_with_its_whole_journal(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long NATS takes to store it: what is missing would be executed again."""
    monkeypatch.setattr(run_recorder, "_FLUSH_SEC", 0.05)
    append, entries, flush = Journal.append, Journal.entries, RunRecorder.flush
    nats_is_back, settled = asyncio.Event(), itertools.count(1)

    async def held(self: Journal, run_id: str, each: JournalEntry) -> None:
        await nats_is_back.wait()
        await append(self, run_id, each)

    async def read_too_early(self: Journal, run_id: str) -> list[JournalEntry]:
        found = await entries(self, run_id)
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
    async with serving_worker(config):
        run_id = await gateway.submit("slow-but-isolated", params={"book": str(book)})
        run = await gateway.ends(run_id)
    assert run["tasks"] == {"slow": "FAILED", "first": "SUCCEEDED", "second": "SUCCEEDED"}
    assert sorted(book.read_text().splitlines()) == ["first", "second"]


class TestStored:
    """With the journal that the broker keeps."""

    def recorder(self, journal: Journal, run_id: str) -> RunRecorder:
        async def nothing(*_: object) -> None: ...

        connection = journal._connection
        return RunRecorder(
            connection, journal, RunLogs(connection), run_id, ask=nothing, assure_ownership=nothing
        )

    async def test_an_entry_whose_publish_was_lost_keeps_its_position(
        self, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append, lost, later_is_stored = Journal.append, asyncio.Event(), asyncio.Event()

        async def losing(self: Journal, run_id: str, each: JournalEntry) -> None:
            if each.key == "a" and not lost.is_set():
                lost.set()
                await later_is_stored.wait()
                raise self._connection.unavailable("no answer")
            await append(self, run_id, each)

        monkeypatch.setattr(Journal, "append", losing)
        async with connected(config) as connection:
            journal, run_id = Journal(connection), new_run_id()
            recorder = self.recorder(journal, run_id)
            recorder.finished(entry("a", 1))
            await eventually(lost.is_set, describe="the first publish was lost")
            recorder.finished(entry("b", 2))

            async def stored() -> bool:
                return len(await journal._messages(run_id)) == 1

            await eventually(stored, describe="the second entry is stored")
            # The worker may die now: what was made from the missing result must not be taken up.
            assert await journal.entries(run_id) == []
            later_is_stored.set()
            await recorder.flush()
            assert [each.key for each in await journal.entries(run_id)] == ["a", "b"]
            await recorder.close()

    async def test_an_entry_that_nats_rejects_leaves_no_gap(
        self, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append = Journal.append

        async def refusing(self: Journal, run_id: str, each: JournalEntry) -> None:
            if len(each.output) > 100:
                raise PayloadTooLarge("the stream takes 100 bytes")
            await append(self, run_id, each)

        monkeypatch.setattr(Journal, "append", refusing)
        async with connected(config) as connection:
            journal, run_id = Journal(connection), new_run_id()
            recorder = self.recorder(journal, run_id)
            recorder.finished(entry("large", 1, output=b"x" * 101))
            recorder.finished(entry("b", 2))
            await recorder.flush()
            found = await journal.entries(run_id)
            assert [(each.key, each.output) for each in found] == [("large", b""), ("b", b"1")]
            await recorder.close()

    async def test_a_copy_is_numbered_again_in_order(self, config: NatsBackendConfig) -> None:
        async with connected(config) as connection:
            journal, origin, rerun = Journal(connection), new_run_id(), new_run_id()
            # The first one is stored in parts, and others overtake it.
            for each in (entry("b", 2), entry("c", 3, attempt=2, base=2), entry("late", 3)):
                await journal.append(origin, each)
            await journal.append(origin, entry("a", 1, output=b"x" * 2_000_000))
            await journal.copy(origin, rerun)
            found = await journal.entries(rerun)
            assert [(each.key, each.attempt, each.number, each.base) for each in found] == [
                ("a", 0, 1, 0),
                ("b", 0, 2, 0),
                ("c", 0, 3, 0),
            ]
