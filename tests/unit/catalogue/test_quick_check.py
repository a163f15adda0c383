"""The quick check of params: texts, and bounds that no schema and no value exceeds."""

from typing import Any

import pytest

from pyoco_server.catalogue.quick_check import QuickCheck
from pyoco_server.json_schemas.schema_validation import value_problems


def problems(schema: dict[str, Any], params: dict[str, Any]) -> list[str]:
    return [str(each.bracketed("params")) for each in QuickCheck(schema).problems(params)]


def test_missing_and_unknown_params_are_named() -> None:
    schema = {"properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    assert problems(schema, {"b": 1}) == [
        "params.a: this is missing",
        "params.b: the flow has no such parameter",
    ]


def test_other_params_are_accepted_where_a_task_reads_them() -> None:
    assert problems({"properties": {"a": {}}}, {"b": 1}) == []


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "integer"}, "3", 'params.x: expected integer, not "3"'),
        ({"type": "boolean"}, 0, "params.x: expected boolean, not 0"),
        ({"enum": ["a", 1]}, True, 'params.x: expected one of ["a", 1], not true'),
        ({"minimum": 3}, 2, "params.x: expected minimum 3, not 2"),
        ({"exclusiveMaximum": 3}, 3.0, "params.x: expected exclusiveMaximum 3, not 3.0"),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "a",
            'params.x: expected integer or null, not "a"',
        ),
        ({"items": {"type": "string"}}, ["a", 1], "params.x[1]: expected string, not 1"),
        ({"required": ["y"]}, {}, "params.x.y: this is missing"),
        (
            {"properties": {}, "additionalProperties": False},
            {"y": 1},
            "params.x.y: this property is not expected",
        ),
        ({"minItems": 2}, [1], "params.x: expected at least 2 items"),
        ({"maxItems": 1}, [1, 2], "params.x: expected at most 1 items"),
        ({"prefixItems": [{}], "items": False}, [1, 2], "params.x[1]: no value is allowed here"),
    ],
)
def test_what_is_expected_is_said(schema: dict[str, Any], value: Any, text: str) -> None:
    assert problems({"properties": {"x": schema}}, {"x": value}) == [text]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "unheard-of"},
        {"pattern": "^(a+)+$"},
        {"format": "uuid"},
        {"$ref": "#/$defs/Missing"},
        {"$ref": "#/$defs/Itself"},
        {"anyOf": [{}, {"type": "integer"}]},
        True,
        "not a schema",
    ],
)
def test_what_it_does_not_know_is_accepted(schema: Any) -> None:
    definitions = {"Itself": {"$ref": "#/$defs/Itself"}}
    assert (
        problems({"properties": {"x": schema}, "$defs": definitions}, {"x": "aaaaaaaaaaaaaaaaaaaaaaaa!"})
        == []
    )


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"": [{"": ""}]}, "params.x.[0]."),
        ({"k.0": [{"a.b": "x"}]}, "params.x.k.0[0].a.b"),
        ({"a": [], f"a.{'9' * 5000}": "s"}, f"params.x.a.{'9' * 5000}"),
        ({"a": [{}, {"0": "s"}]}, "params.x.a[1].0"),
    ],
)
def test_both_checks_give_the_same_path_whatever_the_keys_are(value: Any, path: str) -> None:
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    lists = {"type": "object", "additionalProperties": {"type": "array", "items": numbers}}
    schema = {"properties": {"x": lists}}
    for found in (QuickCheck(schema).problems({"x": value}), value_problems({"x": value}, schema)):
        assert [each.bracketed("params").field for each in found] == [path]


def test_a_schema_that_multiplies_the_work_ends_within_the_budget() -> None:
    definitions: dict[str, Any] = {
        f"level{number}": {"anyOf": [{"$ref": f"#/$defs/level{number + 1}"}] * 2} for number in range(60)
    }
    definitions["level60"] = {"type": "integer"}
    schema = {"properties": {"x": {"$ref": "#/$defs/level0"}}, "$defs": definitions}
    assert problems(schema, {"x": "a"}) == []


def test_a_large_value_is_checked_up_to_the_budget() -> None:
    schema = {"properties": {"x": {"items": {"type": "integer"}}}}
    assert problems(schema, {"x": ["a", *range(100_000)]}) == ['params.x[0]: expected integer, not "a"']
    assert problems(schema, {"x": [*range(100_000), "a"]}) == []
