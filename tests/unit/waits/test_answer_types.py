"""Types as schemas, answers as these types, and what is known about an answer."""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Literal, TypedDict

import pytest
from msgspec import UNSET, structs

from pyoco_server.json_schemas.schema_validation import problems_of
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.waits.wait_models import Actor, Decision, OnTimeout, WaitRecord, WaitState
from pyoco_server.waits.human.answer_types import HumanAnswer, HumanTimeout, answer_of
from pyoco_server.waits.human.asking import question
from tests.support.broker.stored_waits import a_wait


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Payment:
    amount: int
    account: str | None = None


class Point(TypedDict):
    x: float


def answered(payload: Any = UNSET, **fields: Any) -> WaitRecord:
    wait = a_wait(new_run_id())
    return structs.replace(wait, **{"state": WaitState.ANSWERED, "payload": payload, **fields})


@pytest.mark.parametrize(
    ("kind", "given", "expected", "wrong"),
    [
        (bool, True, True, 1),
        (int, 3, 3, "3"),
        (int, 3.0, 3, 3.5),
        (float, 3, 3.0, None),
        (str, "yes", "yes", True),
        (list[int], [1, 2.0], [1, 2], ["1"]),
        (dict[str, int], {"a": 1}, {"a": 1}, {"a": "b"}),
        (dict[int, str], {"1": "a"}, {1: "a"}, {"1": 1}),
        (Literal["yes", "no"], "no", "no", "maybe"),
        (Colour, "blue", Colour.BLUE, "green"),
        (Size, 2, Size.LARGE, 3),
        (list[Colour], ["red"], [Colour.RED], ["green"]),
        (int | None, None, None, "x"),
        (int | str, "5", "5", 1.5),
        (Payment, {"amount": 5}, Payment(5), {"amount": "5"}),
        (Point, {"x": 1}, {"x": 1.0}, {}),
        (tuple[int, str], [1, "a"], (1, "a"), [1]),
    ],
)
def test_a_type_is_a_schema_and_the_answer_is_of_this_type(
    kind: Any, given: Any, expected: Any, wrong: Any
) -> None:
    schema = question("?", node="ask||0", task="ask", schema=kind).schema
    assert schema is not None
    assert problems_of(given, schema) == []
    assert problems_of(wrong, schema) != []
    found = answer_of(answered(given), kind, details=False)
    assert (found, type(found)) == (expected, type(expected))


def test_choices_keep_the_order_of_the_type() -> None:
    colours = question("?", node="ask||0", task="ask", schema=Colour).schema
    assert colours == {"title": "Colour", "enum": ["red", "blue"]}
    assert question("?", node="ask||0", task="ask", schema=Literal["yes", "no"]).schema == {
        "enum": ["yes", "no"]
    }


def test_a_default_and_a_proposal_may_be_of_the_type() -> None:
    asked = question("?", node="a||0", task="a", schema=Payment, proposal=Payment(1), default=Payment(2, "x"))
    assert asked.proposal == {"amount": 1, "account": None}
    assert asked.default == {"amount": 2, "account": "x"}
    assert question("?", node="a||0", task="a", schema=Colour, default=Colour.RED).default == "red"


@pytest.mark.parametrize("kind", [object, list[object], 5, "text", {1}])
def test_what_has_no_schema_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"ctx\.human\(schema=.*: expected a JSON Schema \(a dict\), a Pyd"):
        question("?", node="ask||0", task="ask", schema=kind)


class TestDetails:
    def test_who_answered_and_when(self) -> None:
        actor = Actor(name="ann", api_key_id="k1", ip="10.0.0.1")
        wait = answered("red", decided_by=actor, decided_at=7.0, note="quickly")
        assert answer_of(wait, Colour, details=True) == HumanAnswer(
            value=Colour.RED, by="ann", at=7.0, decision=None, note="quickly", expired=False
        )
        unnamed = structs.replace(wait, decided_by=Actor(api_key_id="k1"))
        assert answer_of(unnamed, None, details=True).by == "k1"
        assert answer_of(structs.replace(wait, decided_by=Actor(ip="::1")), None, details=True).by is None

    @pytest.mark.parametrize(
        ("decision", "payload", "value"),
        [
            (Decision.APPROVED, UNSET, Payment(1)),
            (Decision.EDITED, {"amount": 2}, Payment(2)),
            (Decision.REJECTED, UNSET, None),
        ],
    )
    def test_a_proposal(self, decision: Decision, payload: Any, value: Any) -> None:
        wait = answered(payload, proposal={"amount": 1}, decision=decision, decided_at=7.0)
        found = answer_of(wait, Payment, details=True)
        assert (found.value, found.decision, type(found.decision)) == (value, decision.value, str)
        plain = answer_of(wait, Payment, details=False)
        assert plain == {"decision": decision.value, "value": value, "note": None}

    def test_a_default(self) -> None:
        wait = answered(state=WaitState.EXPIRED, default=False, decided_at=8.0)
        assert answer_of(wait, bool, details=True) == HumanAnswer(
            value=False, by=None, at=8.0, decision=None, note=None, expired=True
        )


def test_a_timeout_without_a_default_is_an_exception() -> None:
    wait = answered(state=WaitState.EXPIRED, on_timeout=OnTimeout.RAISE)
    with pytest.raises(HumanTimeout, match=r"nobody answered 'approve\?' \(approve\) in time") as caught:
        answer_of(wait, bool, details=True)
    assert (caught.value.name, caught.value.deadline_at) == (wait.name, wait.deadline_at)
