"""`ctx.human` in a flow, without a worker."""

import threading
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from pydantic import BaseModel
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.waits.wait_models import (
    Decision,
    Question,
    WaitRecord,
    WaitState,
    decode_questions,
    wait_id_of,
)
from pyoco_server.worker.engine.tasks.task_calls import RetryBackoff, TaskCall, TaskTimers
from pyoco_server.worker.ipc.protocol import Outcome
from tests.support.running.flow_runs import FlowUnderTest, output

# A whole machine may stand still for so long.
LIMIT_SEC = 90.0

RUN_ID = "00000000-0000-4000-8000-000000000000"


def task(name: str, function: Any, **options: Any) -> TaskWrapper:
    return TaskWrapper(Task(func=function, name=name, **options))


# By name: function, names before it, options.
TasksOfGraph = dict[str, tuple[Any, list[str], dict[str, Any]]]


def graph(**tasks: tuple[Any, list[str], dict[str, Any]]) -> Flow:
    made = {name: Task(func=function, name=name, **options) for name, (function, _, options) in tasks.items()}
    for name, (_, before, _) in tasks.items():
        for earlier in before:
            made[name].dependencies.add(made[earlier])
            made[earlier].dependents.add(made[name])
    flow = Flow("graph")
    for each in made.values():
        flow.add_task(each)
    return flow


def answered(question: Question, payload: Any = UNSET, **fields: Any) -> WaitRecord:
    """The answered wait of a question."""
    decided = {"state": WaitState.ANSWERED, "payload": payload, **fields}
    return WaitRecord(
        wait_id=wait_id_of(RUN_ID, question.node, question.name, 1),
        run_id=RUN_ID,
        flow_name="flow",
        tag="default",
        node=question.node,
        task=question.task,
        name=question.name,
        message=question.message,
        schema=question.schema,
        proposal=question.proposal,
        default=question.default,
        created_at=1.0,
        deadline_at=2.0,
        **decided,
    )


def waited_for(outcome: Outcome) -> list[str]:
    assert outcome.status == RunStatus.WAITING_HUMAN, outcome
    return sorted(f"{each.task}/{each.name}" for each in decode_questions(outcome.questions))


class TestOneQuestion:
    def test_the_run_waits_and_the_call_returns_the_answer(self) -> None:
        flow = (
            Flow("flow")
            >> task("ask", lambda ctx: ctx.human("Is it right?"))
            >> task("use", lambda ask: [ask])
        )
        under_test = FlowUnderTest(flow)
        outcome = under_test.execute()
        assert waited_for(outcome) == ["ask/human"]
        assert outcome.tasks == {"ask": "WAITING", "use": "PENDING"}
        assert [question.message for question in under_test.asked] == ["Is it right?"]
        outcome = under_test.execute(waits=[answered(under_test.asked[0], {"yes": True})])
        assert outcome.status == RunStatus.COMPLETED
        assert output(outcome, "use") == [{"yes": True}]
        assert len(under_test.asked) == 1

    def test_a_question_to_nobody_but_the_submitter_fails_its_task(self) -> None:
        asks = task("ask", lambda ctx: ctx.human("?", assignees=["key-ann"], self_approval=False))
        under_test = FlowUnderTest(Flow("flow") >> asks)
        assert waited_for(under_test.execute(api_key_id="key-bob")) == ["ask/human"]
        outcome = under_test.execute(api_key_id="key-ann")
        assert outcome.status == RunStatus.FAILED
        assert "ctx.human(assignees=['key-ann']): expected at least 1 assignees other than" in (
            outcome.error or ""
        )

    @pytest.mark.parametrize("payload", [None, False, 0, "", {}, [], 10**30])
    def test_every_json_value_is_an_answer(self, payload: Any) -> None:
        under_test = FlowUnderTest(Flow("flow") >> task("ask", lambda ctx: [ctx.human("?")]))
        under_test.execute()
        outcome = under_test.execute(waits=[answered(under_test.asked[0], payload)])
        assert outcome.status == RunStatus.COMPLETED
        assert output(outcome, "ask") == [payload]

    def test_an_open_wait_is_not_asked_again(self) -> None:
        under_test = FlowUnderTest(Flow("flow") >> task("ask", lambda ctx: ctx.human("?")))
        under_test.execute()
        open_wait = answered(under_test.asked[0], state=WaitState.OPEN)
        assert waited_for(under_test.execute(waits=[open_wait])) == ["ask/human"]
        assert len(under_test.asked) == 1

    def test_an_expired_wait_returns_the_default(self) -> None:
        under_test = FlowUnderTest(Flow("flow") >> task("ask", lambda ctx: ctx.human("?", default=None)))
        under_test.execute()
        expired = answered(under_test.asked[0], state=WaitState.EXPIRED)
        outcome = under_test.execute(waits=[expired])
        assert (outcome.status, output(outcome, "ask")) == (RunStatus.COMPLETED, None)

    def test_the_newest_wait_of_a_question_counts(self) -> None:
        under_test = FlowUnderTest(Flow("flow") >> task("ask", lambda ctx: ctx.human("?")))
        under_test.execute()
        first = answered(under_test.asked[0], state=WaitState.EXPIRED)
        second = answered(under_test.asked[0], "late", arming=2)
        assert output(under_test.execute(waits=[second, first]), "ask") == "late"


class TestTaskBehaviour:
    def test_steps_before_it_are_not_executed_again(self) -> None:
        executed: list[str] = []

        def ask(ctx: Any) -> Any:
            ctx.step("charge", lambda: executed.append("charge"))
            answer = ctx.human("?")
            ctx.step("ship", lambda: executed.append("ship"))
            return answer

        under_test = FlowUnderTest(Flow("flow") >> task("ask", ask))
        under_test.execute()
        outcome = under_test.execute(
            journal=under_test.written, attempt=2, waits=[answered(under_test.asked[0], 1)]
        )
        assert outcome.status == RunStatus.COMPLETED
        assert executed == ["charge", "ship"]

    def test_a_bare_except_does_not_swallow_a_question(self) -> None:
        def ask(ctx: Any) -> str:
            try:
                ctx.human("?")
            except:  # noqa: E722
                return "swallowed"
            return "answered"

        under_test = FlowUnderTest(Flow("flow") >> task("ask", ask) >> task("use", lambda ask: ask))
        assert waited_for(under_test.execute()) == ["ask/human"]
        assert under_test.written == []

    def test_an_error_raised_from_a_question_is_neither_a_failure_nor_a_try(self) -> None:
        tries: list[int] = []

        def ask(ctx: Any) -> None:
            tries.append(1)
            try:
                ctx.human("?")
            except BaseException:
                raise ValueError("no answer") from None

        flow = Flow("flow") >> task("ask", ask, retries=3)
        assert waited_for(FlowUnderTest(flow, backoff=RetryBackoff(0.0, 0.0)).execute()) == ["ask/human"]
        assert len(tries) == 1

    def test_a_blocking_finally_delays_the_end_of_the_execution(self) -> None:
        released, entered = threading.Event(), threading.Event()

        def ask(ctx: Any) -> None:
            try:
                ctx.human("?")
            finally:
                entered.set()
                assert released.wait(LIMIT_SEC)

        under_test = FlowUnderTest(Flow("flow") >> task("ask", ask))
        outcomes: list[Outcome] = []
        running = threading.Thread(target=lambda: outcomes.append(under_test.execute()))
        running.start()
        assert entered.wait(LIMIT_SEC)
        assert [question.task for question in under_test.asked] == ["ask"]
        assert outcomes == []
        released.set()
        running.join(LIMIT_SEC)
        assert waited_for(outcomes[0]) == ["ask/human"]

    def test_a_question_of_an_isolated_or_limited_task_is_not_a_failure(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is counted of a task's time ends with its question, while another task still runs."""
        ended, asked = TaskTimers.ended, threading.Event()

        def noted(limits: TaskTimers, call: TaskCall) -> None:
            ended(limits, call)
            if call.task.name == "ask":
                asked.set()

        monkeypatch.setattr(TaskTimers, "ended", noted)
        flow = graph(
            ask=(lambda ctx: ctx.human("?"), [], {"fail_policy": "isolate", "timeout_sec": 3600}),
            other=(lambda: asked.wait(LIMIT_SEC), [], {}),
        )
        outcome = FlowUnderTest(flow).execute()
        assert waited_for(outcome) == ["ask/human"]
        assert outcome.tasks == {"ask": "WAITING", "other": "SUCCEEDED"}
        assert output(outcome, "other") is True

    def test_two_questions_of_a_task_need_two_names(self) -> None:
        def ask(ctx: Any) -> list[Any]:
            return [ctx.human("one?", name="one"), ctx.human("two?", name="two")]

        under_test = FlowUnderTest(Flow("flow") >> task("ask", ask))
        assert waited_for(under_test.execute()) == ["ask/one"]
        first = answered(under_test.asked[0], 1)
        assert waited_for(under_test.execute(waits=[first])) == ["ask/two"]
        outcome = under_test.execute(waits=[first, answered(under_test.asked[1], 2)])
        assert output(outcome, "ask") == [1, 2]

    def test_a_name_used_twice_is_an_error(self) -> None:
        def ask(ctx: Any) -> list[Any]:
            return [ctx.human("one?", name="n"), ctx.human("two?", name="n")]

        under_test = FlowUnderTest(Flow("flow") >> task("ask", ask))
        under_test.execute()
        outcome = under_test.execute(waits=[answered(under_test.asked[0], 1)])
        assert outcome.status == RunStatus.FAILED
        assert "asked twice by one task; give each question of a task a name of its own" in str(outcome.error)

    def test_questions_without_a_name_are_numbered(self) -> None:
        def ask(ctx: Any) -> list[Any]:
            return [ctx.human(f"{number}?") for number in range(3)]

        under_test = FlowUnderTest(Flow("flow") >> task("ask", ask, retries=1))
        waits: list[WaitRecord] = []
        for name in ("human", "human-2", "human-3"):
            assert waited_for(under_test.execute(waits=waits)) == [f"ask/{name}"]
            waits.append(answered(under_test.asked[-1], name))
        assert output(under_test.execute(waits=waits), "ask") == ["human", "human-2", "human-3"]


class TestBranches:
    def test_other_branches_continue_while_a_task_waits(self) -> None:
        flow = graph(
            ask=(lambda ctx: ctx.human("?"), [], {}),
            left=(lambda: 1, [], {}),
            more=(lambda left: left + 1, ["left"], {}),
            join=(lambda ask, more: [ask, more], ["ask", "more"], {}),
        )
        under_test = FlowUnderTest(flow)
        outcome = under_test.execute()
        assert waited_for(outcome) == ["ask/human"]
        assert outcome.tasks == {
            "ask": "WAITING",
            "left": "SUCCEEDED",
            "more": "SUCCEEDED",
            "join": "PENDING",
        }
        outcome = under_test.execute(
            journal=under_test.written, attempt=2, waits=[answered(under_test.asked[0], "a")]
        )
        assert output(outcome, "join") == ["a", 2]

    def test_ten_waits_are_answered_in_any_order_without_blocking_threads(self) -> None:
        asks: TasksOfGraph = {f"ask{number}": (lambda ctx: ctx.human("?"), [], {}) for number in range(10)}
        after: TasksOfGraph = {f"after{number}": (lambda: None, [f"ask{number}"], {}) for number in range(10)}
        under_test = FlowUnderTest(graph(**asks, **after))
        assert len(waited_for(under_test.execute())) == 10
        waits: list[WaitRecord] = []
        open_waits = [answered(question, state=WaitState.OPEN) for question in under_test.asked]
        for question in sorted(under_test.asked, key=lambda each: each.task, reverse=True):
            waits = [
                answered(question, question.task) if wait.task == question.task else wait
                for wait in waits or open_waits
            ]
            decided = sum(wait.resolved for wait in waits)
            outcome = under_test.execute(journal=under_test.written, attempt=decided + 1, waits=waits)
            assert outcome.tasks[question.task.replace("ask", "after")] == "SUCCEEDED"
            if decided < 10:
                assert len(waited_for(outcome)) == 10 - decided
        assert outcome.status == RunStatus.COMPLETED
        assert len(under_test.asked) == 10

    def test_a_failing_branch_fails_a_run_that_waits(self) -> None:
        def fail() -> None:
            raise ValueError("broken")

        flow = graph(ask=(lambda ctx: ctx.human("?"), [], {}), fail=(fail, [], {}))
        outcome = FlowUnderTest(flow).execute()
        assert outcome.status == RunStatus.FAILED
        assert outcome.tasks == {"ask": "CANCELLED", "fail": "FAILED"}
        assert msgspec.json.decode(outcome.task_records["ask"])["error"] is None

    def test_an_isolated_failure_does_not_end_a_wait(self) -> None:
        def fail() -> None:
            raise ValueError("broken")

        flow = graph(ask=(lambda ctx: ctx.human("?"), [], {}), fail=(fail, [], {"fail_policy": "isolate"}))
        outcome = FlowUnderTest(flow).execute()
        assert waited_for(outcome) == ["ask/human"]
        assert outcome.tasks == {"ask": "WAITING", "fail": "FAILED"}

    def test_an_any_join_does_not_wait_for_a_second_branch(self) -> None:
        """The loser's answer is of no use: nothing follows it but the join."""
        flow = graph(
            ask=(lambda ctx: ctx.human("?"), [], {}),
            quick=(lambda: "quick", [], {}),
            behind=(lambda ask: ask, ["ask"], {}),
            join=(lambda ctx: "joined", ["behind", "quick"], {"trigger_policy": "ANY"}),
        )
        outcome = FlowUnderTest(flow).execute()
        assert outcome.status == RunStatus.COMPLETED
        assert outcome.tasks == {
            "ask": "CANCELLED",
            "behind": "CANCELLED",
            "quick": "SUCCEEDED",
            "join": "SUCCEEDED",
        }

    def test_a_question_that_lost_to_a_join_which_waits_itself_is_discarded(self) -> None:
        flow = graph(
            loser=(lambda ctx: ctx.human("?"), [], {}),
            quick=(lambda: "quick", [], {}),
            join=(lambda ctx: ctx.human("!"), ["loser", "quick"], {"trigger_policy": "ANY"}),
        )
        outcome = FlowUnderTest(flow).execute()
        assert waited_for(outcome) == ["join/human"]

    def test_an_unneeded_question_is_discarded_while_another_one_waits(self) -> None:
        flow = graph(
            ask=(lambda ctx: ctx.human("?"), [], {}),
            quick=(lambda: "quick", [], {}),
            join=(lambda: "joined", ["ask", "quick"], {"trigger_policy": "ANY"}),
            needed=(lambda ctx: ctx.human("!"), [], {}),
        )
        outcome = FlowUnderTest(flow).execute()
        assert waited_for(outcome) == ["needed/human"]


class TestLoops:
    def test_each_iteration_asks_its_own_question(self) -> None:
        def ask(ctx: Any) -> Any:
            return ctx.human(f"item {ctx.get_var('item')}?")

        flow = Flow("flow") >> task("start", lambda: None) >> task("ask", ask)["$ctx.params.items as item"]
        under_test = FlowUnderTest(flow)
        waits: list[WaitRecord] = []
        for number in range(3):
            outcome = under_test.execute(
                {"items": ["a", "b", "c"]}, journal=under_test.written, attempt=number + 1, waits=waits
            )
            assert waited_for(outcome) == ["ask/human"]
            assert len(under_test.asked) == number + 1
            waits.append(answered(under_test.asked[-1], number))
        assert [question.message for question in under_test.asked] == ["item a?", "item b?", "item c?"]
        outcome = under_test.execute(
            {"items": ["a", "b", "c"]}, journal=under_test.written, attempt=4, waits=waits
        )
        assert outcome.status == RunStatus.COMPLETED


class Invoice(BaseModel):
    amount: int
    currency: str = "JPY"


class TestArguments:
    def run(self, **arguments: Any) -> FlowUnderTest:
        under_test = FlowUnderTest(Flow("flow") >> task("ask", lambda ctx: ctx.human("?", **arguments)))
        self.outcome = under_test.execute()
        return under_test

    def test_the_answer_to_a_pydantic_schema_is_a_model(self) -> None:
        seen: list[Any] = []
        under_test = FlowUnderTest(
            Flow("flow") >> task("ask", lambda ctx: seen.append(ctx.human("?", schema=Invoice)))
        )
        under_test.execute()
        question = under_test.asked[0]
        assert isinstance(question.schema, dict)
        assert question.schema["required"] == ["amount"]
        under_test.execute(waits=[answered(question, {"amount": 5})])
        assert seen == [Invoice(amount=5)]

    def test_a_proposal_is_answered_with_a_decision(self) -> None:
        seen: list[Any] = []
        flow = Flow("flow") >> task(
            "ask", lambda ctx: seen.append(ctx.human("?", schema=Invoice, proposal=Invoice(amount=1)))
        )
        under_test = FlowUnderTest(flow)
        under_test.execute()
        question = under_test.asked[0]
        assert question.proposal == {"amount": 1, "currency": "JPY"}
        edited = answered(question, {"amount": 2}, decision=Decision.EDITED, note="typo")
        under_test.execute(waits=[edited])
        rejected = answered(question, decision=Decision.REJECTED)
        under_test.execute(waits=[rejected])
        assert seen == [
            {"decision": "edited", "value": Invoice(amount=2), "note": "typo"},
            {"decision": "rejected", "value": None, "note": None},
        ]

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            ({"timeout_ms": 0}, "ctx.human(timeout_ms=0): expected milliseconds, more than 0"),
            ({"timeout_ms": -1}, "ctx.human(timeout_ms=-1)"),
            ({"timeout_ms": float("nan")}, "ctx.human(timeout_ms=nan)"),
            ({"timeout_ms": float("inf")}, "ctx.human(timeout_ms=inf)"),
            ({"timeout_ms": 10**15}, "ctx.human(timeout_ms=1000000000000000)"),
            ({"timeout_ms": True}, "ctx.human(timeout_ms=True)"),
            ({"timeout_ms": "1"}, "ctx.human(timeout_ms='1')"),
            ({"name": ""}, "ctx.human(name='')"),
            ({"name": "a|b"}, "ctx.human(name='a|b')"),
            ({"schema": 5}, "ctx.human(schema=5): expected a JSON Schema (a dict), a Pydantic model"),
            ({"schema": {"type": "nonsense"}}, "ctx.human(schema=...)"),
            ({"proposal": object()}, "ctx.human(proposal=...): expected a JSON value"),
            ({"proposal": float("nan")}, "ctx.human(proposal=...)"),
            ({"default": {1, 2}}, "ctx.human(default=...)"),
            ({"schema": {"type": "integer"}, "default": "x"}, "ctx.human(default=...): it does not match"),
            ({"schema": {"type": "integer"}, "proposal": "x"}, "ctx.human(proposal=...): it does not match"),
            ({"assignees": [1]}, "ctx.human(assignees=[1])"),
            ({"on_timeout": "isolate"}, "ctx.human(on_timeout='isolate'): expected 'fail' or 'raise'"),
            ({"on_timeout": "raise", "default": 1}, "on_timeout='raise'): expected one of the two"),
        ],
    )
    def test_an_invalid_argument_fails_the_task(self, arguments: dict[str, Any], complaint: str) -> None:
        under_test = self.run(**arguments)
        assert self.outcome.status == RunStatus.FAILED
        assert complaint in str(self.outcome.error)
        assert under_test.asked == []

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("message", "an invoice \udc80?"),
            ("name", "\ud800"),
            ("assignees", ["finance", "\udfff"]),
            ("schema", {"type": "string", "title": "\ud800"}),
            ("proposal", {"lines": [{"text": "cut \ud83d"}]}),
            ("default", {"\ud800": 1}),
        ],
    )
    def test_a_lone_surrogate_fails_the_task(self, field: str, value: Any) -> None:
        """And nothing later: no text that is stored can have it."""
        arguments = {"message": "?", field: value}
        under_test = FlowUnderTest(Flow("flow") >> task("ask", lambda ctx: ctx.human(**arguments)))
        outcome = under_test.execute()
        assert outcome.status == RunStatus.FAILED
        assert f"ctx.human({field}=...): it has '\\ud" in str(outcome.error)
        assert "a surrogate, which is half of a character: expected a text" in str(outcome.error)
        assert under_test.asked == []

    def test_a_message_is_required(self) -> None:
        outcome = FlowUnderTest(Flow("flow") >> task("ask", lambda ctx: ctx.human(""))).execute()
        assert "ctx.human(message=''): expected a text of 1 to 10000 characters" in str(outcome.error)
