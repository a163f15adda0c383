"""A journal is read in the order in which tasks finished, even if entries were stored late."""

import itertools
from collections.abc import Sequence
from typing import Any

from msgspec import structs
from pyoco import Flow
from pyoco.core.context import Context
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.journal_order import last_number, valid_entries
from tests.support.running.flow_runs import FlowUnderTest, output


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
        """Later attempts find the gap filled, and must not use what this one has executed again."""
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


def test_a_resumed_run_has_the_newer_value_even_if_it_was_stored_earlier() -> None:
    first = FlowUnderTest(phases())
    first.execute()
    a, b = first.written[:2]
    outcome = FlowUnderTest(phases()).execute(journal=valid_entries([b, a]), attempt=2)
    assert output(outcome, "c") == "b"


class OrderFlow:
    """Every order has a new number: results of two attempts must not be mixed."""

    def __init__(self) -> None:
        self._orders = itertools.count(1)

    def flow(self) -> Flow:
        def order() -> str:
            return f"order-{next(self._orders)}"

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
    # The second attempt died after its order, before late entries of the first one were stored.
    stored = [second.written[0], *first.written[:2]]
    third = FlowUnderTest(shop.flow())
    outcome = third.execute(journal=valid_entries(stored), attempt=3)
    assert output(outcome, "ship") == "ship order-2 (charge for order-2)"
    # A fourth attempt decides as the third did.
    stored += third.written[:1]
    outcome = FlowUnderTest(shop.flow()).execute(journal=valid_entries(stored), attempt=4)
    assert output(outcome, "ship") == "ship order-2 (charge for order-2)"


def test_numbers_continue_after_the_journal() -> None:
    first = FlowUnderTest(phases())
    first.execute()
    assert [(each.number, each.base) for each in first.written] == [(1, 0), (2, 0), (3, 0)]
    second = FlowUnderTest(phases())
    second.execute(journal=first.written[:1], attempt=2)
    assert [(each.number, each.base) for each in second.written] == [(2, 1), (3, 1)]


def test_reused_entries_keep_their_position() -> None:
    """The first attempt of the rerun adopts one entry; the other must not seem older by that."""

    first = FlowUnderTest(phases())
    first.execute()
    copies = [structs.replace(each, attempt=0) for each in first.written[:2]]
    rerun = FlowUnderTest(phases())
    rerun.execute(journal=valid_entries(copies), attempt=1)
    adopted = [*copies, rerun.written[0]]
    assert keys(valid_entries(adopted)) == [("a||0", 1), ("b||0", 0)]
    outcome = FlowUnderTest(phases()).execute(journal=valid_entries(adopted), attempt=2)
    assert output(outcome, "c") == "b"
