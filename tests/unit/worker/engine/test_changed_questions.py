"""Questions that changed since they were asked, and questions that nobody answers in time."""

import asyncio
import itertools
from typing import Any

import pytest
from msgspec import structs
from pyoco import Flow

from pyoco_server import HumanTimeout
from pyoco_server.records.runs.run_models import Job, new_run_id
from pyoco_server.records.waits.wait_models import (
    Actor,
    Decision,
    OnTimeout,
    Question,
    Vote,
    WaitRecord,
    WaitState,
    decode_question,
    encode,
)
from pyoco_server.testing import EXPIRE, run_flow
from pyoco_server.testing.memory_waits import MemoryWaits, NoWaitEvents
from pyoco_server.testing.scripted_answers import ScriptedAnswers
from pyoco_server.testing.scripted_arrivals import ScriptedArrivals
from pyoco_server.worker.session.run_questions import RunQuestions
from tests.unit.worker.test_human_tasks import graph, task


def asks(*messages: str, schema: Any = None) -> Flow:
    """A task that asks another question in each execution, the last one for ever."""
    upcoming = itertools.chain(messages, itertools.repeat(messages[-1]))
    return Flow("flow") >> task("pay", lambda ctx: ctx.human(next(upcoming), schema=schema))


class TestChangedQuestion:
    def test_an_answer_to_another_question_is_not_used(self) -> None:
        answers = {"Pay 917464?": "yes", "Pay 17789?": "no"}
        result = run_flow(
            asks("Pay 917464?", "Pay 17789?"), answers={"pay": lambda asked: answers[asked.message]}
        )
        assert (result.status, result.outputs) == ("COMPLETED", {"pay": "no"})
        assert [asked.message for asked in result.asked] == list(answers)
        assert result.log == [
            "question human of task pay is asked again: its message has changed since it was answered"
        ]

    def test_an_approval_by_one_is_not_one_by_two(self) -> None:
        required = itertools.chain([1], itertools.repeat(2))
        flow = Flow("flow") >> task("pay", lambda ctx: ctx.human("?", schema=bool, required=next(required)))
        result = run_flow(flow, answers={"pay": True})
        # Twice: once for the approval of one, once for those of two.
        assert (result.outputs, len(result.asked)) == ({"pay": True}, 2)
        assert "is asked again: its rule of approval has changed since it was answered" in result.log[0]

    def test_another_schema_is_another_question(self) -> None:
        schemas = itertools.chain([{"type": "string"}], itertools.repeat({"type": "integer"}))
        flow = Flow("flow") >> task("pay", lambda ctx: ctx.human("?", schema=next(schemas)))
        answers = iter(["5", 5])
        result = run_flow(flow, answers={"pay": lambda _: next(answers)})
        assert result.outputs == {"pay": 5}
        assert "its schema has changed since it was answered" in result.log[0]

    def test_the_order_of_keys_and_the_proposal_are_no_change(self) -> None:
        schemas = itertools.cycle([{"type": "object", "title": "A"}, {"title": "A", "type": "object"}])
        numbers = itertools.count()

        def pay(ctx: Any) -> Any:
            return ctx.human("?", schema=next(schemas), proposal={"n": next(numbers)})

        result = run_flow(Flow("flow") >> task("pay", pay), answers={"pay": {"decision": "approved"}})
        # What was approved, not what the second execution proposes.
        assert result.outputs == {"pay": {"decision": "approved", "value": {"n": 0}, "note": None}}
        assert len(result.asked) == 1

    def test_a_default_of_another_question_is_not_used(self) -> None:
        upcoming = itertools.chain(["Pay 1?"], itertools.repeat("Pay 2?"))
        flow = Flow("flow") >> task("pay", lambda ctx: ctx.human(next(upcoming), default="yes"))
        result = run_flow(flow, answers={"pay": lambda asked: EXPIRE if asked.message == "Pay 1?" else "no"})
        assert result.outputs == {"pay": "no"}

    def test_a_question_that_changes_with_each_execution_fails_its_task(self) -> None:
        numbers = itertools.count()
        flow = Flow("flow") >> task("pay", lambda ctx: ctx.human(f"It is {next(numbers)}. Pay?"))
        result = run_flow(flow, answers={"pay": True})
        assert result.status == "FAILED"
        assert len(result.asked) == 3
        assert str(result.error).startswith(
            "task pay: ValueError: ctx.human(name='human'): its message has changed after each of 3 answers"
        )
        assert "from a ctx.step" in str(result.error)

    def test_a_step_keeps_the_message(self) -> None:
        numbers = itertools.count()

        def pay(ctx: Any) -> Any:
            return ctx.human(f"It is {ctx.step('time', lambda: next(numbers))}. Pay?")

        result = run_flow(Flow("flow") >> task("pay", pay), answers={"pay": True})
        assert (result.outputs, len(result.asked)) == ({"pay": True}, 1)


BOOLEAN: dict[str, Any] = {"type": "boolean"}


class Waits:
    """The waits of a run at its worker, in memory."""

    def __init__(self) -> None:
        self.store = MemoryWaits(ScriptedAnswers({}, answered_by="test"), ScriptedArrivals((), ()))
        self.events = SeenEvents()
        job = Job(
            run_id=new_run_id(), flow_name="flow", tag="default", submitted_at=1.0, api_key_id="submitter"
        )
        self.questions = RunQuestions(self.store, self.events, job, timeout_sec=60.0)

    def ask(self, message: str = "Pay?", **fields: Any) -> WaitRecord:
        question = Question(node="pay||0", task="pay", name="human", message=message, **fields)
        return asyncio.run(self.questions.ask(question))

    async def _decide(self, wait: WaitRecord, **fields: Any) -> None:
        await self.store.replace(structs.replace(wait, decided_at=2.0, **fields), 1)
        await self.questions.load()

    def decide(self, wait: WaitRecord, **fields: Any) -> None:
        asyncio.run(self._decide(wait, **fields))


class SeenEvents(NoWaitEvents):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []

    async def publish(self, event: Any) -> None:
        self.seen.append((event.kind.value, event.why))


@pytest.fixture
def waits() -> Waits:
    return Waits()


class TestStoredWaits:
    def test_a_changed_question_after_an_answer_is_another_wait_with_the_reason(self, waits: Waits) -> None:
        first = waits.ask("Pay 1?")
        waits.decide(first, state=WaitState.ANSWERED, payload=True)
        assert waits.ask("Pay 1?").wait_id == first.wait_id
        second = waits.ask("Pay 2?", schema={"type": "boolean"})
        assert (second.arming, second.state, second.changes) == (2, WaitState.OPEN, 1)
        assert (first.asked_again, second.asked_again) == (None, "question_changed")
        assert second.wait_id != first.wait_id
        assert waits.events.seen == [("opened", None), ("opened", "question_changed")]
        assert waits.ask("Pay 2?", schema={"type": "boolean"}) == second

    def test_an_open_question_that_changes_is_closed(self, waits: Waits) -> None:
        first = waits.ask("Pay 1?")
        second = waits.ask("Pay 2?")
        assert (second.arming, second.asked_again, second.changes) == (2, "message_changed", 0)
        stored = asyncio.run(waits.store.get(first.wait_id))
        assert stored is not None
        assert stored.record.state is WaitState.CANCELLED
        # An event may be published twice.
        assert list(dict.fromkeys(waits.events.seen)) == [
            ("opened", None),
            ("cancelled", "message_changed"),
            ("opened", "message_changed"),
        ]

    def test_more_approvals_than_were_given_are_asked_for(self, waits: Waits) -> None:
        first = waits.ask(schema=BOOLEAN)
        waits.decide(first, state=WaitState.ANSWERED, payload=True, decided_by=Actor(api_key_id="bob"))
        second = waits.ask(schema=BOOLEAN, required=2)
        assert (second.required, second.asked_again, second.changes) == (2, "approval_changed", 1)
        votes = [Vote(at=1.0, by=Actor(api_key_id=name), payload=True) for name in ("bob", "eve")]
        waits.decide(second, state=WaitState.ANSWERED, payload=True, votes=votes)
        # What was approved by two is approved by one.
        for required in (2, 1):
            assert waits.ask(schema=BOOLEAN, required=required).wait_id == second.wait_id
        assert waits.ask(schema=BOOLEAN, required=3).asked_again == "approval_changed"
        assert waits.events.seen == [("opened", None), *[("opened", "approval_changed")] * 2]

    def test_an_answer_of_the_submitter_does_not_count_without_self_approval(self, waits: Waits) -> None:
        for by, is_kept in (("eve", True), ("submitter", False)):
            wait = waits.ask(f"{by}?")
            waits.decide(wait, state=WaitState.ANSWERED, payload=1, decided_by=Actor(api_key_id=by))
            again = waits.ask(f"{by}?", self_approval=False)
            assert (again.wait_id == wait.wait_id) is is_kept
        assert again.asked_again == "approval_changed"

    @pytest.mark.parametrize("decided", [{"payload": False}, {"decision": Decision.REJECTED}])
    def test_a_rejection_decides_whatever_is_required(self, waits: Waits, decided: dict[str, Any]) -> None:
        first = waits.ask(schema=BOOLEAN)
        waits.decide(first, state=WaitState.ANSWERED, **decided)
        assert waits.ask(schema=BOOLEAN, required=2).wait_id == first.wait_id

    @pytest.mark.parametrize("change", [{"required": 1}, {"required": 3}, {"self_approval": False}])
    def test_an_open_question_has_the_rule_of_approval_of_now(
        self, waits: Waits, change: dict[str, Any]
    ) -> None:
        asked: dict[str, Any] = {"schema": BOOLEAN, "required": 2}
        first = waits.ask(**asked)
        again = waits.ask(**{**asked, **change})
        assert (again.arming, again.asked_again) == (first.arming + 1, "approval_changed")
        assert waits.ask(**{**asked, **change}) == again

    def test_other_assignees_are_no_other_question(self, waits: Waits) -> None:
        first = waits.ask(assignees=["ann"])
        assert waits.ask(assignees=["bob"]).wait_id == first.wait_id
        waits.decide(first, state=WaitState.ANSWERED, payload=1)
        assert waits.ask(assignees=["bob"]).wait_id == first.wait_id

    def test_a_default_counts_whatever_is_required(self, waits: Waits) -> None:
        first = waits.ask(schema=BOOLEAN, default=False)
        waits.decide(first, state=WaitState.EXPIRED)
        assert waits.ask(schema=BOOLEAN, default=False, required=2).wait_id == first.wait_id

    def test_an_expired_question_still_fails_its_run(self, waits: Waits) -> None:
        first = waits.ask("Pay 1?")
        waits.decide(first, state=WaitState.EXPIRED)
        assert waits.ask("Pay 2?").wait_id == first.wait_id

    def test_a_wait_of_the_previous_version_is_found(self, waits: Waits) -> None:
        """Its name is `human`, and it has none of the new fields."""
        first = waits.ask("Pay?", schema={"type": "boolean"})
        assert not any(field in encode(first) for field in (b"on_timeout", b"asked_again", b"changes"))
        waits.decide(first, state=WaitState.ANSWERED, payload=True)
        assert waits.ask("Pay?", schema={"type": "boolean"}).value is True
        old = decode_question(b'{"node": "pay||0", "task": "pay", "name": "human", "message": "?"}')
        assert old.on_timeout is OnTimeout.FAIL


class TestTimeout:
    def test_an_exception_that_the_task_catches(self) -> None:
        def ask(ctx: Any) -> str:
            try:
                return str(ctx.human("Pay?", on_timeout="raise"))
            except HumanTimeout as late:
                return f"late: {late.message}"

        result = run_flow(Flow("flow") >> task("pay", ask), answers={"pay": EXPIRE})
        assert (result.status, result.outputs) == ("COMPLETED", {"pay": "late: Pay?"})

    def test_an_exception_in_an_async_task(self) -> None:
        async def ask(ctx: Any) -> Any:
            return await asyncio.gather(
                ctx.human("A?", on_timeout="raise"), ctx.human("B?"), return_exceptions=True
            )

        flow = Flow("flow") >> task("pay", ask) >> task("use", lambda pay: [type(pay[0]).__name__, pay[1]])
        result = run_flow(flow, answers={"pay": EXPIRE, "pay/human-2": True})
        assert result.outputs["use"] == ["HumanTimeout", True]

    def test_an_exception_that_nobody_catches_fails_the_run_without_another_try(self) -> None:
        calls: list[int] = []

        def ask(ctx: Any) -> Any:
            calls.append(1)
            return ctx.human("Pay?", on_timeout="raise")

        result = run_flow(Flow("flow") >> task("pay", ask, retries=3), answers={"pay": EXPIRE})
        assert (result.status, result.reason) == ("FAILED", "execution_error")
        assert result.error == "task pay: HumanTimeout: nobody answered 'Pay?' (human) in time"
        # One call that asked, and one that the exception was raised in.
        assert len(calls) == 2

    def test_an_isolated_task_fails_alone(self) -> None:
        flow = graph(
            ask=(lambda ctx: ctx.human("Pay?"), [], {"fail_policy": "isolate"}),
            behind=(lambda ask: ask, ["ask"], {}),
            other=(lambda: "done", [], {}),
        )
        result = run_flow(flow, answers={"ask": EXPIRE})
        assert (result.status, result.error) == ("COMPLETED", None)
        assert result.tasks == {"ask": "FAILED", "behind": "FAILED", "other": "SUCCEEDED"}
        assert "nobody answered 'Pay?'" in result.task_records["ask"]["error"]

    def test_without_it_the_run_fails(self) -> None:
        flow = Flow("flow") >> task("pay", lambda ctx: ctx.human("Pay?"))
        result = run_flow(flow, answers={"pay": EXPIRE})
        assert (result.status, result.reason) == ("FAILED", "human_timeout")


def test_the_details_of_an_answer_are_journalled_and_shown() -> None:
    flow = (
        Flow("flow")
        >> task("pay", lambda ctx: ctx.human("Pay?", schema=bool, details=True))
        >> task("again", lambda ctx, pay: [pay.by, pay.value, pay.expired, ctx.human("Sure?")])
    )
    result = run_flow(flow, answers={"pay": True, "again": "yes"}, answered_by="ann")
    assert result.outputs["again"] == ["ann", True, False, "yes"]
    shown = result.task_records["pay"]["output"]
    assert shown.pop("at") > 0
    assert shown == {"value": True, "by": "ann", "decision": None, "note": None, "expired": False}
