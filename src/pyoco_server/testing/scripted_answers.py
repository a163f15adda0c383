"""The answers that a test gives: found by the question, and validated as the gateway does."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

from msgspec import UNSET, structs

from pyoco_server.errors import InvalidAnswer, PyocoError
from pyoco_server.json_schemas.schema_validation import problems_of
from pyoco_server.records.waits.wait_models import Actor, Decision, WaitRecord, WaitState
from pyoco_server.runs.flow_yaml import did_you_mean
from pyoco_server.waits.human.answers.answering import Answer, answer_from_payload, check_answer_form
from pyoco_server.waits.human.asking import DEFAULT_NAME
from pyoco_server.waits.wait_transitions import expired


class _Expire(Enum):
    EXPIRE = "EXPIRE"


# In place of an answer: nobody answers before the deadline.
EXPIRE: Final = _Expire.EXPIRE


class UnansweredQuestion(AssertionError):
    """The flow waits for an answer, a signal or an event that the test does not have."""


class AnswerRefused(AssertionError):
    """The gateway would not accept this answer."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question that the flow has asked."""

    task: str
    name: str
    message: str
    # A JSON Schema; None if any JSON value is an answer.
    schema: dict[str, Any] | bool | None
    # None if there is nothing to approve.
    proposal: Any
    assignees: Sequence[str]
    timeout_sec: float


# The answer itself, or a function of the question that returns it.
ScriptedAnswer = Any | Literal[_Expire.EXPIRE] | Callable[[AskedQuestion], Any]


class ScriptedAnswers:
    """The answers by task, or by `task/name` for one of several questions of a task."""

    def __init__(self, answers: Mapping[str, ScriptedAnswer], *, answered_by: str) -> None:
        self._answers = answers
        self._actor = Actor(name=answered_by)
        self.asked: list[AskedQuestion] = []

    def check_names(self, tasks: Collection[str]) -> None:
        """ValueError names an answer to a task that the flow does not have."""
        for key in self._answers if tasks else ():
            task = key if key in tasks else key.partition("/")[0]
            if task not in tasks:
                hint = did_you_mean(task, tasks) or f"; it has {', '.join(tasks)}"
                raise ValueError(f"answers[{key!r}]: the flow has no task {task!r}{hint}")

    def decided(self, wait: WaitRecord) -> WaitRecord:
        """The wait with its answer, or expired; unchanged if the script has no answer."""
        question = _asked(wait)
        self.asked.append(question)
        key = next((key for key in (_key(wait), wait.task) if key in self._answers), None)
        if key is None:
            return wait
        answer = self._answers[key]
        if callable(answer):
            answer = answer(question)
        if answer is EXPIRE:
            return expired(wait, at=wait.deadline_at)
        return self._answered(wait, answer)

    def _answered(self, wait: WaitRecord, payload: Any) -> WaitRecord:
        try:
            answer = _checked_answer(wait, payload)
        except PyocoError as error:
            listed = "; ".join(map(str, error.problems)) or str(error)
            asked = f"task {wait.task} asked {wait.message!r} ({wait.name})"
            raise AnswerRefused(f"{asked}, and {payload!r} is not an answer: {listed}") from None
        return structs.replace(
            wait,
            state=WaitState.ANSWERED,
            decided_at=wait.created_at,
            decided_by=self._actor,
            payload=answer.payload,
            decision=answer.decision,
            note=answer.note,
        )

    def unanswered(self, waits: Sequence[WaitRecord]) -> UnansweredQuestion:
        named = "; ".join(f"task {wait.task} asked {wait.message!r} ({wait.name})" for wait in waits)
        keys = [wait.task if wait.name == DEFAULT_NAME else _key(wait) for wait in waits]
        missing = ", ".join(f"{key!r}: ..." for key in keys)
        given = ", ".join(map(repr, self._answers)) or "none"
        return UnansweredQuestion(
            f"{named}, and the test has no answer: add answers={{{missing}}} (there are answers for: {given})"
        )


def _key(wait: WaitRecord) -> str:
    return f"{wait.task}/{wait.name}"


def _asked(wait: WaitRecord) -> AskedQuestion:
    return AskedQuestion(
        task=wait.task,
        name=wait.name,
        message=wait.message,
        schema=wait.schema,
        proposal=None if wait.proposal is UNSET else wait.proposal,
        assignees=tuple(wait.assignees),
        timeout_sec=wait.deadline_at - wait.created_at,
    )


def _checked_answer(wait: WaitRecord, payload: Any) -> Answer:
    """As the gateway accepts it; InvalidAnswer or ProposalChanged say why it would not."""
    answer = answer_from_payload(wait, payload, None)
    if answer.decision is Decision.APPROVED and answer.digest is None:
        # The person approves what the flow has proposed in this test.
        answer.digest = wait.proposal_digest
    check_answer_form(wait, answer)
    if wait.schema is not None and answer.payload is not UNSET:
        problems = problems_of(answer.payload, wait.schema, at="payload")
        if problems:
            raise InvalidAnswer(problems=problems)
    return answer
