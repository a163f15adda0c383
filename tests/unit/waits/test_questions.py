"""Questions to people: their size, and the texts of those that expired."""

from typing import Any

import pytest

from pyoco_server.errors.error_table import Lang
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.runs.explain.explain_texts import TEXTS
from pyoco_server.waits.human.asking import MAX_QUESTION_BYTES, question
from pyoco_server.waits.wait_transitions import unanswered_text
from tests.support.broker.stored_waits import a_wait


def test_a_question_that_has_no_room_for_its_answer_is_rejected_where_it_is_asked() -> None:
    half = "x" * (MAX_QUESTION_BYTES // 2)
    place: dict[str, Any] = {"node": "ask||1", "task": "ask"}
    assert question("?", proposal=half, **place).proposal == half
    with pytest.raises(ValueError, match=rf"at most {MAX_QUESTION_BYTES} bytes.*reference") as refused:
        question("?", proposal=half, default=half, **place)
    assert f"default {len(half) + 2}" in str(refused.value)


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_explanation_of_an_expired_run(lang: Lang) -> None:
    wait = a_wait(new_run_id())
    message = TEXTS["failed_human_timeout"].message({"error": unanswered_text([wait])}, lang)
    assert message.lower().count("nobody") == 1
    assert f"POST /runs/{wait.run_id}/retry asks again" in message


YES_OR_NO = {"type": "boolean"}


@pytest.mark.parametrize(
    "given",
    [
        {"required": 2, "proposal": {"amount": 1}},
        {"required": 2, "schema": {**YES_OR_NO, "title": "Pay?"}},
        {"required": 3, "schema": YES_OR_NO, "assignees": ["group:finance"]},
        {"required": 2, "schema": YES_OR_NO, "assignees": ["ann", "bob"]},
        {"required": 1, "self_approval": False},
        {"required": 1, "self_approval": False, "submitted_by": "a", "assignees": ["a", "b"]},
        {"required": 1, "self_approval": False, "submitted_by": "a", "assignees": ["group:a"]},
        {"required": 1, "self_approval": True, "submitted_by": "a", "assignees": ["a"]},
    ],
)
def test_what_several_people_can_approve(given: dict[str, Any]) -> None:
    asked = question("?", node="ask||1", task="ask", **given)
    assert (asked.required, asked.self_approval) == (given["required"], given.get("self_approval", True))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"required": 2}, "expected a proposal, or schema="),
        ({"required": 2, "schema": {"type": "string"}}, "expected a proposal, or schema="),
        ({"required": 0}, "1 to 100"),
        ({"required": True}, "1 to 100"),
        ({"required": "2"}, "1 to 100"),
        ({"required": 2, "proposal": 1, "assignees": ["ann", "ann"]}, "at least 2 assignees"),
        (
            {"self_approval": False, "submitted_by": "key-ann", "assignees": ["key-ann"]},
            "at least 1 assignees other than the submitter of the run, or a group, or none, "
            "since required=1, self_approval=False",
        ),
        (
            {
                "required": 2,
                "proposal": 1,
                "self_approval": False,
                "submitted_by": "key-ann",
                "assignees": ["key-ann", "bob"],
            },
            "at least 2 assignees other than the submitter",
        ),
        ({"assignees": ["ann", "  "]}, "names or ids of API keys"),
        ({"assignees": ["group: "]}, "names or ids of API keys"),
        ({"self_approval": "no"}, "expected True or False"),
    ],
)
def test_what_cannot_be_approved_is_refused_where_it_is_asked(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as refused:
        question("?", node="ask||1", task="ask", **given)
    assert next(iter(given)) in str(refused.value) or "assignees" in str(refused.value)
