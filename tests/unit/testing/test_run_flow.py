"""`pyoco_server.testing`: a flow runs in a test as on a worker, with answers from the test."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.testing import EXPIRE, AnswerRefused, AskedQuestion, UnansweredQuestion, run_flow
from tests.support.modules import importable_folder


def chain(*functions: Callable[..., Any], **options: Any) -> Flow:
    """A flow of these functions; the options are of each task."""
    flow = Flow("chain")
    for function in functions:
        flow = flow >> TaskWrapper(Task(func=function, name=function.__name__, **options))
    return flow


def approve(ctx: Any, amount: float = 120.0) -> Any:
    return ctx.human(f"Pay {amount} EUR?", schema={"type": "boolean"}, timeout_ms=60_000)


def pay(approve: bool) -> str:
    return "paid" if approve else "not paid"


class TestOneQuestion:
    @pytest.mark.parametrize(("answer", "paid"), [(True, "paid"), (False, "not paid")])
    def test_the_answer_continues_the_flow(self, answer: bool, paid: str) -> None:
        result = run_flow(chain(approve, pay), {"amount": 80}, answers={"approve": answer})
        assert (result.status, result.error) == ("COMPLETED", None)
        assert result.outputs == {"approve": answer, "pay": paid}
        assert result.tasks == {"approve": "SUCCEEDED", "pay": "SUCCEEDED"}
        assert result.task_records["approve"]["inputs"] == {"amount": 80}
        boolean = {"type": "boolean"}
        assert result.asked == [AskedQuestion("approve", "human", "Pay 80 EUR?", boolean, None, (), 60.0)]

    def test_a_question_without_an_answer_fails_the_test_and_is_named(self) -> None:
        with pytest.raises(UnansweredQuestion) as failure:
            run_flow(chain(approve, pay), answers={"pay": True})
        assert str(failure.value) == (
            "task approve asked 'Pay 120.0 EUR?' (human), and the test has no answer: "
            "add answers={'approve': ...} (there are answers for: 'pay')"
        )

    def test_an_answer_that_does_not_match_the_schema_is_refused(self) -> None:
        with pytest.raises(AnswerRefused, match=r"task approve asked .* 'yes' is not an answer: payload"):
            run_flow(chain(approve, pay), answers={"approve": "yes"})

    def test_an_answer_to_an_unknown_task_is_an_error(self) -> None:
        with pytest.raises(
            ValueError, match=r"answers\['aprove'\]: the flow has no task 'aprove'; did you mean"
        ):
            run_flow(chain(approve, pay), answers={"aprove": True})

    def test_a_function_answers_by_the_question(self) -> None:
        answers = {"approve": lambda asked: "80" in asked.message}
        assert run_flow(chain(approve, pay), {"amount": 80}, answers=answers).outputs["pay"] == "paid"
        assert run_flow(chain(approve, pay), {"amount": 90}, answers=answers).outputs["pay"] == "not paid"


class TestDeadline:
    def test_without_a_default_the_run_fails(self) -> None:
        result = run_flow(chain(approve, pay), answers={"approve": EXPIRE})
        assert (result.status, result.reason) == ("FAILED", "human_timeout")
        assert result.tasks == {"approve": "FAILED", "pay": "PENDING"}
        assert "nobody answered in time: task approve asked 'Pay 120.0 EUR?'" in (result.error or "")

    def test_the_default_is_the_answer(self) -> None:
        def ask(ctx: Any) -> Any:
            return ctx.human("Go on?", default="later")

        assert run_flow(chain(ask), answers={"ask": EXPIRE}).outputs == {"ask": "later"}


class Payment(BaseModel):
    amount: float = Field(gt=0, le=10_000)


def propose(ctx: Any) -> Any:
    answer = ctx.human("Is it right?", schema=Payment, proposal={"amount": 1250})
    value = answer["value"]
    return [answer["decision"], None if value is None else value.amount, answer["note"]]


class TestProposal:
    @pytest.mark.parametrize(
        ("answer", "received"),
        [
            ({"decision": "approved"}, ["approved", 1250, None]),
            ({"decision": "edited", "value": {"amount": 1000}}, ["edited", 1000, None]),
            ({"decision": "rejected", "note": "paid already"}, ["rejected", None, "paid already"]),
        ],
    )
    def test_decisions(self, answer: dict[str, Any], received: list[Any]) -> None:
        result = run_flow(chain(propose), answers={"propose": answer})
        assert result.outputs == {"propose": received}
        assert result.asked[0].proposal == {"amount": 1250}

    @pytest.mark.parametrize(
        "answer",
        [True, {"decision": "edited", "value": {"amount": -1}}, {"decision": "approved", "value": 1}],
    )
    def test_what_the_gateway_would_refuse(self, answer: Any) -> None:
        with pytest.raises(AnswerRefused):
            run_flow(chain(propose), answers={"propose": answer})


class TestSeveralQuestions:
    def test_of_one_task_by_name(self) -> None:
        def ask(ctx: Any) -> Any:
            return [ctx.human("First?", name="first"), ctx.human("Second?", name="second")]

        result = run_flow(chain(ask), answers={"ask/first": 1, "ask": 2})
        assert result.outputs == {"ask": [1, 2]}
        assert [asked.name for asked in result.asked] == ["first", "second"]

    def test_of_parallel_tasks(self) -> None:
        def ask(ctx: Any, number: int) -> Any:
            return ctx.human(f"{number}?")

        flow = Flow("parallel")
        for number, name in enumerate(["left", "right"]):
            flow.add_task(Task(func=ask, name=name, inputs={"number": number}))
        assert run_flow(flow, answers={"left": "a", "right": "b"}).outputs == {"left": "a", "right": "b"}
        with pytest.raises(UnansweredQuestion, match="task right asked '1\\?'"):
            run_flow(flow, answers={"left": "a"})


class TestSemanticsOfAWorker:
    def test_a_step_and_a_finished_task_are_not_executed_again(self) -> None:
        calls: list[str] = []

        def load() -> int:
            calls.append("load")
            return 1

        def ask(ctx: Any, load: int) -> Any:
            calls.append("ask")
            ctx.step("charge", lambda: calls.append("charge"))
            return ctx.human("Right?")

        result = run_flow(chain(load, ask), answers={"ask": True})
        assert calls == ["load", "ask", "charge", "ask"]
        assert result.task_records["load"]["replayed"] is True

    def test_retries_are_made_without_a_pause(self) -> None:
        calls: list[int] = []

        def flaky() -> int:
            calls.append(1)
            if len(calls) < 4:
                raise ValueError("not yet")
            return len(calls)

        result = run_flow(chain(flaky, retries=3))
        assert (result.outputs, result.task_records["flaky"]["calls"]) == ({"flaky": 4}, 4)

    def test_a_failure_has_its_task_error_and_traceback(self) -> None:
        def broken() -> None:
            raise ValueError("no such order")

        result = run_flow(chain(broken))
        assert (result.status, result.reason) == ("FAILED", "execution_error")
        assert result.error == "task broken: ValueError: no such order"
        assert "in broken" in (result.traceback or "")

    def test_a_task_past_its_limit_is_not_waited_for(self) -> None:
        def endless(ctx: Any) -> None:
            while not ctx.is_cancelled:
                time.sleep(0.01)

        def after() -> str:
            return "done"

        result = run_flow(chain(endless, timeout_sec=0.05))
        assert (result.status, result.reason) == ("FAILED", "timeout")
        flow = Flow("isolated")
        flow.add_task(Task(func=endless, name="endless", timeout_sec=0.05, fail_policy="isolate"))
        flow.add_task(Task(func=after, name="after"))
        result = run_flow(flow)
        assert (result.status, result.tasks["endless"]) == ("COMPLETED", "FAILED")
        assert result.outputs == {"after": "done"}

    def test_output_is_recorded(self, capsys: pytest.CaptureFixture[str]) -> None:
        def say() -> None:
            print("hello")  # noqa: T201 - what the test is about

        result = run_flow(chain(say))
        assert result.log == ["hello"]
        assert "hello" in capsys.readouterr().out

    def test_each_attempt_has_a_folder_of_its_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)

        def ask(ctx: Any) -> Any:
            found = Path("draft").exists()
            Path("draft").write_text("x")
            return [found, ctx.human("Right?")]

        assert run_flow(chain(ask), answers={"ask": True}).outputs == {"ask": [False, True]}
        assert (list(tmp_path.iterdir()), Path.cwd()) == ([], tmp_path)

    async def test_within_an_event_loop(self) -> None:
        assert run_flow(chain(approve, pay), answers={"approve": True}).outputs["pay"] == "paid"

    def test_params_are_json(self) -> None:
        def first(pair: Any) -> Any:
            return type(pair).__name__

        assert run_flow(chain(first), {"pair": (1, 2)}).outputs == {"first": "list"}


def test_a_flow_yaml_file(tmp_path: Path) -> None:
    file = tmp_path / "payment.yaml"
    file.write_text(
        "version: 1\n"
        "flow: {graph: approve >> pay}\n"
        "tasks:\n"
        "  approve: {use: pyoco/human, inputs: {message: Pay?, schema: {type: boolean}}}\n"
        "  pay: {callable: 'steps:pay'}\n"
    )
    with importable_folder(tmp_path / "modules") as modules:
        modules.write("steps.py", "def pay(approve):\n    return 'paid' if approve else 'not paid'\n")
        result = run_flow(file, answers={"approve": True})
    assert (result.error, result.outputs["pay"]) == (None, "paid")


class TestWaitsThatAskNobody:
    def test_sleeps_take_no_time_and_are_reported(self) -> None:
        def pauses(ctx: Any) -> str:
            ctx.sleep(3600)
            ctx.sleep(2)
            return "woken"

        result = run_flow(chain(pauses))
        assert (result.status, result.outputs) == ("COMPLETED", {"pauses": "woken"})
        assert result.slept == pytest.approx([3600, 2], abs=0.5)
        assert result.asked == []

    def test_an_async_task_sleeps(self) -> None:
        async def pauses(ctx: Any) -> str:
            await ctx.sleep(3)
            return "woken"

        assert run_flow(chain(pauses)).outputs == {"pauses": "woken"}

    def test_each_signal_is_received_once_and_in_order(self) -> None:
        def waits(ctx: Any) -> list[Any]:
            return [
                ctx.wait_for_signal("paid"),
                ctx.wait_for_signal("paid", timeout_sec=9, default="no more"),
            ]

        signals = [("other", 0), ("paid", (1, 2))]
        assert run_flow(chain(waits), signals=signals).outputs == {"waits": [[1, 2], "no more"]}

    def test_an_event_is_received_by_all_that_match(self) -> None:
        def first(ctx: Any) -> Any:
            return ctx.wait_for_event("paid", {"/id": 7})

        def second(ctx: Any) -> Any:
            return ctx.wait_for_event("paid", {"/id": 7})

        events = [("paid", {"id": 6}), ("paid", {"id": 7, "sum": 1})]
        received = {"id": 7, "sum": 1}
        assert run_flow(chain(first, second), events=events).outputs == {
            "first": received,
            "second": received,
        }

    def test_a_wait_with_a_timeout_times_out(self) -> None:
        result = run_flow(chain(waits_a_second))
        assert (result.status, result.error) == (
            "FAILED",
            "task waits_a_second: WaitTimeout: the signal 'paid' did not come in time",
        )

    def test_a_wait_for_a_signal_that_the_test_does_not_send_is_named(self) -> None:
        def waits(ctx: Any) -> Any:
            return ctx.wait_for_event("paid", {"/id": 7})

        with pytest.raises(UnansweredQuestion) as failure:
            run_flow(chain(waits), events=[("paid", {"id": 8})])
        assert str(failure.value) == (
            "task waits waits for the event 'paid' that matches {'/id': 7}, and the test sends none: "
            "add events=[('paid', ...)]"
        )

    def test_a_flow_yaml_sleeps_and_waits(self, tmp_path: Path) -> None:
        file = tmp_path / "order.yaml"
        file.write_text(
            "flow: {graph: pause >> go >> paid, defaults: {order: 7}}\n"
            "tasks:\n"
            "  pause: {use: pyoco/sleep, inputs: {seconds: 60}}\n"
            "  go: {use: pyoco/signal, inputs: {name: go}}\n"
            "  paid: {use: pyoco/event, inputs: {name: paid, match: {/order: $ctx.params.order}}}\n"
        )
        result = run_flow(file, signals=[("go", "now")], events=[("paid", {"order": 7})])
        assert result.error is None
        assert result.outputs == {"pause": None, "go": "now", "paid": {"order": 7}}
        assert len(result.slept) == 1


def waits_a_second(ctx: Any) -> Any:
    return ctx.wait_for_signal("paid", timeout_sec=1)


class TestResults:
    def test_the_result_is_what_the_last_task_returned(self) -> None:
        def load() -> int:
            return 4

        def double(load: int) -> int:
            return 2 * load

        done = run_flow(chain(load, double))
        assert (done.result, done.outputs) == (8, {"load": 4, "double": 8})

    @pytest.mark.parametrize("value", [b"", b"small", b"x" * 100_000, "", None, ["ä" * 100_000]])
    def test_values_are_whole(self, value: Any) -> None:
        def give() -> Any:
            return value

        done = run_flow(chain(give))
        assert done.result == done.outputs["give"] == value

    def test_a_failed_run_has_none(self) -> None:
        def fail() -> None:
            raise ValueError("no")

        assert run_flow(chain(fail)).result is None
