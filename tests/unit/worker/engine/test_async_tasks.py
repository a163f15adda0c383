"""`async def` tasks in a flow, without a worker."""

import asyncio
import functools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyoco import Flow

from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState
from pyoco_server.worker.engine.tasks import coroutines
from pyoco_server.worker.ipc.protocol import Outcome
from tests.support.running.flow_runs import FlowUnderTest, output, record
from tests.unit.worker.test_human_tasks import LIMIT_SEC, answered, graph, task, waited_for


def flow_of(function: Any, **options: Any) -> FlowUnderTest:
    """A flow whose first task is this function, and whose second one receives its result."""
    return FlowUnderTest(
        Flow("flow") >> task("work", function, **options) >> task("use", lambda work: [work])
    )


def names_asked(under_test: FlowUnderTest) -> list[str]:
    return [question.name for question in under_test.asked]


async def passed(sec: float = 0.0) -> str:
    await asyncio.sleep(sec)
    return "passed"


class TestExecution:
    def test_the_result_is_what_the_coroutine_returns(self) -> None:
        outcome = flow_of(passed).execute()
        assert outcome.status == RunStatus.COMPLETED
        assert output(outcome, "use") == ["passed"]

    def test_any_function_that_returns_a_coroutine(self) -> None:
        class Callable:
            async def __call__(self, ctx: Any) -> Any:
                return await ctx.step("name", lambda: "called")

        @functools.wraps(passed)
        def decorated() -> Any:
            return passed()

        for function, expected in (
            (functools.partial(passed, sec=0.0), "passed"),
            (Callable(), "called"),
            (decorated, "passed"),
        ):
            outcome = flow_of(function).execute()
            assert outcome.status == RunStatus.COMPLETED, outcome.error
            assert output(outcome, "use") == [expected]

    def test_an_async_generator_fails_instead_of_being_the_result(self) -> None:
        async def rows() -> Any:
            yield 1

        outcome = flow_of(rows).execute()
        assert outcome.status == RunStatus.FAILED
        assert "task work is an async generator" in str(outcome.error)

    def test_tasks_of_a_graph_have_an_event_loop_each(self) -> None:
        met = threading.Barrier(2, timeout=LIMIT_SEC)

        async def meet() -> int:
            await asyncio.to_thread(met.wait)
            return id(asyncio.get_running_loop())

        flow = graph(
            left=(meet, [], {}), right=(meet, [], {}), join=(lambda left, right: 0, ["left", "right"], {})
        )
        outcome = FlowUnderTest(flow).execute()
        assert outcome.status == RunStatus.COMPLETED, outcome.error
        assert output(outcome, "left") != output(outcome, "right")

    def test_failure_retries_and_isolation(self) -> None:
        tries: list[int] = []

        async def fail() -> None:
            tries.append(1)
            await asyncio.sleep(0)
            raise ValueError("broken")

        outcome = flow_of(fail, retries=2).execute()
        assert (outcome.status, len(tries)) == (RunStatus.FAILED, 3)
        assert outcome.error == "task work: ValueError: broken"
        flow = graph(work=(fail, [], {"fail_policy": "isolate"}), other=(lambda: 1, [], {}))
        isolated = FlowUnderTest(flow)
        outcome = isolated.execute()
        assert outcome.status == RunStatus.COMPLETED
        assert outcome.tasks == {"work": "FAILED", "other": "SUCCEEDED"}
        assert [entry.error for entry in isolated.written if entry.task == "work"] == ["broken"]

    def test_a_result_is_journalled(self) -> None:
        executed: list[int] = []

        async def work() -> tuple[int, int]:
            executed.append(1)
            return (1, 2)

        under_test = flow_of(work)
        under_test.execute()
        outcome = under_test.execute(journal=under_test.written, attempt=2)
        assert output(outcome, "use") == [[1, 2]]
        assert record(outcome, "work")["replayed"] is True
        assert len(executed) == 1

    def test_a_time_limit_applies(self) -> None:
        cancelled = threading.Event()

        async def hang() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        under_test = flow_of(hang, timeout_sec=0.05)
        run = under_test.prepare()
        thread = threading.Thread(target=run.execute, daemon=True)
        thread.start()
        deadline = time.monotonic() + LIMIT_SEC
        while not under_test.stuck and time.monotonic() < deadline:
            thread.join(0.01)
        assert [each.reason for each in under_test.stuck] == ["timeout"]
        # An embedded worker asks the abandoned run to stop.
        run.cancel()
        thread.join(LIMIT_SEC)
        assert cancelled.is_set()

    def test_a_cancel_cancels_the_coroutine(self) -> None:
        begun, cleaned_up = threading.Event(), threading.Event()

        async def hang() -> None:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                cleaned_up.set()

        run = flow_of(hang, retries=3).prepare()
        outcomes: list[Outcome | None] = []
        thread = threading.Thread(target=lambda: outcomes.append(run.execute()))
        thread.start()
        assert begun.wait(LIMIT_SEC)
        run.cancel()
        thread.join(LIMIT_SEC)
        assert cleaned_up.is_set()
        [outcome] = outcomes
        assert outcome is not None
        assert outcome.status == RunStatus.CANCELLED

    def test_a_task_that_cancels_itself_fails(self) -> None:
        async def work() -> None:
            raise asyncio.CancelledError

        outcome = flow_of(work).execute()
        assert outcome.error == "task work: RuntimeError: the task was cancelled by its own code"

    def test_no_thread_is_left(self) -> None:
        before = threading.active_count()
        outcome = flow_of(lambda: asyncio.to_thread(threading.get_ident)).execute()
        assert outcome.status == RunStatus.COMPLETED
        assert threading.active_count() == before

    def test_executors_without_async_tasks_do_not_load_asyncio(self) -> None:
        program = (
            "import sys, pyoco_server.worker.child.executor_main; "
            "sys.exit('asyncio' in sys.modules and 'it is loaded' or 0)"
        )
        subprocess.run([sys.executable, "-c", program], check=True)


class TestSteps:
    def test_a_step_is_not_executed_again(self) -> None:
        executed: list[str] = []

        async def charge() -> int:
            await asyncio.sleep(0)
            executed.append("charge")
            return 7

        async def work(ctx: Any) -> Any:
            charged = await ctx.step("charge", charge)
            await ctx.step("mail", lambda: executed.append("mail"))
            return [charged, await ctx.human("?")]

        under_test = flow_of(work)
        waited_for(under_test.execute())
        outcome = under_test.execute(
            journal=under_test.written, attempt=2, waits=[answered(under_test.asked[0], True)]
        )
        assert output(outcome, "use") == [[7, True]]
        assert executed == ["charge", "mail"]

    def test_parallel_steps_of_one_name_and_steps_within_steps(self) -> None:
        async def work(ctx: Any) -> Any:
            async def outer(number: int) -> int:
                inner = await ctx.step("inner", lambda: passed(0.001 / number))
                assert inner == "passed"
                return number

            one = ctx.step("outer", lambda: outer(1))
            two = ctx.step("outer", lambda: outer(2))
            return await asyncio.gather(one, two)

        under_test = flow_of(work)
        assert output(under_test.execute(), "use") == [[1, 2]]
        steps = {entry.key for entry in under_test.written if "outer" in entry.key}
        assert steps == {
            "work||0|outer|0",
            "work||0|outer|0|inner|0",
            "work||0|outer|1",
            "work||0|outer|1|inner|0",
        }

    def test_a_step_is_completed_although_a_question_is_open(self) -> None:
        completed: list[str] = []

        async def charge() -> None:
            await asyncio.sleep(0.05)
            completed.append("charge")

        async def work(ctx: Any) -> Any:
            answer, _ = await asyncio.gather(ctx.human("?"), ctx.step("charge", charge))
            return answer

        under_test = flow_of(work)
        waited_for(under_test.execute())
        assert completed == ["charge"]
        outcome = under_test.execute(
            journal=under_test.written, attempt=2, waits=[answered(under_test.asked[0], 1)]
        )
        assert output(outcome, "use") == [1]
        assert completed == ["charge"]

    def test_a_question_within_a_step_suspends_the_task(self) -> None:
        async def work(ctx: Any) -> Any:
            return await ctx.step("ask", lambda: asyncio.gather(ctx.human("?"), ctx.human("!", name="other")))

        under_test = flow_of(work)
        assert waited_for(under_test.execute()) == ["work/human", "work/other"]

    def test_an_async_step_of_a_plain_task_fails(self) -> None:
        outcome = flow_of(lambda ctx: ctx.step("late", passed)).execute()
        assert "ctx.step('late'): an async function needs an `async def` task" in str(outcome.error)


class TestQuestions:
    @pytest.fixture(autouse=True)
    def long_linger(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Only what cannot continue ends a wait for the other awaits, however slow the machine is."""
        monkeypatch.setattr(coroutines, "LINGER_SEC", LIMIT_SEC * 10)

    def test_an_answer_is_awaited(self) -> None:
        async def work(ctx: Any) -> Any:
            return await ctx.human("Is it right?")

        under_test = flow_of(work)
        outcome = under_test.execute()
        assert waited_for(outcome) == ["work/human"]
        assert outcome.tasks == {"work": "WAITING", "use": "PENDING"}
        outcome = under_test.execute(waits=[answered(under_test.asked[0], False)])
        assert output(outcome, "use") == [False]

    def test_questions_in_parallel_are_all_open_before_the_run_waits(self) -> None:
        async def work(ctx: Any) -> Any:
            return await asyncio.gather(ctx.human("one?", name="one"), ctx.human("two?", name="two"))

        self.both_are_asked(work)

    def test_questions_after_awaits_of_different_length(self) -> None:
        async def ask(ctx: Any, name: str, sec: float) -> Any:
            await asyncio.sleep(sec)
            return await ctx.human("?", name=name)

        async def work(ctx: Any) -> list[Any]:
            async with asyncio.TaskGroup() as group:
                asking = [
                    group.create_task(ask(ctx, name, sec)) for name, sec in (("one", 0.0), ("two", 0.1))
                ]
            return [each.result() for each in asking]

        self.both_are_asked(work)

    def test_a_question_after_a_thread(self) -> None:
        async def late(ctx: Any) -> Any:
            await asyncio.to_thread(time.sleep, 0.05)
            return await ctx.human("?", name="two")

        async def work(ctx: Any) -> Any:
            return await asyncio.gather(ctx.human("?", name="one"), late(ctx))

        self.both_are_asked(work)

    def test_nested_groups_do_not_keep_the_task(self) -> None:
        async def both(ctx: Any) -> Any:
            return await asyncio.gather(ctx.human("?", name="one"), ctx.human("?", name="two"))

        async def work(ctx: Any) -> Any:
            [answers] = await asyncio.gather(both(ctx))
            return answers

        self.both_are_asked(work)

    def both_are_asked(self, work: Any) -> None:
        under_test = flow_of(work)
        assert waited_for(under_test.execute()) == ["work/one", "work/two"]
        waits = [answered(question, state=WaitState.OPEN) for question in under_test.asked]
        waits[1] = answered(under_test.asked[1], 2)
        assert waited_for(under_test.execute(waits=waits)) == ["work/one"]
        waits[0] = answered(under_test.asked[0], 1)
        assert output(under_test.execute(waits=waits), "use") == [[1, 2]]
        assert names_asked(under_test) == ["one", "two"]

    def test_what_never_ends_does_not_keep_the_task(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(coroutines, "LINGER_SEC", 0.05)
        stopped: list[str] = []

        async def heartbeat() -> None:
            try:
                while True:
                    await asyncio.sleep(0.001)
            finally:
                stopped.append("heartbeat")

        async def work(ctx: Any) -> Any:
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(heartbeat())
                answer = await ctx.human("?")
                beating.cancel()
            return answer

        under_test = flow_of(work)
        assert waited_for(under_test.execute()) == ["work/human"]
        assert output(under_test.execute(waits=[answered(under_test.asked[0], 1)]), "use") == [1]
        assert stopped == ["heartbeat"]

    @pytest.fixture
    def connection(self) -> Iterator[socket.socket]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            yield ours

    def test_an_idle_connection_does_not_keep_a_task_whose_coroutines_have_all_asked(
        self, connection: socket.socket
    ) -> None:
        async def work(ctx: Any) -> Any:
            loop = asyncio.get_running_loop()
            loop.add_reader(connection, lambda: None)
            try:
                return await ctx.human("?")
            finally:
                loop.remove_reader(connection)

        assert waited_for(flow_of(work).execute()) == ["work/human"]

    def test_a_question_that_loses_is_not_waited_for(self) -> None:
        async def work(ctx: Any) -> Any:
            asking = asyncio.create_task(ctx.human("?"))
            done, _ = await asyncio.wait(
                {asking, asyncio.create_task(passed(0.01))}, return_when=asyncio.FIRST_COMPLETED
            )
            asking.cancel()
            return [each.result() for each in done]

        under_test = flow_of(work)
        outcome = under_test.execute()
        assert output(outcome, "use") == [["passed"]]
        assert names_asked(under_test) == ["human"]

    def test_a_cancelled_question_is_asked_again_at_once(self) -> None:
        async def work(ctx: Any) -> Any:
            return await ctx.human("?")

        under_test = flow_of(work)
        under_test.execute()
        cancelled = answered(under_test.asked[0], state=WaitState.CANCELLED)
        under_test.execute(waits=[cancelled])
        assert names_asked(under_test) == ["human", "human"]

    def test_a_swallowed_cancellation_is_no_result(self) -> None:
        async def work(ctx: Any) -> str:
            try:
                await ctx.human("?")
            except BaseException:
                with pytest.raises(asyncio.CancelledError):
                    await ctx.human("!", name="other")
            return "swallowed"

        under_test = flow_of(work)
        assert waited_for(under_test.execute()) == ["work/human", "work/other"]
        assert under_test.written == []

    def test_an_error_raised_from_a_question_is_neither_a_failure_nor_a_try(self) -> None:
        tries: list[int] = []

        async def work(ctx: Any) -> None:
            tries.append(1)
            try:
                await ctx.human("?")
            except BaseException:
                raise ValueError("no answer") from None

        assert waited_for(flow_of(work, retries=3).execute()) == ["work/human"]
        assert len(tries) == 1

    def test_a_question_of_a_thread_of_the_task(self) -> None:
        async def work(ctx: Any) -> list[Any]:
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(asyncio.to_thread(ctx.human, "?"))
            return [asking.result()]

        under_test = flow_of(work)
        assert waited_for(under_test.execute()) == ["work/human"]
        assert output(under_test.execute(waits=[answered(under_test.asked[0], 1)]), "use") == [[1]]

    def test_a_plain_task_with_an_event_loop_of_its_own_receives_a_plain_value(self) -> None:
        def work(ctx: Any) -> Any:
            async def inner() -> Any:
                return ctx.human("?")

            return asyncio.run(inner())

        under_test = flow_of(work)
        assert waited_for(under_test.execute()) == ["work/human"]
        assert output(under_test.execute(waits=[answered(under_test.asked[0], 1)]), "use") == [1]

    def test_a_cancel_while_a_question_is_open(self) -> None:
        opened = threading.Event()

        async def work(ctx: Any) -> Any:
            return await asyncio.gather(ctx.human("?"), asyncio.sleep(LIMIT_SEC * 10))

        under_test = flow_of(work)
        run = under_test.prepare()
        run._waits._on_question = lambda _: opened.set()
        outcomes: list[Outcome | None] = []
        thread = threading.Thread(target=lambda: outcomes.append(run.execute()))
        thread.start()
        assert opened.wait(LIMIT_SEC)
        run.cancel()
        thread.join(LIMIT_SEC)
        assert [each and each.status for each in outcomes] == [RunStatus.CANCELLED]


class TestForgottenAwait:
    """A question without `await` must not be taken for its answer."""

    @pytest.mark.parametrize("waits_known", [False, True])
    def test_a_question_is_no_yes(self, *, waits_known: bool) -> None:
        paid: list[str] = []

        async def work(ctx: Any) -> None:
            if ctx.human("Pay?"):
                paid.append("paid")

        known: list[WaitRecord] = []
        if waits_known:

            async def asking(ctx: Any) -> None:
                await ctx.human("Pay?")

            first = flow_of(asking)
            first.execute()
            known = [answered(first.asked[0], False)]
        under_test = flow_of(work)
        outcome = under_test.execute(waits=known)
        assert outcome.status == RunStatus.FAILED
        assert "ctx.human(...) was not awaited; in an `async def` task write `await" in str(outcome.error)
        assert paid == []

    @pytest.mark.filterwarnings("error")
    def test_a_call_that_is_never_awaited_fails_the_task(self) -> None:
        executed: list[str] = []

        async def work(ctx: Any) -> str:
            ctx.step("mail", lambda: executed.append("mail"))
            return "done"

        outcome = flow_of(work).execute()
        assert outcome.status == RunStatus.FAILED
        assert "ctx.step(...) was not awaited" in str(outcome.error)
        assert executed == []
