"""Resuming a flow from its journal: a finished task is not executed again, and the flow ends the same."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from pyoco import Flow
from pyoco.core.context import Context
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper, switch

from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.worker.engine.tasks.task_calls import RetryBackoff
from pyoco_server.worker.flows.callable_policy import CallablePolicy
from pyoco_server.worker.flows.flow_source import FlowSource
from pyoco_server.worker.ipc.protocol import Outcome, Run
from tests.support.running.flow_runs import (
    Executed,
    FlowUnderTest,
    copied,
    journal_of,
    output,
    outputs,
    record,
    resumed,
)


def linear(executed: Executed) -> Flow:
    return (
        Flow("linear")
        >> executed.task("a", lambda: 1)
        >> executed.task("b", lambda a: a + 1)
        >> executed.task("c", lambda b: b * 10)
    )


def parallel(executed: Executed) -> Flow:
    flow = Flow("parallel")
    start = executed.task("start", lambda: 3).task
    left = executed.task("left", lambda start: start + 1, dependencies={start}).task
    right = executed.task("right", lambda start: start * 2, dependencies={start}).task
    join = executed.task("join", lambda left, right: [left, right], dependencies={left, right}).task
    start.dependents |= {left, right}
    left.dependents.add(join)
    right.dependents.add(join)
    for task in (start, left, right, join):
        flow.add_task(task)
    return flow


def counting(executed: Executed) -> Flow:
    """Nested loops that depend on the state of their tasks."""

    def grow(ctx: Context) -> int:
        ctx.scratch["total"] = ctx.scratch.get("total", 0) + 1
        ctx.scratch.setdefault("seen", []).append(ctx.loop.path)
        return int(ctx.scratch["total"])

    def forget(ctx: Context) -> list[str]:
        ctx.set_var("last", ctx.scratch["total"])
        return list(ctx.scratch.pop("seen"))

    return (
        Flow("counting")
        >> executed.task("begin", lambda ctx: ctx.scratch.update(total=0))
        >> executed.task("grow", grow)[2] % ("$ctx.scratch.total >= 5", 9)
        >> executed.task("forget", forget)
        >> executed.task("tell", lambda ctx: [ctx.get_var("last"), sorted(ctx.scratch)])
    )


def each(executed: Executed) -> Flow:
    body = executed.task(
        "one", lambda ctx: ctx.scratch.setdefault("got", []).append(ctx.get_var("item"))
    ) >> executed.task("same", lambda ctx: list(ctx.scratch["got"]))
    return Flow("each") >> body["$ctx.params.items as item"]


def switched(executed: Executed) -> Flow:
    return (
        Flow("switched")
        >> executed.task("choose", lambda ctx: ctx.scratch.update(way="x"))
        >> switch("$ctx.scratch.way")[
            "x" >> executed.task("left", lambda: "L"), "*" >> executed.task("right", lambda: "R")
        ]
        >> executed.task("end", lambda: "done")
    )


@pytest.mark.parametrize("make", [linear, parallel, counting, each, switched])
def test_a_run_resumes_after_any_task_and_ends_the_same(make: Callable[[Executed], Flow]) -> None:
    params = {"items": ["p", "q", "r"]}
    whole = Executed()
    first = FlowUnderTest(make(whole))
    expected = outputs(first.execute(params))
    journal = first.written
    assert len(journal) == len(whole)
    for finished in range(len(journal) + 1):
        executed = Executed()
        second = FlowUnderTest(make(executed))
        outcome = second.execute(params, journal[:finished], attempt=2)
        assert outcome.status == "COMPLETED"
        assert outputs(outcome) == expected
        assert len(executed) == len(whole) - finished
        assert len(second.written) == len(executed)


def test_a_replayed_task_keeps_its_times() -> None:
    journal = journal_of(linear)
    _, outcome = resumed(linear, journal[:2])
    assert [record(outcome, name).get("replayed") for name in "abc"] == [True, True, None]
    assert record(outcome, "a")["started_at"] == journal[0].started_at
    assert record(outcome, "b")["inputs"] == {"a": 1}


def test_the_only_task_of_a_run_is_not_journalled() -> None:
    run = FlowUnderTest(Flow("single") >> Executed().task("only", lambda: 1))
    assert run.execute().status == "COMPLETED"
    assert run.written == []


def test_results_keep_their_python_types() -> None:
    def check(a: Any) -> str:
        return f"{type(a).__name__} {a}"

    def flow(executed: Executed) -> Flow:
        value = ({1: b"x"}, frozenset({2}), (3,))
        return Flow("f") >> executed.task("a", lambda: value) >> executed.task("b", check)

    first = FlowUnderTest(flow(Executed()))
    expected = output(first.execute(), "b")
    assert output(resumed(flow, first.written[:1])[1], "b") == expected


def test_a_task_with_an_unstorable_result_is_executed_again() -> None:
    def flow(executed: Executed) -> Flow:
        return (
            Flow("f")
            >> executed.task("a", lambda: 1)
            >> executed.task("lock", lambda: threading.Lock())  # noqa: PLW0108
            >> executed.task("c", lambda: 3)
        )

    first = FlowUnderTest(flow(Executed()))
    assert "cannot pickle '_thread.lock' object" in record(first.execute(), "lock")["not_journalled"]
    assert [(each.task, each.has_value) for each in first.written] == [
        ("a", True),
        ("lock", False),
        ("c", True),
    ]
    executed, outcome = resumed(flow, first.written)
    assert executed == ["lock"]
    assert "cannot pickle" in record(outcome, "lock")["executed_again"]


def test_a_task_with_a_too_large_result_is_executed_again() -> None:
    executed = Executed()
    flow = Flow("f") >> executed.task("big", lambda: "x" * 5000) >> executed.task("b", lambda: 1)
    run = FlowUnderTest(flow, max_value_bytes=1000)
    assert "PYOCO_JOURNAL_VALUE_MAX_BYTES=1000" in record(run.execute(), "big")["not_journalled"]
    assert [(entry.task, entry.has_value) for entry in run.written] == [("big", False), ("b", True)]


def test_a_task_with_an_unreadable_result_is_executed_again() -> None:
    first, *others = journal_of(linear)
    broken = msgspec.structs.replace(first, output=b"\x80\x05cno_such_module\nX\n.")
    executed, outcome = resumed(linear, [broken, *others])
    assert executed == ["a"]
    assert "cannot be read" in record(outcome, "a")["not_journalled"]


def test_a_retried_task_is_not_executed_again_after_its_success() -> None:
    def flow(executed: Executed) -> Flow:
        def twice() -> str:
            if executed.count("flaky") < 3:
                raise ValueError("not yet")
            return "third"

        return (
            Flow("f") >> executed.task("flaky", twice, retries=2) >> executed.task("b", lambda flaky: flaky)
        )

    first_executed = Executed()
    first = FlowUnderTest(flow(first_executed))
    assert output(first.execute(), "b") == "third"
    assert first_executed == ["flaky", "flaky", "flaky", "b"]
    executed, outcome = resumed(flow, first.written[:1])
    assert (executed, output(outcome, "b")) == (["b"], "third")


def test_an_isolated_failure_is_replayed() -> None:
    def flow(executed: Executed) -> Flow:
        def broken() -> None:
            raise ValueError("no luck")

        made = Flow("f")
        made.add_task(executed.task("broken", broken, fail_policy="isolate").task)
        made.add_task(executed.task("fine", lambda: 1).task)
        return made

    journal = journal_of(flow)
    assert {entry.task: entry.error for entry in journal} == {"broken": "no luck", "fine": None}
    executed, outcome = resumed(flow, journal)
    assert executed == []
    assert outcome.tasks == {"broken": "FAILED", "fine": "SUCCEEDED"}
    assert record(outcome, "broken")["error"] == "no luck"


class TestSteps:
    def flow(self, executed: Executed, *, fails: bool = False) -> Flow:
        def work(ctx: Any) -> list[str]:
            results = [ctx.step("charge", lambda: self.note(executed, "charge")) for _ in range(2)]
            if fails or (executed.count("work") < 2 and executed.count("retry") == 1):
                raise ValueError("after the steps")
            return results

        return Flow("steps") >> executed.task("work", work, retries=0)

    def note(self, executed: Executed, what: str) -> str:
        executed.append(what)
        return f"{what} {executed.count(what)}"

    def test_a_step_is_not_executed_again_with_its_task(self) -> None:
        first_executed = Executed()
        first = FlowUnderTest(self.flow(first_executed, fails=True))
        assert first.execute().status == "FAILED"
        assert first_executed == ["work", "charge", "charge"]
        executed, outcome = resumed(self.flow, first.written)
        assert executed == ["work"]
        assert output(outcome, "work") == ["charge 1", "charge 2"]

    def test_a_retry_in_the_same_attempt_keeps_its_steps(self) -> None:
        executed = Executed()

        def work(ctx: Any) -> str:
            result: str = ctx.step("charge", lambda: self.note(executed, "charge"))
            if executed.count("work") == 1:
                raise ValueError("after the step")
            return result

        outcome = FlowUnderTest(Flow("s") >> executed.task("work", work, retries=1)).execute()
        assert executed == ["work", "charge", "work"]
        assert outputs(outcome)["work"] == "charge 1"

    def test_a_failed_step_is_executed_again(self) -> None:
        executed = Executed()

        def step() -> None:
            executed.append("step")
            raise ValueError("broken step")

        def work(ctx: Any) -> None:
            ctx.step("s", step)

        run = FlowUnderTest(Flow("s") >> executed.task("work", work, retries=1))
        outcome = run.execute()
        assert executed.count("step") == 2
        assert "broken step" in (outcome.error or "")
        assert run.written == []

    def test_a_nested_step_differs_from_an_outer_one_of_the_same_name(self) -> None:
        def flow(executed: Executed) -> Flow:
            def work(ctx: Any) -> list[str]:
                outer = ctx.step("a", lambda: ctx.step("x", lambda: "inner"))
                return [outer, ctx.step("x", lambda: "outer")]

            return Flow("steps") >> executed.task("work", work)

        first = FlowUnderTest(flow(Executed()))
        assert output(first.execute(), "work") == ["inner", "outer"]
        assert output(resumed(flow, first.written)[1], "work") == ["inner", "outer"]

    @pytest.mark.parametrize("name", ["", "a|b", "x" * 201, 3])
    def test_an_invalid_name_is_rejected(self, name: Any) -> None:
        def work(ctx: Any) -> None:
            ctx.step(name, lambda: None)

        outcome = FlowUnderTest(Flow("s") >> Executed().task("work", work)).execute()
        assert "expected a name of 1 to 200 characters" in (outcome.error or "")


class TestRerunFromTask:
    def test_the_task_and_its_downstream_run_again(self) -> None:
        executed, outcome = resumed(parallel, copied(journal_of(parallel)), attempt=1, rerun_task="left")
        assert sorted(executed) == ["join", "left"]
        assert output(outcome, "join") == [4, 6]

    def test_with_loops_everything_since_its_first_start_runs_again(self) -> None:
        whole = Executed()
        first = FlowUnderTest(counting(whole))
        first.execute()
        executed, _ = resumed(counting, copied(first.written), attempt=1, rerun_task="grow")
        assert executed == whole[1:]

    @pytest.mark.parametrize("make", [parallel, counting])
    def test_a_resumed_rerun_keeps_its_own_results(self, make: Callable[[Executed], Flow]) -> None:
        original = copied(journal_of(make))
        task = "left" if make is parallel else "grow"
        rerun = FlowUnderTest(make(Executed()))
        rerun.execute(journal=original, rerun_task=task)
        executed, _ = resumed(make, [*original, *rerun.written], rerun_task=task)
        assert executed == []

    def test_reused_entries_are_adopted(self) -> None:
        rerun = FlowUnderTest(linear(Executed()))
        rerun.execute(journal=copied(journal_of(linear)), rerun_task="c")
        assert [(entry.task, entry.attempt) for entry in rerun.written] == [("a", 1), ("b", 1), ("c", 1)]

    def test_a_failed_task_is_executed_again(self) -> None:
        made = Flow("f")
        executed = Executed()
        made.add_task(executed.task("once_broken", lambda: "fine", fail_policy="isolate").task)
        made.add_task(executed.task("other", lambda: 1).task)
        failure = JournalEntry(
            key="once_broken||0", task="once_broken", attempt=0, started_at=1, ended_at=2, error="broken"
        )
        assert FlowUnderTest(made).execute(journal=[failure]).tasks["once_broken"] == "SUCCEEDED"


def test_the_context_of_a_task_shares_the_state_of_the_flow() -> None:
    executed = Executed()

    def assign(ctx: Any) -> None:
        ctx.remark = "kept"

    flow = Flow("f") >> executed.task("a", assign) >> executed.task("b", lambda ctx: ctx.remark)
    assert outputs(FlowUnderTest(flow).execute())["b"] == "kept"


def test_a_wrapped_flow_still_runs_with_pyoco() -> None:
    from pyoco.core.engine import Engine  # noqa: PLC0415

    flow = linear(Executed())
    FlowUnderTest(flow).execute()
    assert Engine().run(flow).results == {"a": 1, "b": 2, "c": 20}


class TestRetryBackoff:
    def test_delays_double_up_to_the_maximum_with_jitter(self) -> None:
        backoff = RetryBackoff(1.0, 5.0)
        for number, longest in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (50, 5.0)):
            drawn = [backoff.delay_sec(number) for _ in range(200)]
            assert longest / 2 <= min(drawn) < max(drawn) <= longest

    def test_a_cancel_ends_the_backoff(self) -> None:
        def broken() -> None:
            raise ValueError("no")

        run = FlowUnderTest(
            Flow("f") >> Executed().task("t", broken, retries=1), backoff=RetryBackoff(60.0, 60.0)
        ).prepare()
        threading.Timer(0.2, run.cancel).start()
        outcome = run.execute()
        assert outcome is not None
        assert outcome.status == "CANCELLED"


def test_a_function_of_two_flows_uses_the_policies_of_the_executed_task() -> None:
    executed = Executed()
    used = executed.task("load", lambda: 1)
    FlowUnderTest(Flow("first") >> used >> executed.task("end")).execute()
    again = TaskWrapper(Task(func=used.task.func, name="read"))
    second = FlowUnderTest(Flow("second") >> again >> executed.task("stop"))
    second.execute()
    assert [entry.key for entry in second.written] == ["read||0", "stop||0"]
    assert again.task.func.__module__ == Executed.__module__


def test_a_rerun_from_an_unknown_task_fails() -> None:
    source = FlowSource(lambda _: linear(Executed()), CallablePolicy.parse(""))
    run = Run(run_id="r", flow_name="linear", params=b"{}", rerun_task="d")
    outcome = source.prepare(run, FlowUnderTest(linear(Executed())).listener())
    assert isinstance(outcome, Outcome)
    assert outcome.error == "there is no task 'd' to run this flow from; it has a, b, c"


def test_a_cancelled_task_is_not_retried() -> None:
    executed = Executed()

    def stops(ctx: Any) -> None:
        # After its start: a cancelled run starts no task.
        threading.Thread(target=run.cancel).start()
        while not ctx.is_cancelled:
            threading.Event().wait(0.01)
        raise RuntimeError("stopped")

    run = FlowUnderTest(Flow("f") >> executed.task("stops", stops, retries=100)).prepare()
    outcome = run.execute()
    assert outcome is not None
    assert outcome.status == "CANCELLED"
    assert executed == ["stops"]


def test_unstorable_changes_are_reported() -> None:
    def keeps(ctx: Any) -> None:
        ctx.scratch["lock"] = threading.Lock()

    def uses(ctx: Any) -> None:
        with ctx.scratch["lock"]:
            pass

    executed = Executed()
    outcome = FlowUnderTest(
        Flow("f") >> executed.task("keeps", keeps) >> executed.task("uses", uses)
    ).execute()
    reason = record(outcome, "uses")["not_journalled"]
    assert reason == "what it did to scratch 'lock' cannot be stored"
