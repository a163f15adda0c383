"""`ctx.sleep`, `ctx.wait_for_signal` and `ctx.wait_for_event` in a flow, without a worker."""

import asyncio
import math
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server import WaitTimeout
from pyoco_server.records.runs.run_models import RunStatus, WaitKind
from pyoco_server.records.waits.wait_models import (
    Question,
    WaitRecord,
    WaitState,
    decode_questions,
    wait_id_of,
)
from pyoco_server.worker.ipc.protocol import Outcome
from tests.support.running.flow_runs import FlowUnderTest, output

RUN_ID = "00000000-0000-4000-8000-000000000000"
HOUR = 3600.0


def task(name: str, function: Any, **options: Any) -> TaskWrapper:
    return TaskWrapper(Task(func=function, name=name, **options))


def one_task(function: Any, **options: Any) -> FlowUnderTest:
    return FlowUnderTest(Flow("flow") >> task("only", function, **options))


def wait_of(question: Question, **fields: Any) -> WaitRecord:
    return WaitRecord(
        wait_id=wait_id_of(RUN_ID, question.node, question.name, 1),
        run_id=RUN_ID,
        flow_name="flow",
        tag="default",
        node=question.node,
        task=question.task,
        name=question.name,
        message=question.message,
        default=question.default,
        on_timeout=question.on_timeout,
        created_at=1.0,
        deadline_at=question.until or 2.0,
        kind=question.kind,
        topic=question.topic,
        match=question.match,
        **fields,
    )


def over(question: Question) -> WaitRecord:
    return wait_of(question, state=WaitState.EXPIRED, decided_at=2.0)


def came(question: Question, data: Any) -> WaitRecord:
    return wait_of(question, state=WaitState.ANSWERED, payload=data, decided_at=2.0)


def cancelled_when(begun: threading.Event, function: Any) -> str:
    """The status of a run that is cancelled when its task has begun."""
    run = one_task(function).prepare()

    def cancel() -> None:
        begun.wait()
        run.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    outcome = run.execute()
    canceller.join()
    assert outcome is not None
    return outcome.status


def waited_for(outcome: Outcome) -> list[Question]:
    assert outcome.status == RunStatus.WAITING, outcome
    return decode_questions(outcome.questions)


class TestSleep:
    def test_the_run_is_parked_until_the_time_has_come(self) -> None:
        under_test = one_task(lambda ctx: ctx.sleep(HOUR))
        before = time.time()
        [asked] = waited_for(under_test.execute())
        assert (asked.kind, asked.name, asked.default) == (WaitKind.SLEEP, "sleep", None)
        assert asked.until is not None
        assert before + HOUR <= asked.until <= time.time() + HOUR
        outcome = under_test.execute(waits=[over(asked)])
        assert (outcome.status, output(outcome, "only")) == (RunStatus.COMPLETED, None)

    def test_an_open_sleep_is_not_begun_again(self) -> None:
        under_test = one_task(lambda ctx: ctx.sleep(HOUR))
        [asked] = waited_for(under_test.execute())
        [again] = waited_for(under_test.execute(waits=[wait_of(asked)]))
        assert again.name == asked.name
        assert len(under_test.asked) == 1

    @pytest.mark.parametrize(
        "until",
        [
            2_000_000_000,
            2_000_000_000.0,
            datetime.fromtimestamp(2_000_000_000, UTC),
            "2033-05-18T03:33:20Z",
            "2033-05-18T12:33:20+09:00",
        ],
    )
    def test_until_takes_times(self, until: Any) -> None:
        [asked] = waited_for(one_task(lambda ctx: ctx.sleep(until=until)).execute())
        assert asked.until == pytest.approx(2_000_000_000, abs=1)

    def test_a_timedelta_is_a_duration(self) -> None:
        [asked] = waited_for(one_task(lambda ctx: ctx.sleep(timedelta(hours=1))).execute())
        assert asked.until == pytest.approx(time.time() + HOUR, abs=30)

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            ({"seconds": -1}, "seconds=-1"),
            ({"seconds": math.nan}, "seconds=nan"),
            ({"seconds": math.inf}, "seconds=inf"),
            ({"seconds": 11 * 366 * 86_400}, "seconds=347846400"),
            ({"seconds": "5"}, "seconds='5'"),
            ({"seconds": True}, "seconds=True"),
            ({"until": 1e11}, "until=100000000000.0"),
            ({"until": math.nan}, "until=nan"),
            ({"until": "tomorrow"}, "until='tomorrow'"),
            ({"until": "2033-05-18T03:33:20"}, "until='2033-05-18T03:33:20'"),
            ({"until": datetime(2033, 5, 18)}, "until=datetime.datetime"),
            ({}, "either seconds or until"),
            ({"seconds": 1, "until": 1}, "either seconds or until"),
        ],
    )
    def test_a_bad_value_is_named(self, arguments: dict[str, Any], named: str) -> None:
        outcome = one_task(lambda ctx: ctx.sleep(**arguments)).execute()
        assert outcome.status == RunStatus.FAILED
        assert f"ValueError: ctx.sleep({named if '=' in named else ''}" in (outcome.error or "")
        assert named in (outcome.error or "")

    @pytest.mark.parametrize("arguments", [{"seconds": 0}, {"until": 1.0}, {"seconds": 0.01}])
    def test_a_short_sleep_happens_in_place(self, arguments: dict[str, Any]) -> None:
        under_test = one_task(lambda ctx: ctx.sleep(**arguments))
        assert under_test.execute().status == RunStatus.COMPLETED
        assert under_test.asked == []

    def test_a_time_that_has_passed_while_the_run_was_parked_is_not_slept_again(self) -> None:
        """The executor meets `until` in the past, and a wait that is over: the second sleep has its turn."""
        soon = time.time() + 5.5

        def sleeps(ctx: Any) -> str:
            ctx.sleep(until=soon)
            ctx.sleep(HOUR)
            return "woken"

        under_test = one_task(sleeps)
        [first] = waited_for(under_test.execute())
        [second] = waited_for(under_test.execute(waits=[over(first)]))
        assert (first.name, second.name) == ("sleep", "sleep-2")
        assert output(under_test.execute(waits=[over(first), over(second)]), "only") == "woken"

    def test_a_cancel_ends_a_sleep_in_place_at_once(self) -> None:
        sleeping, slept = threading.Event(), threading.Event()

        def sleeps(ctx: Any) -> None:
            sleeping.set()
            ctx.sleep(4.9)
            slept.set()

        assert cancelled_when(sleeping, sleeps) == RunStatus.CANCELLED
        assert not slept.is_set()

    def test_each_turn_of_a_loop_sleeps(self) -> None:
        def polls(ctx: Any) -> int:
            for _ in range(3):
                ctx.sleep(HOUR)
            return 3

        under_test = one_task(polls)
        waits: list[WaitRecord] = []
        for name in ("sleep", "sleep-2", "sleep-3"):
            [asked] = waited_for(under_test.execute(waits=waits))
            assert asked.name == name
            waits.append(over(asked))
        assert output(under_test.execute(waits=waits), "only") == 3

    def test_parallel_tasks_sleep_side_by_side(self) -> None:
        flow = Flow("flow")
        for name in ("a", "b"):
            flow.add_task(Task(func=lambda ctx: ctx.sleep(HOUR), name=name))
        asked = waited_for(FlowUnderTest(flow).execute())
        assert sorted(each.task for each in asked) == ["a", "b"]

    def test_a_run_that_also_asks_a_person_waits_for_that(self) -> None:
        flow = Flow("flow")
        flow.add_task(Task(func=lambda ctx: ctx.sleep(HOUR), name="a"))
        flow.add_task(Task(func=lambda ctx: ctx.human("?"), name="b"))
        assert FlowUnderTest(flow).execute().status == RunStatus.WAITING_HUMAN

    def test_a_retry_does_not_sleep_again(self) -> None:
        def fails_once(ctx: Any) -> str:
            ctx.sleep(HOUR)
            tries.append(1)
            if len(tries) == 1:
                raise RuntimeError("not yet")
            return "done"

        tries: list[int] = []
        under_test = one_task(fails_once, retries=2)
        [asked] = waited_for(under_test.execute())
        assert tries == []
        assert output(under_test.execute(waits=[over(asked)]), "only") == "done"
        assert len(tries) == 2

    def test_an_isolated_task_that_sleeps_does_not_fail(self) -> None:
        under_test = one_task(lambda ctx: ctx.sleep(HOUR), fail_policy="isolate", retries=2)
        outcome = under_test.execute()
        assert len(waited_for(outcome)) == 1
        assert outcome.tasks == {"only": "WAITING"}

    def test_a_question_may_be_named_as_a_sleep_is(self) -> None:
        def sleeps(ctx: Any) -> Any:
            answer = ctx.human("?", name="sleep")
            ctx.sleep(HOUR)
            return answer

        under_test = one_task(sleeps)
        under_test.execute()
        [asked] = under_test.asked
        [sleep] = waited_for(under_test.execute(waits=[came(asked, 1)]))
        assert sleep.name == "sleep-2"


class TestAsyncTasks:
    def test_sleeps_of_one_task_run_side_by_side(self) -> None:
        async def sleeps(ctx: Any) -> str:
            await asyncio.gather(ctx.sleep(HOUR), ctx.sleep(2 * HOUR))
            return "woken"

        under_test = one_task(sleeps)
        asked = waited_for(under_test.execute())
        assert [each.name for each in asked] == ["sleep", "sleep-2"]
        assert output(under_test.execute(waits=[over(each) for each in asked]), "only") == "woken"

    def test_a_short_sleep_is_awaited_in_place(self) -> None:
        async def sleeps(ctx: Any) -> str:
            await ctx.sleep(0.01)
            return "woken"

        assert output(one_task(sleeps).execute(), "only") == "woken"

    def test_a_sleep_without_await_is_an_error(self) -> None:
        async def sleeps(ctx: Any) -> None:
            ctx.sleep(HOUR)

        assert "ctx.sleep(...) was not awaited" in (one_task(sleeps).execute().error or "")

    def test_a_signal_is_awaited(self) -> None:
        async def waits(ctx: Any) -> Any:
            return await ctx.wait_for_signal("go")

        under_test = one_task(waits)
        [asked] = waited_for(under_test.execute())
        assert output(under_test.execute(waits=[came(asked, {"n": 1})]), "only") == {"n": 1}

    def test_a_cancel_ends_a_sleep_in_place_at_once(self) -> None:
        sleeping, slept = threading.Event(), threading.Event()

        async def sleeps(ctx: Any) -> None:
            sleeping.set()
            await ctx.sleep(4.9)
            slept.set()

        assert cancelled_when(sleeping, sleeps) == RunStatus.CANCELLED
        assert not slept.is_set()


class TestSignalsAndEvents:
    def test_a_signal_returns_its_data(self) -> None:
        under_test = one_task(lambda ctx: ctx.wait_for_signal("paid", timeout_sec=60))
        [asked] = waited_for(under_test.execute())
        assert (asked.kind, asked.topic, asked.name) == (WaitKind.SIGNAL, "paid", "signal:paid")
        assert asked.timeout_sec == 60
        assert output(under_test.execute(waits=[came(asked, {"sum": 7})]), "only") == {"sum": 7}

    def test_each_wait_for_a_signal_receives_another_one(self) -> None:
        under_test = one_task(lambda ctx: [ctx.wait_for_signal("a"), ctx.wait_for_signal("a")])
        [first] = waited_for(under_test.execute())
        [second] = waited_for(under_test.execute(waits=[came(first, 1)]))
        assert (first.name, second.name) == ("signal:a", "signal:a-2")
        assert output(under_test.execute(waits=[came(first, 1), came(second, 2)]), "only") == [1, 2]

    def test_an_event_has_its_match(self) -> None:
        under_test = one_task(lambda ctx: ctx.wait_for_event("order.paid", {"/order/id": 7}))
        [asked] = waited_for(under_test.execute())
        assert (asked.kind, asked.topic, asked.match) == (WaitKind.EVENT, "order.paid", {"/order/id": 7})
        assert asked.timeout_sec is None

    def test_after_the_timeout_the_default_is_returned(self) -> None:
        under_test = one_task(lambda ctx: [ctx.wait_for_signal("a", timeout_sec=1, default=None)])
        [asked] = waited_for(under_test.execute())
        assert output(under_test.execute(waits=[over(asked)]), "only") == [None]

    def test_after_the_timeout_without_a_default_the_task_gets_an_exception(self) -> None:
        caught: list[WaitTimeout] = []

        def waits(ctx: Any) -> str:
            try:
                ctx.wait_for_event("a", timeout_sec=1)
            except TimeoutError as error:
                caught.append(cast(WaitTimeout, error))
            return "late"

        under_test = one_task(waits)
        [asked] = waited_for(under_test.execute())
        assert output(under_test.execute(waits=[over(asked)]), "only") == "late"
        assert (caught[0].kind, caught[0].topic, caught[0].deadline_at) == ("event", "a", 2.0)

    def test_a_timeout_is_not_retried(self) -> None:
        tries: list[int] = []

        def waits(ctx: Any) -> None:
            tries.append(1)
            ctx.wait_for_signal("a", timeout_sec=1)

        under_test = one_task(waits, retries=3)
        [asked] = waited_for(under_test.execute())
        tries.clear()
        outcome = under_test.execute(waits=[over(asked)])
        assert (outcome.status, tries) == (RunStatus.FAILED, [1])
        assert "the signal 'a' did not come in time" in (outcome.error or "")

    def test_a_wait_for_something_else_is_opened_again(self) -> None:
        under_test = one_task(lambda ctx: ctx.wait_for_event("a", {"/id": 2}))
        [asked] = waited_for(under_test.execute())
        other = wait_of(asked, state=WaitState.ANSWERED, payload="of another order")
        other.match = {"/id": 1}
        assert len(waited_for(under_test.execute(waits=[other]))) == 1
        assert len(under_test.asked) == 2

    @pytest.mark.parametrize(
        ("call", "named"),
        [
            (lambda ctx: ctx.wait_for_signal("a b"), "ctx.wait_for_signal(name='a b')"),
            (lambda ctx: ctx.wait_for_signal(""), "ctx.wait_for_signal(name='')"),
            (lambda ctx: ctx.wait_for_signal("a..b"), "ctx.wait_for_signal(name='a..b')"),
            (lambda ctx: ctx.wait_for_signal("a", timeout_sec=0), "timeout_sec=0"),
            (lambda ctx: ctx.wait_for_event("a", timeout_sec=math.nan), "timeout_sec=nan"),
            (lambda ctx: ctx.wait_for_event("a", {"id": 1}), "match='id'"),
            (lambda ctx: ctx.wait_for_event("a", {"/~2": 1}), "match='/~2'"),
            (lambda ctx: ctx.wait_for_event("a", "/id"), "match='/id'"),
            (lambda ctx: ctx.wait_for_event("a", {"/id": object()}), "match=...): expected a JSON value"),
            (lambda ctx: ctx.wait_for_signal("a", default={1}), "default=...): expected a JSON value"),
        ],
    )
    def test_a_bad_argument_is_named(self, call: Any, named: str) -> None:
        outcome = one_task(call).execute()
        assert outcome.status == RunStatus.FAILED
        assert named in (outcome.error or "")
