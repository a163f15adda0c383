"""The JSON Schema of each form of annotation: what it accepts, and the path of what it refuses."""

import dataclasses
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union
from uuid import UUID

import msgspec
import pydantic
import pytest
from pyoco.core.models import Flow, Task

from pyoco_server.catalogue.quick_check import QuickCheck
from pyoco_server.json_schemas.schema_validation import check_schema, problems_of, value_problems
from pyoco_server.runs.flow_yaml.flow_order import in_order, predecessors
from pyoco_server.worker.flows.flow_parameters import parameters_of


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    A = "a"
    B = 2


class Coordinates(Enum):
    HOME = (0, 0)


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1


@dataclasses.dataclass
class Parcel:
    weight: int


@dataclasses.dataclass
class Shipment:
    """msgspec takes no union of two dataclasses."""

    number: int
    content: Line | Parcel | None = None
    kind: Mixed = Mixed.A
    tags: list[str] = dataclasses.field(default_factory=list)
    place: Coordinates | None = None
    parts: "list[Shipment]" = dataclasses.field(default_factory=list)


class Delivery(TypedDict, total=False):
    shipment: Shipment
    lines: dict[str, Line | Parcel]


@dataclasses.dataclass
class Basket:
    lines: list[Line]


class Options(TypedDict, total=False):
    depth: int


class Point(NamedTuple):
    x: int
    y: int = 0


class Address(pydantic.BaseModel):
    zip: str = pydantic.Field(pattern="^[0-9]+$")


class Customer(pydantic.BaseModel):
    name: str
    addresses: list[Address] = []


class Node(msgspec.Struct):
    value: int
    next: "Node | None" = None


class Opaque:
    """A class of which nothing is known."""


def schema_of(annotation: Any) -> dict[str, Any]:
    def work(x):  # type: ignore[no-untyped-def]
        return x

    work.__annotations__["x"] = annotation
    return parameters(work)


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    flow = Flow("typed", {Task(func=function, name="work")})
    found = parameters_of(flow, in_order(flow), predecessors(flow), {})
    check_schema(found)
    return found


# The annotation, values that it accepts, and for values that it refuses the path of what is wrong.
FORMS: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "str": (str, ["", "a"], {"params.x": 1}),
    "int": (int, [0, -5, 3.0], {"params.x": "1"}),
    "int not bool": (int, [1], {"params.x": True}),
    "float": (float, [1, 1.5], {"params.x": "1.5"}),
    "bool": (bool, [True], {"params.x": 1}),
    "None": (None, [None], {"params.x": 0}),
    "list": (list, [[], [1, "a"]], {"params.x": {}}),
    "dict": (dict, [{}, {"a": 1}], {"params.x": []}),
    "list[int]": (list[int], [[], [1]], {"params.x[1]": [1, "2"]}),
    "dict[str, list[int]]": (dict[str, list[int]], [{"a": [1]}], {"params.x.a[0]": {"a": ["1"]}}),
    "tuple": (tuple[int, str], [[1, "a"]], {"params.x[1]": [1, 2]}),
    "tuple of one length": (tuple[int, str], [[1, "a"]], {"params.x": [1]}),
    "Literal": (Literal["fast", "slow"], ["slow"], {"params.x": "medium"}),
    "Literal of numbers": (Literal[1, 2], [1], {"params.x": True}),
    "Enum": (Colour, ["red"], {"params.x": "RED"}),
    "IntEnum": (Level, [2], {"params.x": 3}),
    "Optional": (Optional[int], [1, None], {"params.x": "1"}),  # noqa: UP045 - both forms are tested
    "Union": (Union[int, list[str]], [1, ["a"]], {"params.x[0]": [1]}),  # noqa: UP007
    "union of two classes": (Line | Options, [{"sku": "a"}], {"params.x": 1}),
    "dataclass": (Line, [{"sku": "a"}], {"params.x.count": {"sku": "a", "count": "1"}}),
    "dataclass without a field": (Line, [{"sku": "a"}], {"params.x.sku": {"count": 1}}),
    "nested dataclasses": (Basket, [{"lines": []}], {"params.x.lines[1].sku": {"lines": [{"sku": "a"}, {}]}}),
    "Enum of several types": (Mixed, ["a", 2], {"params.x": "2"}),
    "list of Enums of several types": (list[Mixed], [["a", 2]], {"params.x[1]": ["a", 3]}),
    "dataclass with a union of two": (
        Shipment,
        [
            {"number": 1},
            {"number": 1, "content": {"weight": 2}, "kind": 2, "place": "any", "parts": [{"number": 2}]},
            {"number": 1, "content": None},
        ],
        {"params.x.content": {"number": 1, "content": 3}, "params.x.number": {"tags": []}},
    ),
    "TypedDict with a union of two": (
        Delivery,
        [{}, {"shipment": {"number": 1}, "lines": {"a": {"sku": "b"}}}],
        {"params.x.lines.a": {"lines": {"a": 1}}, "params.x.shipment.number": {"shipment": {}}},
    ),
    "TypedDict": (Options, [{}, {"depth": 1}], {"params.x.depth": {"depth": "1"}}),
    "NamedTuple": (Point, [[1], [1, 2]], {"params.x[1]": [1, "2"]}),
    "pydantic": (Customer, [{"name": "Ada"}], {"params.x.name": {"name": 1}}),
    "msgspec": (
        Node,
        [{"value": 1}, {"value": 1, "next": {"value": 2}}],
        {"params.x.next.value": {"value": 1, "next": {"value": "2"}}},
    ),
    "list of pydantic": (list[Customer], [[{"name": "Ada"}]], {"params.x[0].name": [{"name": None}]}),
    "msgspec.Meta": (Annotated[int, msgspec.Meta(ge=1)], [1], {"params.x": 0}),
    "pydantic.Field": (Annotated[int, pydantic.Field(lt=5)], [4], {"params.x": 5}),
    "Decimal": (Decimal, ["1.5", 1, 1.5], {"params.x": []}),
    "bytes": (bytes, ["YQ=="], {"params.x": 1}),
    "Path": (Path, ["/tmp"], {"params.x": 1}),
}
# Their formats and patterns are checked by `strict` only.
STRICT_FORMS: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "datetime": (datetime, ["2026-11-17T10:00:00Z"], {"params.x": "2026-11-17T10:00:00"}),
    "date": (date, ["2026-11-17"], {"params.x": "17.11.2026"}),
    "timedelta": (timedelta, ["PT1H"], {"params.x": 3600}),
    "UUID": (UUID, ["6f4ba4a1-1f6f-4d0c-8b4f-5a4b3ffea9d3"], {"params.x": "6f4b"}),
    "pydantic pattern": (Address, [{"zip": "1"}], {"params.x.zip": {"zip": "a"}}),
    "set": (set[int], [[1, 2]], {"params.x": [1, 1]}),
}


@pytest.mark.parametrize("form", [*FORMS, *STRICT_FORMS])
def test_values_are_checked_with_their_path(form: str) -> None:
    annotation, accepted, refused = {**FORMS, **STRICT_FORMS}[form]
    schema = schema_of(annotation)
    for value in accepted:
        assert problems_of({"x": value}, schema, at="params") == [], value
    for path, value in refused.items():
        found = [each.bracketed("params").field for each in value_problems({"x": value}, schema)]
        assert path in found, value


@pytest.mark.parametrize("form", [*FORMS, *STRICT_FORMS])
def test_the_quick_check_accepts_what_is_valid(form: str) -> None:
    annotation, accepted, _ = {**FORMS, **STRICT_FORMS}[form]
    check = QuickCheck(schema_of(annotation))
    assert [check.problems({"x": value}) for value in accepted] == [[] for _ in accepted]


@pytest.mark.parametrize("form", FORMS)
def test_the_quick_check_names_the_path_too(form: str) -> None:
    annotation, _, refused = FORMS[form]
    check = QuickCheck(schema_of(annotation))
    assert [
        [each.bracketed("params").field for each in check.problems({"x": value})]
        for value in refused.values()
    ] == [[path] for path in refused]


@pytest.mark.parametrize(
    "annotation", [Any, object, "Unknown", "list[Unknown]", Opaque, complex, 3, Coordinates, Enum]
)
def test_an_annotation_without_a_schema_is_no_constraint(annotation: Any) -> None:
    schema = schema_of(annotation)
    for value in (None, 1, "a", [1], {"a": 1}):
        assert problems_of({"x": value}, schema) == []
        assert QuickCheck(schema).problems({"x": value}) == []


def test_a_parameter_without_annotation_is_no_constraint() -> None:
    def work(x):  # type: ignore[no-untyped-def]
        return x

    assert parameters(work)["properties"] == {"x": {}}


def test_an_unknown_name_affects_only_its_own_parameter() -> None:
    def work(x: "Unknown", y: "int"):  # type: ignore[name-defined,no-untyped-def]  # noqa: F821
        return x

    assert parameters(work)["properties"] == {"x": {}, "y": {"type": "integer"}}


def test_choices_are_in_the_order_of_the_type() -> None:
    assert schema_of(Colour)["properties"]["x"]["enum"] == ["red", "blue"]
    assert schema_of(Literal["z", "a"])["properties"]["x"]["enum"] == ["z", "a"]
    assert schema_of(Mixed)["properties"]["x"] == {"title": "Mixed", "enum": ["a", 2]}


def test_the_default_none_allows_null() -> None:
    def work(x: int = None):  # type: ignore[no-untyped-def,assignment]  # noqa: RUF013
        return x

    schema = parameters(work)
    assert schema["properties"]["x"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert "required" not in schema


@pytest.mark.parametrize(
    ("default", "shown"),
    [(3, 3), (Colour.BLUE, "blue"), (Line("a"), {"sku": "a", "count": 1}), (Point(1), [1, 0])],
)
def test_defaults_are_shown_as_json(default: Any, shown: Any) -> None:
    def work(x=default):  # type: ignore[no-untyped-def]
        return x

    assert parameters(work)["properties"]["x"] == {"default": shown}


@pytest.mark.parametrize("default", [Opaque(), "x" * 5000, float])
def test_a_default_without_a_short_form_in_json_is_left_out(default: Any) -> None:
    def work(x=default):  # type: ignore[no-untyped-def]
        return x

    schema = parameters(work)
    assert schema["properties"] == {"x": {}}
    assert "required" not in schema


def test_functions_behind_decorators_partials_and_objects_are_found() -> None:
    def plain(x: "Colour", y: "int" = 1) -> None: ...

    @wraps(plain)
    def decorated(*args: Any, **kwargs: Any) -> None:
        plain(*args, **kwargs)

    class Called:
        def __call__(self, x: "Colour", y: "int" = 1) -> None: ...

    expected = parameters(plain)
    assert expected["properties"]["x"]["enum"] == ["red", "blue"]
    assert parameters(decorated) == expected
    assert parameters(Called()) == expected
    assert parameters(partial(plain, y=2))["properties"]["x"] == expected["properties"]["x"]


def test_classes_of_the_same_name_are_told_apart() -> None:
    def other() -> type:
        @dataclasses.dataclass
        class Line:
            other: bool

        return Line

    def work(x, y, z):  # type: ignore[no-untyped-def]
        return x

    work.__annotations__.update(x=Line, y=other(), z=Basket)
    schema = parameters(work)
    assert (
        problems_of({"x": {"sku": "a"}, "y": {"other": True}, "z": {"lines": [{"sku": "a"}]}}, schema) == []
    )
    assert [each.field for each in problems_of({"x": {"other": True}, "y": {}, "z": {}}, schema)] == [
        "x.sku",
        "y.other",
        "z.lines",
    ]


def test_a_model_whose_schema_cannot_be_made_is_no_constraint() -> None:
    class Broken(pydantic.BaseModel):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            raise RuntimeError("broken")

    assert schema_of(Broken)["properties"] == {"x": {}}
