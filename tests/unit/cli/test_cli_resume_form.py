"""The form of `pyoco-client resume`: its questions by schema, and the answer that the typed lines make."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

import pytest
from msgspec import UNSET
from pydantic import BaseModel, Field

from pyoco_server.cli.commands.waits.resume_command import Draft, drafted
from pyoco_server.cli.entry import CommandFailed
from pyoco_server.cli.forms.answer_form import AnswerForm, json_or_text, parsed_json, value_of
from pyoco_server.cli.forms.dialogue import confirmed, index_of, picked
from pyoco_server.cli.forms.schema_parts import PartKind, SchemaPart, shape_of
from pyoco_server.records.waits.wait_models import Decision


class Typing:
    """A dialogue with these typed lines; it keeps the questions and the printed lines."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.asked: list[str] = []
        self.printed: list[str] = []

    def ask(self, question: str) -> str:
        self.asked.append(question)
        assert self._lines, f"nothing was left to type at {question!r}; printed: {self.printed}"
        return self._lines.pop(0)

    def print(self, line: str) -> None:
        self.printed.append(line)

    @property
    def errors(self) -> list[str]:
        return [line for line in self.printed if line.startswith("! ")]

    def all_typed(self) -> bool:
        return not self._lines


def filled(schema: Any, *lines: str, current: Any = UNSET) -> tuple[Any, Typing]:
    typing = Typing(*lines)
    answer = AnswerForm(typing, schema).fill(current)
    assert typing.all_typed()
    return answer, typing


def an_object(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT = {"type": "string"}
NUMBER = {"type": "number"}


@pytest.mark.parametrize(
    ("schema", "typed", "answer"),
    [
        (TEXT, "Ada", "Ada"),
        (TEXT, " Ada ", " Ada "),
        (TEXT, '"a\\nb"', "a\nb"),
        (TEXT, '""', ""),
        (TEXT, '"said" he', '"said" he'),
        (TEXT, "", ""),
        (TEXT, "3", "3"),
        (NUMBER, "3.5", 3.5),
        (NUMBER, " -2 ", -2),
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, "3.0", 3),
        ({"type": "boolean"}, "y", True),
        ({"type": "boolean"}, "No", False),
        ({"enum": ["approved", "rejected"]}, "2", "rejected"),
        ({"enum": ["approved", "rejected"]}, "approved", "approved"),
        ({"enum": ["approved", "rejected"]}, "rej", "rejected"),
        ({"enum": [3, 1]}, "1", 1),
        ({"enum": [True, None, "x"]}, "null", None),
        ({"const": "yes"}, "1", "yes"),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "b", "b"),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "", None),
        ({"type": ["string", "null"]}, '"null"', "null"),
        ({"anyOf": [NUMBER, TEXT]}, "3", 3),
        ({"anyOf": [NUMBER, TEXT]}, "three", "three"),
        ({"type": ["number", "string"]}, "three", "three"),
        (None, '{"decision": "approved"}', {"decision": "approved"}),
        (None, "fine", "fine"),
        (None, "null", None),
        (None, "false", False),
        (True, "[1]", [1]),
        ({}, "0", 0),
    ],
)
def test_a_typed_value_has_the_type_of_its_schema(schema: Any, typed: str, answer: object) -> None:
    value, typing = filled(schema, typed)
    assert (value, type(value)) == (answer, type(answer))
    assert typing.errors == []


@pytest.mark.parametrize(
    ("schema", "wrong", "right", "error"),
    [
        (NUMBER, "ten", "10", "'ten': expected a number such as 12 or 3.5"),
        (NUMBER, "true", "10", "expected a number"),
        (NUMBER, "NaN", "10", "expected a number"),
        (NUMBER, "1e999", "10", "expected a number"),
        (NUMBER, "", "10", "expected a number"),
        ({"type": "integer"}, "3.5", "3", "'3.5': expected a whole number such as 12"),
        ({"type": "integer", "minimum": 5}, "4", "5", "4 is less than the minimum of 5"),
        ({"type": "boolean"}, "perhaps", "y", "'perhaps': expected y (yes) or n (no)"),
        ({"enum": ["a", "b"]}, "3", "a", "'3': expected a number from 1 to 2, or one of them: a, b"),
        ({"enum": ["ab", "ac"]}, "a", "ab", "expected a number from 1 to 2"),
        ({"enum": [3, 1]}, "2", "1", "'2': expected one of them: 3, 1"),
        ({"type": "string", "minLength": 2}, "x", "xy", '"x" is shorter than 2 characters'),
        ({"type": "string", "format": "date"}, "soon", "2026-11-15", '"soon" is not in the format "date"'),
        ({"type": "string", "pattern": "^[A-Z]+$"}, "ab", "AB", "does not match"),
        (None, "", "x", "nothing was typed"),
        (None, "{a", "x", "is not JSON"),
        (TEXT, "\udcff", "x", "is not UTF-8 text"),
        (None, "\udcff", "x", "is not UTF-8 text"),
    ],
)
def test_an_invalid_value_is_explained_and_asked_for_again(
    schema: Any, wrong: str, right: str, error: str
) -> None:
    _, typing = filled(schema, wrong, right)
    assert len(typing.errors) == 1
    assert error in typing.errors[0]
    assert typing.asked[0] == typing.asked[1]


INVOICE = an_object(
    ["amount", "decision"],
    amount={"type": "number", "minimum": 0, "description": "What the invoice says."},
    decision={"enum": ["approved", "rejected"]},
    note={"type": "string"},
    urgent={"type": "boolean", "default": False},
)


def test_an_object_is_asked_for_field_by_field() -> None:
    answer, typing = filled(INVOICE, "-1", "12.5", "1", "", "")
    assert answer == {"amount": 12.5, "decision": "approved", "urgent": False}
    assert typing.asked == [
        "amount (number, at least 0)",
        "amount (number, at least 0)",
        "decision (one of these)",
        "note (text, optional)",
        "urgent (yes or no, - leaves it out) [false]",
    ]
    assert typing.printed == [
        "# What the invoice says.",
        "! amount=-1: -1 is less than the minimum of 0",
        "  1) approved",
        "  2) rejected",
    ]


def test_an_optional_field_with_a_default_can_be_left_out() -> None:
    assert filled(INVOICE, "1", "2", "why", "-")[0] == {"amount": 1, "decision": "rejected", "note": "why"}


def test_a_nested_object_is_asked_for_below_its_name() -> None:
    schema = an_object(
        ["buyer"], buyer=an_object(["name"], name=TEXT, age=NUMBER), seller=an_object(name=TEXT)
    )
    answer, typing = filled(schema, "Ada", "", "n")
    assert answer == {"buyer": {"name": "Ada"}}
    assert typing.asked == [
        "buyer.name (text)",
        "buyer.age (number, optional)",
        "Give seller (object, optional)? [y/N]",
    ]
    assert filled(schema, "Ada", "36", "y", "Grace")[0] == {
        "buyer": {"name": "Ada", "age": 36},
        "seller": {"name": "Grace"},
    }


def test_a_list_is_asked_for_item_by_item_within_its_limits() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}
    assert filled(schema, "1", "n")[0] == [1]
    answer, typing = filled(an_object(["sizes"], sizes=schema), "1", "y", "two", "2", "y", "3")
    assert answer == {"sizes": [1, 2, 3]}
    assert typing.asked == [
        "sizes.0 (whole number)",
        "sizes: add an item (whole number)? [y/N]",
        "sizes.1 (whole number)",
        "sizes.1 (whole number)",
        "sizes: add an item (whole number)? [y/N]",
        "sizes.2 (whole number)",
    ]


def test_an_invalid_list_is_edited_item_by_item() -> None:
    schema = {"type": "array", "items": TEXT, "uniqueItems": True}
    answer, typing = filled(schema, "y", "a", "y", "a", "n", "", "-", "n")
    assert answer == ["a"]
    assert '["a", "a"] has the same item twice' in typing.errors[0]


def test_a_list_of_objects_may_be_empty() -> None:
    schema = {"type": "array", "items": an_object(["price"], price=NUMBER)}
    assert filled(schema, "n")[0] == []
    assert filled(schema, "y", "3", "y", "4", "")[0] == [{"price": 3}, {"price": 4}]


def test_an_object_with_free_names_is_asked_for_entry_by_entry() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1}
    answer, typing = filled(schema, "", "a", "x", "1", "b", "2", "a", "5", "")
    assert answer == {"a": 5, "b": 2}
    assert ["at least 1 properties" in typing.errors[0], "whole number" in typing.errors[1]] == [
        True,
        True,
    ]


def test_one_of_several_alternatives_is_chosen() -> None:
    card = an_object(["number"], number=TEXT) | {"title": "by card"}
    schema = an_object(["pay"], pay={"anyOf": [card, {"type": "string", "title": "in words"}]})
    assert filled(schema, "1", "4711")[0] == {"pay": {"number": "4711"}}
    answer, typing = filled(schema, "in words", "cash")
    assert answer == {"pay": "cash"}
    assert typing.printed == ["  1) by card", "  2) in words"]


def test_rules_across_fields_are_checked_with_the_whole_answer() -> None:
    schema = an_object(["decision"], decision={"enum": ["approved", "rejected"]}, note=TEXT) | {
        "if": {"properties": {"decision": {"const": "rejected"}}},
        "then": {"required": ["note"]},
    }
    answer, typing = filled(schema, "2", "", "", "too dear")
    assert answer == {"decision": "rejected", "note": "too dear"}
    assert typing.errors == ["! note: this is missing"]
    assert typing.asked[2] == 'decision (one of these) ["rejected"]'


def test_a_previous_answer_is_edited() -> None:
    schema = an_object(
        ["lines"],
        lines={"type": "array", "items": an_object(price=NUMBER)},
        note=TEXT,
        buyer=an_object(a=TEXT),
    )
    current = {"lines": [{"price": 1}, {"price": 2}, {"price": 3}], "note": "n", "buyer": {}, "extra": True}
    keys = ("change", "keep", "change", "20", "leave out", "n", "-", "leave out")
    assert filled(schema, *keys, current=current)[0] == {
        "lines": [{"price": 1}, {"price": 20}],
        "extra": True,
    }
    assert filled(schema, "", "", "", current=current)[0] == current


class Line(BaseModel):
    price: Decimal = Field(description="In euros.")
    currency: Literal["EUR", "USD"] = "EUR"


class Verdict(BaseModel):
    line: Line
    approver: str | None
    others: list[Line] = []
    note: str | None = Field(None, max_length=3)


def test_a_pydantic_model_is_a_form() -> None:
    answer, typing = filled(Verdict.model_json_schema(), "12.50", "", "", "change", "n", "long", "ok")
    assert answer == {
        "line": {"price": 12.5, "currency": "EUR"},
        "approver": None,
        "others": [],
        "note": "ok",
    }
    assert Verdict.model_validate(answer).line.price == Decimal("12.5")
    assert "# In euros." in typing.printed
    assert len(typing.errors) == 1


def test_a_recursive_schema_ends_where_the_user_stops() -> None:
    tree = {"$defs": {"t": an_object(name=TEXT, below={"$ref": "#/$defs/t"})}, "$ref": "#/$defs/t"}
    assert filled(tree, "a", "y", "b", "n")[0] == {"name": "a", "below": {"name": "b"}}
    circle = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, NUMBER]}}, "$ref": "#/$defs/a"}
    assert SchemaPart(circle).kind is PartKind.ALTERNATIVES
    only = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    assert SchemaPart(only).kind is PartKind.ANY


def test_references_to_elsewhere_are_answered_as_json_and_checked_as_a_whole() -> None:
    schema = an_object(["a", "b"], a=NUMBER, b={"$ref": "#/properties/a"}) | {"description": "Two."}
    answer, typing = filled(schema, '{"a": 1, "b": "x"}', '{"a": 1, "b": 2}')
    assert answer == {"a": 1, "b": 2}
    assert typing.printed[0] == "# Two."
    assert 'expected number, not "x"' in typing.errors[0]


def a_wait(**fields: Any) -> Any:
    return {"proposal_digest": None, "message": "?", **fields}


def test_a_proposal_is_approved_edited_or_rejected() -> None:
    proposal = {"amount": 10, "decision": "approved"}
    wait = a_wait(proposal=proposal, proposal_digest="d", schema=INVOICE)
    assert drafted(Typing("1"), wait, Draft()) == Draft(decision=Decision.APPROVED)
    edited = drafted(Typing("edit it", "11", "", "", "-"), wait, Draft())
    assert edited == Draft({"amount": 11, "decision": "approved"}, Decision.EDITED)
    assert drafted(Typing("3", "too dear"), wait, Draft()) == Draft(
        decision=Decision.REJECTED, note="too dear"
    )
    assert drafted(Typing("3", ""), wait, Draft()).note is None


def test_an_edited_proposal_can_be_edited_again() -> None:
    wait = a_wait(proposal={"a": 1}, proposal_digest="d", schema=an_object(["a"], a=NUMBER))
    earlier = Draft({"a": 7}, Decision.EDITED)
    assert drafted(Typing("2", ""), wait, earlier).payload == {"a": 7}


def test_a_proposal_without_a_schema_is_edited_by_its_shape() -> None:
    wait = a_wait(proposal={"amount": 10, "who": ["Ada"], "ok": True, "x": None}, proposal_digest="d")
    edited = drafted(Typing("2", "12", "change", "Grace", "n", "n", "[1]"), wait, Draft())
    assert edited.payload == {"amount": 12, "who": ["Grace"], "ok": False, "x": [1]}
    assert shape_of(True) == {"type": "boolean"}


def test_a_wait_that_accepts_no_answer_is_an_error() -> None:
    with pytest.raises(CommandFailed, match="accepts no answer"):
        drafted(Typing(), a_wait(schema=False), Draft())


def test_the_lines_of_a_draft() -> None:
    assert Draft({"a": "é"}, Decision.EDITED, "n").lines() == [
        "decision: edited",
        "{",
        '  "a": "é"',
        "}",
        "note: n",
    ]
    assert Draft(None).lines() == ["null"]


def test_a_question_with_a_default_takes_enter() -> None:
    typing = Typing("what", "", "n", "", "2")
    assert confirmed(typing, "Sure?", default=True) is True
    assert confirmed(typing, "Sure?", default=True) is False
    assert picked(typing, "Which?", ["a", "b"], default=1) == 1
    assert picked(typing, "Which?", ["a", "b"]) == 1
    with pytest.raises(ValueError, match="expected a number from 1 to 1"):
        index_of("", ["a"])


@pytest.mark.parametrize("text", ["{", "", "NaN", "'a'", '"\\ud800"'])
def test_invalid_json_is_explained(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not (JSON|UTF-8)"):
        parsed_json(text)


def test_text_is_parsed_as_json_if_it_is_json() -> None:
    assert [json_or_text(text) for text in ("3", "three", '"3"')] == [3, "three", "3"]
    assert value_of("  x ", SchemaPart(TEXT)) == "  x "


@pytest.mark.parametrize(
    ("locale", "words", "question"),
    [
        ("C.UTF-8", ["approve it", "edit it", "reject it"], "What do you decide?"),
        ("ja_JP.UTF-8", ["承認する", "編集する", "却下する"], "どうしますか?"),
    ],
)
def test_prompts_are_in_the_language_of_the_locale(
    monkeypatch: pytest.MonkeyPatch, locale: str, words: list[str], question: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    wait: Any = {"schema": None, "proposal": {"amount": 1}, "proposal_digest": "d"}
    typing = Typing("3", "")
    assert drafted(typing, wait, Draft()).decision is Decision.REJECTED
    assert typing.printed == [f"  {number}) {word}" for number, word in enumerate(words, start=1)]
    assert typing.asked[0] == question
