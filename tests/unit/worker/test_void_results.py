"""A finished task without a valid result is executed again, with its downstream if the result differs."""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper, switch

from pyoco_server.records.runs.journal_order import valid_entries
from pyoco_server.runs.flow_yaml.flow_order import in_order
from pyoco_server.worker.engine.graph.flow_shape import FlowShape
from pyoco_server.worker.flows.flow_files import FlowFolder
from tests.support.running.flow_runs import Executed, FlowUnderTest, copied, journal_of, record, resumed

CHANGED = "the flow has changed since it finished, at this task or before it"


def shape_of(flow: Flow) -> FlowShape:
    return FlowShape(flow, in_order(flow))


class TestTooLarge:
    """Results that are too large are computed again, and compared by digest."""

    def resumed(self, *, same: bool, loops: bool = False, dies_after: int = 99) -> tuple[list[str], Any]:
        numbers = itertools.count()

        def flow(executed: Executed) -> Flow:
            def order() -> str:
                return f"order {0 if same else next(numbers)} " + "x" * 2000

            first = Flow("f") >> executed.task("early") >> executed.task("order", order)
            charge = executed.task("charge")
            return first >> (charge[1] if loops else charge) >> executed.task("ship")

        run = FlowUnderTest(flow(Executed()), max_value_bytes=1000)
        run.execute()
        journal = [entry for entry in run.written if entry.task != "ship"]
        executed = Executed()
        again = FlowUnderTest(flow(executed), max_value_bytes=1000)
        outcome = again.execute(journal=journal, attempt=2)
        assert outcome.status == "COMPLETED"
        self.stored = [*journal, *again.written[:dies_after]]
        self.flow = flow
        return executed, outcome

    @pytest.mark.parametrize("loops", [False, True])
    def test_the_same_result_keeps_its_downstream_valid(self, loops: bool) -> None:
        executed, outcome = self.resumed(same=True, loops=loops)
        assert executed == ["order", "ship"]
        assert "PYOCO_JOURNAL_VALUE_MAX_BYTES=1000" in record(outcome, "order")["executed_again"]
        assert record(outcome, "charge")["replayed"]

    @pytest.mark.parametrize("loops", [False, True])
    def test_another_result_voids_its_downstream(self, loops: bool) -> None:
        executed, outcome = self.resumed(same=False, loops=loops)
        assert executed == ["order", "charge", "ship"]
        assert record(outcome, "early")["replayed"]
        reason = "order, which comes before it, was executed again with another result"
        assert record(outcome, "charge")["executed_again"] == reason

    def test_void_entries_stay_void_for_the_next_attempt(self) -> None:
        # It died before anything after the order was executed; the limit was raised meanwhile.
        self.resumed(same=False, dies_after=2)
        executed = Executed()
        third = FlowUnderTest(self.flow(executed), max_value_bytes=10_000)
        third.execute(journal=valid_entries(self.stored), attempt=3)
        assert executed == ["order", "charge", "ship"]

    def test_another_result_of_a_step_voids_later_steps(self) -> None:
        numbers, executed = itertools.count(), list[str]()

        def work(ctx: Any) -> None:
            ctx.step("order", lambda: f"order {next(numbers)} " + "x" * 2000)
            ctx.step("charge", lambda: executed.append("charge"))
            if executed.count("charge") == 1:
                raise ValueError("after the steps")

        flow = Flow("f") >> TaskWrapper(Task(func=work, name="work", retries=1))
        outcome = FlowUnderTest(flow, max_value_bytes=1000).execute()
        assert (outcome.status, executed) == ("COMPLETED", ["charge", "charge"])

    def test_each_retry_voids_steps_after_another_result(self) -> None:
        numbers = itertools.count()
        assert self.charged_at_the_third_try(lambda: next(numbers)) == ("order 2", "charge for order 2")

    def test_a_replayed_step_is_voided_by_another_result(self) -> None:
        numbers = iter([0, 0, 1])
        assert self.charged_at_the_third_try(lambda: next(numbers)) == ("order 1", "charge for order 1")

    def charged_at_the_third_try(self, number: Callable[[], int]) -> tuple[str, str]:
        tries: list[tuple[str, str]] = []

        def work(ctx: Any) -> None:
            order = ctx.step("order", lambda: f"order {number()}" + " " * 2000).strip()
            tries.append((order, ctx.step("charge", lambda: f"charge for {order}")))
            if len(tries) < 3:
                raise ValueError("after the steps")

        flow = Flow("f") >> TaskWrapper(Task(func=work, name="work", retries=2))
        assert FlowUnderTest(flow, max_value_bytes=1000).execute().status == "COMPLETED"
        return tries[2]

    def test_an_unchanged_result_keeps_its_position(self) -> None:
        """In a loop the order of the journal decides what is downstream."""
        numbers = iter([0, 0, 1])

        def flow(executed: Executed) -> Flow:
            order = executed.task("order", lambda: f"{next(numbers)}" + "x" * 2000)
            return Flow("f") >> order >> executed.task("charge")[1] >> executed.task("ship")

        first = FlowUnderTest(flow(Executed()), max_value_bytes=1000)
        first.execute()
        stored = first.written[:2]
        second = FlowUnderTest(flow(Executed()), max_value_bytes=1000)
        second.execute(journal=valid_entries(stored), attempt=2)
        journal = valid_entries([*stored, *second.written])
        assert [entry.task for entry in journal] == ["order", "charge", "ship"]
        executed = Executed()
        FlowUnderTest(flow(executed), max_value_bytes=1000).execute(journal=journal, attempt=3)
        assert executed == ["order", "charge", "ship"]

    def test_an_unchanged_result_in_a_changed_flow_is_after_the_new_task(self) -> None:
        numbers = iter([0, 1])

        def large(number: int) -> str:
            return f"{number}" + "x" * 2000

        def flow(executed: Executed, *, new: bool) -> Flow:
            made = Flow("f")
            if new:
                made = made >> executed.task("new", lambda: large(next(numbers)))
            return made >> executed.task("order", lambda: large(0)) >> executed.task("charge")[1]

        first = FlowUnderTest(flow(Executed(), new=False), max_value_bytes=1000)
        first.execute()
        second = FlowUnderTest(flow(Executed(), new=True), max_value_bytes=1000)
        second.execute(journal=valid_entries(first.written), attempt=2)
        journal = valid_entries([*first.written, *second.written])
        assert [entry.task for entry in journal if entry.digest or entry.has_value] == [
            "new",
            "order",
            "charge",
        ]


class TestChangedFlow:
    def test_tasks_upstream_of_a_change_stay_valid(self) -> None:
        journal = journal_of(lambda executed: executed.chain("a", "b", "c"))[:2]
        executed = Executed()
        run = FlowUnderTest(executed.chain("a", "new", "b", "c"))
        outcome = run.execute(journal=journal, attempt=2)
        assert executed == ["new", "b", "c"]
        assert record(outcome, "a")["replayed"]
        assert record(outcome, "b")["executed_again"] == CHANGED
        assert "executed_again" not in record(outcome, "c")
        assert [(line.stream, line.task, line.text) for line in run.lines] == [
            ("note", "b", f"task b is executed again: {CHANGED}")
        ]

    def test_a_task_added_downstream_voids_nothing(self) -> None:
        journal = journal_of(lambda executed: executed.chain("a", "b"))
        executed, _ = resumed(lambda each: each.chain("a", "b", "new"), journal)
        assert executed == ["new"]

    def test_the_code_of_a_task_its_retries_and_its_limit_may_change(self) -> None:
        journal = journal_of(lambda executed: executed.chain("a", "b"))[:1]

        def fixed(executed: Executed) -> Flow:
            first = executed.task("a", lambda: "fixed", retries=3, timeout_sec=60)
            return Flow("chain") >> first >> executed.task("b")

        assert resumed(fixed, journal)[0] == ["b"]

    def test_a_parallel_branch_stays_valid(self) -> None:
        def flow(executed: Executed, **options: Any) -> Flow:
            left, right = executed.task("left", **options).task, executed.task("right").task
            join = executed.task("join", dependencies={left, right}).task
            left.dependents.add(join)
            right.dependents.add(join)
            made = Flow("branches")
            for task in (left, right, join):
                made.add_task(task)
            return made

        journal = journal_of(flow)
        executed, _ = resumed(lambda each: flow(each, outputs=["scratch.left"]), journal)
        assert executed == ["left", "join"]

    def test_a_changed_loop_is_void_with_everything_after_it(self) -> None:
        def flow(executed: Executed, turns: int, also: str | None = None) -> Flow:
            body = executed.task("turn") if also is None else executed.task("turn") >> executed.task(also)
            return Flow("loop") >> executed.task("a") >> body[turns] >> executed.task("b")

        journal = journal_of(lambda each: flow(each, 2))
        assert resumed(lambda each: flow(each, 2), journal)[0] == []
        assert resumed(lambda each: flow(each, 3), journal)[0] == ["turn"] * 3 + ["b"]
        assert resumed(lambda each: flow(each, 2, "more"), journal)[0] == [*["turn", "more"] * 2, "b"]

    def test_workers_with_different_code_do_not_mix_their_results(self) -> None:
        """The second one dies after it has executed the new task; the third has the old code again."""
        journal = journal_of(lambda executed: executed.chain("a", "b", "c"))
        executed = Executed()
        second = FlowUnderTest(executed.chain("new", "a", "b", "c"))
        second.execute(journal=journal, attempt=2)
        assert executed == ["new", "a", "b", "c"]
        until_a = [entry.task for entry in second.written if entry.has_value].index("a")
        kept = [entry for entry in second.written if not entry.has_value or entry.task in ("new", "a")]
        assert until_a == 1
        stored = [*journal, *kept]
        executed, _ = resumed(lambda each: each.chain("a", "b", "c"), valid_entries(stored), attempt=3)
        assert executed == ["a", "b", "c"]

    def test_a_rerun_reuses_tasks_upstream_of_a_change(self) -> None:
        journal = journal_of(lambda executed: executed.chain("a", "b"))
        executed = Executed()
        run = FlowUnderTest(executed.chain("a", "new", "b"))
        run.execute(journal=copied(journal))
        assert executed == ["new", "b"]
        assert (run.written[0].task, run.written[0].number) == ("a", 1)

    def test_a_literal_input_changed_by_its_task_does_not_change_the_shape(self) -> None:
        def flow(executed: Executed) -> Flow:
            def charge(options: dict[str, Any]) -> None:
                executed.append("charge")
                options.setdefault("currency", "EUR")

            options = {"options": {"amount": 5}}
            return Flow("f") >> TaskWrapper(Task(charge, "charge", inputs=options)) >> executed.task("ship")

        run = FlowUnderTest(flow(Executed()))
        run.execute()
        # A later run of the same process.
        run.execute()
        for written in (run.written[:1], run.written[2:3]):
            assert resumed(flow, written)[0] == ["ship"]

    def test_entries_without_a_shape_are_valid(self) -> None:
        journal = [
            structs.replace(entry, shape=b"", number=0)
            for entry in journal_of(lambda executed: executed.chain("a", "b", "c"))[:2]
        ]
        executed, _ = resumed(lambda each: each.chain("a", "new", "b", "c"), journal)
        assert executed == ["new", "c"]


class TestShape:
    def test_the_shape_is_the_same_in_every_process(self) -> None:
        """A value without a literal form is represented by its type: its repr may contain an address."""

        class Handle: ...

        def flow(handle: object) -> Flow:
            executed = Executed()
            first = executed.task("a", inputs={"b": [handle], "a": {"x": 1}})
            return Flow("f") >> first >> executed.task("b", inputs={"b": b"\xff", "c": "\udcff"})

        first, second = shape_of(flow(Handle())), shape_of(flow(Handle()))
        assert [first.of(name) for name in "ab"] == [second.of(name) for name in "ab"]
        assert first.of("a") != shape_of(flow(1)).of("a")
        assert first.of("none") == b""

    def test_the_order_of_a_set_does_not_matter(self) -> None:
        """It differs between processes for strings."""

        def flow(*names: str) -> bytes:
            task = Executed().task("a", inputs={"names": set(names), "more": frozenset(names)})
            return shape_of(Flow("f") >> task).of("a")

        # Two names whose order in a set depends on their insertion.
        first, *names = [f"n{number}" for number in range(1000)]
        other = next(name for name in names if list({first, name}) != list({name, first}))
        assert flow(first, other) == flow(other, first) != flow(first)

    def test_a_recursive_literal_is_represented_by_its_type(self) -> None:
        endless: list[Any] = []
        endless.append(endless)
        task = Executed().task("a", inputs={"endless": endless})
        assert shape_of(Flow("f") >> task).of("a")

    def test_the_shapes_of_a_folder_are_computed_before_the_first_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two flows may share a literal, which a task of the first changes."""
        monkeypatch.setattr(sys, "path", [*sys.path])
        (tmp_path / "sharing_a_literal.py").write_text(
            "from pyoco import Flow\n"
            "from pyoco.core.models import Task\n"
            "from pyoco.dsl.syntax import TaskWrapper\n"
            "OPTIONS = {'amount': 5}\n"
            "def charge(options): options.setdefault('currency', 'EUR')\n"
            "def flow(name):\n"
            "    task = Task(charge, 'charge', inputs={'options': OPTIONS})\n"
            "    return Flow(name) >> TaskWrapper(task) >> TaskWrapper(Task(lambda: None, 'ship'))\n"
            "first, second = flow('first'), flow('second')\n"
        )
        folder = FlowFolder(tmp_path)
        folder.load()
        runs = [FlowUnderTest(folder.resolve(name)) for name in ("first", "second")]
        for run in runs:
            assert run.execute().status == "COMPLETED"
        first, second = (run.written[0].shape for run in runs)
        assert first == second

    def test_every_part_of_a_program_changes_the_shape(self) -> None:
        def flow(**parts: Any) -> bytes:
            how: dict[str, Any] = {
                "count": 2,
                "until": "$ctx.params.n > 1",
                "way": "$ctx.params.w",
                "case": "x",
                "to": "l",
            }
            how |= parts
            executed = Executed()
            made = (
                Flow("f")
                >> executed.task("a")[how["count"]]
                >> executed.task("e")["$ctx.params.items as item"]
                >> executed.task("u") % (how["until"], 9)
                >> switch(how["way"])[how["case"] >> executed.task(how["to"]), "*" >> executed.task("o")]
                >> executed.task("end")
            )
            return shape_of(made).of("end")

        digests = [
            flow(),
            flow(count=3),
            flow(until="$ctx.params.n > 2"),
            flow(way="$ctx.params.v"),
            flow(case="y"),
            flow(to="m"),
        ]
        assert flow() == digests[0]
        assert len(set(digests)) == len(digests)
