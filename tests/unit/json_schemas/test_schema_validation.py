"""Validation of schemas and values, error messages, and no remote references."""

import re
import socket
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pyoco_server.json_schemas import schema_validation
from pyoco_server.json_schemas.schema_check_messages import SchemaCheck, SchemaCheckResult
from pyoco_server.json_schemas.schema_validation import check_schema, problems_of, run_check

INVOICE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "minimum": 0},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "due": {"type": "string", "format": "date-time"},
    },
    "required": ["amount", "due"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}},
}
DUE = "2026-11-15T12:00:00Z"


def messages_of(value: Any, schema: dict[str, Any] | bool, at: str = "") -> dict[str, str]:
    return {problem.field: problem.message for problem in problems_of(value, schema, at=at)}


@pytest.mark.parametrize(
    "schema", [True, {}, INVOICE, {"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}]
)
def test_a_schema_is_accepted(schema: dict[str, Any] | bool) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "strin"}, "type is not JSON Schema"),
        ({"properties": {"a": {"minimum": "1"}}}, "properties.a.minimum is not JSON Schema"),
        ({"$ref": "https://example.com/schema.json"}, "nothing at 'https"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "'#/\\$defs/none'"),
        ({"items": {"anyOf": [{"$dynamicRef": "#gone"}]}}, "within the schema"),
        ({"pattern": "("}, "pattern is not JSON Schema"),
    ],
)
def test_an_invalid_schema_is_rejected_with_its_path(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_schema(schema)


def test_a_schema_that_is_nested_too_deeply_is_rejected() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"items": schema}
    with pytest.raises(ValueError, match="nested too deeply"):
        check_schema(schema)


def test_a_property_may_be_called_like_a_reference() -> None:
    schema = {"properties": {"$ref": {"type": "string"}}, "const": {"$ref": "https://example.com/x"}}
    check_schema(schema)
    assert messages_of({"$ref": "https://example.com/x"}, schema) == {}


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("somebody wants to connect")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    remote = {"$ref": "http://example.com/schema.json"}
    with pytest.raises(ValueError, match="nothing at"):
        check_schema(remote)
    assert "does not exist" in messages_of(1, remote, "payload")["payload"]


def test_each_field_is_named_by_its_path() -> None:
    value = {"amount": -1, "lines": [{"text": "a"}, {}, {"text": 3}], "due": "tomorrow"}
    found = messages_of(value, INVOICE, "payload")
    assert set(found) == {"payload.amount", "payload.due", "payload.lines.1.text", "payload.lines.2.text"}
    assert found["payload.lines.1.text"] == "this is missing"
    assert "minimum" in found["payload.amount"]
    assert "date-time" in found["payload.due"]
    assert set(messages_of({}, INVOICE)) == {"amount", "due"}
    more = {"amount": 1, "due": DUE, "extra": None}
    assert messages_of(more, INVOICE, "payload") == {"payload.extra": "this property is not expected"}
    assert messages_of({"amount": 1, "due": DUE}, INVOICE) == {}


@pytest.mark.parametrize(
    ("value", "schema", "field", "message"),
    [
        (True, {"type": "string"}, "payload", "expected string, not true"),
        (None, {"type": ["string", "number"]}, "payload", "expected string or number, not null"),
        ({"a": [None]}, {"enum": [True, None]}, "payload", '{"a": [null]} is not one of [true, null]'),
        (False, {"const": None}, "payload", "expected null, not false"),
        ("é", {"minLength": 2}, "payload", '"é" is shorter than 2 characters'),
        ([], {"minItems": 1}, "payload", "expected at least 1 items"),
        ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, "payload.b", "this is missing"),
        (
            {"xa": 1, "b": 1},
            {"patternProperties": {"^x": {}}, "additionalProperties": False},
            "payload.b",
            "",
        ),
        ({"a": {"b": 1}}, {"properties": {"a": {"unevaluatedProperties": False}}}, "payload.a.b", ""),
        (1, False, "payload", "the schema allows no value here"),
        ({"ab": 1}, {"propertyNames": {"maxLength": 1}}, "payload", '"ab" is longer than 1 characters'),
    ],
)
def test_a_problem_is_described_in_json(value: Any, schema: Any, field: str, message: str) -> None:
    found = problems_of(value, schema, at="payload")
    assert [problem.field for problem in found] == [field]
    assert found[0].message == (message or "this property is not expected")
    assert not re.search("True|False|None", f"{found[0].message} {found[0].value or ''}")


def test_the_nearest_alternative_is_reported() -> None:
    either = {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {"type": "integer"}}}]}
    assert set(messages_of({"a": "x"}, either, "payload")) == {"payload.a"}


@pytest.mark.parametrize(
    ("moment", "right"),
    [
        (DUE, True),
        ("2026-11-15t12:00:00.25z", True),
        ("2026-11-15T12:00:00+09:00", True),
        ("2026-02-30T12:00:00Z", False),
        ("2026-11-15 12:00:00Z", False),
        ("2026-11-15T12:00:00", False),
        ("", False),
    ],
)
def test_moments(moment: str, right: bool) -> None:
    assert (messages_of(moment, {"format": "date-time"}) == {}) is right


@pytest.mark.parametrize("value", [None, False, 0, "", {}, []])
def test_empty_values_are_values(value: Any) -> None:
    assert messages_of(value, True) == messages_of(value, {}) == {}
    assert messages_of(value, {"enum": [None, False, 0, "", {}, []]}) == {}
    assert set(messages_of(value, False, "payload")) == {"payload"}


@pytest.mark.parametrize(
    ("value", "step", "valid"),
    [
        (10**400, 0.1, True),
        (10**400 + 1, 1.5, False),
        (0.3, 0.1, True),
        (0.35, 0.1, False),
        (1e308, 5e-324, True),
        (7, 10**400, False),
        (4.0, 2, True),
        (True, 2, True),
        ("text", 2, True),
    ],
)
def test_multiples_are_exact_at_any_size(value: Any, step: float, valid: bool) -> None:
    assert (messages_of({"n": value}, {"properties": {"n": {"multipleOf": step}}}) == {}) is valid


@pytest.mark.parametrize(("value", "named"), [(float("nan"), "NaN|nan"), (float("inf"), "inf")])
def test_a_number_that_is_none_is_a_problem(value: float, named: str) -> None:
    [(field, message)] = messages_of(value, {"multipleOf": 0.1}, at="payload").items()
    assert field == "payload"
    assert re.search(f"cannot be checked against its schema: .*{named}", message)


def test_a_failing_validator_is_a_problem_of_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(schema_validation._Validator, "iter_errors", fails)
    expected = "this value cannot be checked against its schema: ZeroDivisionError: division by zero"
    assert messages_of(1, {}, at="payload") == {"payload": expected}


def test_a_failing_check_of_a_schema_is_a_problem_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Draft202012Validator, "check_schema", fails)
    result = run_check(SchemaCheck(1, {}))
    assert result.schema_error == "it cannot be used: ZeroDivisionError: division by zero"


NUMBERS = st.sampled_from([0, 1, -1, 0.1, 1e308, -1e308, 5e-324, 10**400, -(10**400), 2**63, 2**64])
LEAVES = st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "(", "#", "http://[", "\u0000"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
WORDS = st.sampled_from([*sorted(Draft202012Validator.VALIDATORS), "$id", "$defs", "$anchor"])
SCHEMAS = st.recursive(
    st.booleans() | st.dictionaries(WORDS, VALUES, max_size=2),
    lambda inner: st.dictionaries(
        WORDS, inner | st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner), max_size=3
    ),
    max_leaves=6,
)


@given(VALUES, SCHEMAS)
def test_any_schema_and_value_have_a_result(value: Any, schema: Any) -> None:
    result = run_check(SchemaCheck(value, schema))
    assert msgspec.json.decode(msgspec.json.encode(result), type=SchemaCheckResult) == result


def test_a_long_value_is_not_repeated_in_full() -> None:
    [problem] = problems_of("x" * 100_000, {"type": "integer"}, at="payload")
    assert len(problem.message) <= 300
    assert problem.value is not None
    assert len(problem.value) <= 80


def test_many_problems_are_enough() -> None:
    assert len(problems_of(["x"] * 1000, {"items": {"type": "integer"}})) == 20
