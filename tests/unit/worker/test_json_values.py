"""Values that cannot be encoded as they are: only what JSON does not have is replaced, and it is named."""

import array
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.worker.engine.journal.json_values import JsonValue, to_json
from tests.support.running.flow_runs import FlowUnderTest, record

ROWS = [{"n": number, "name": f"row {number}"} for number in range(50_000)]
ESCAPED = "a lone surrogate, escaped"
BYTES = memoryview(b"abcdef")[::2]


@dataclass
class Point:
    x: Any
    y: Any = 1


class Named(Struct, tag="named", rename="camel"):
    file_name: Any
    other: int = 2


class Pair(Struct, array_like=True):
    first: str


class Kind(Enum):
    ODD = "\udcfe"


class Broken:
    def __repr__(self) -> str:
        raise KeyError("no")


class Raising(dict[str, int]):
    def items(self) -> Any:
        raise OSError("no")


def nested(depth: int, inner: Any = 1) -> Any:
    value = inner
    for _ in range(depth):
        value = [value]
    return value


def whole(value: JsonValue) -> Any:
    return json.loads(bytes(value.whole) if value.is_cut else bytes(value.json))


def run(value: Any) -> tuple[FlowUnderTest, dict[str, Any]]:
    under_test = FlowUnderTest(Flow() >> TaskWrapper(Task(func=lambda: value, name="give")))
    return under_test, record(under_test.execute(), "give")


@pytest.mark.parametrize(
    ("value", "stored", "marks"),
    [
        ("bad\udcff", "bad\\udcff", [f"output: {ESCAPED}"]),
        (["ä", {"file": "\udcff"}], ["ä", {"file": "\\udcff"}], [f"output[1].file: {ESCAPED}"]),
        ({"\udcff": 1}, {"\\udcff": 1}, ["output.\\udcff: a lone surrogate in the key, escaped"]),
        (
            {"\udcff": 1, "\\udcff": 2},
            {"\\udcff": 1, "\\udcff (2)": 2},
            [
                "output.\\udcff: a lone surrogate in the key, escaped",
                "output.\\udcff (2): another key \\udcff",
            ],
        ),
        (
            {"n": 2**20_000, "m": 10**30},
            {"n": hex(2**20_000), "m": 10**30},
            ["output.n: an integer of 20001 bits, as hexadecimal text"],
        ),
        (
            {(1, 2): None, 3: True, None: float("nan"), "x": "\udcff"},
            {"(1, 2)": None, "3": True, "None": None, "x": "\\udcff"},
            ["output.None: NaN", f"output.x: {ESCAPED}"],
        ),
        ([BYTES, {"a": BYTES}], ["YWNl", {"a": "YWNl"}], []),
        (Point("\udcff", {1}), {"x": "\\udcff", "y": [1]}, [f"output.x: {ESCAPED}"]),
        (
            (Named("\udcff"),),
            [{"type": "named", "fileName": "\\udcff", "other": 2}],
            [f"output[0].fileName: {ESCAPED}"],
        ),
        (
            [Pair("\udcff"), Kind.ODD],
            [["\\udcff"], "\\udcfe"],
            [f"output[0][0]: {ESCAPED}", f"output[1]: {ESCAPED}"],
        ),
        ({-(2**20_000): 1}, {hex(-(2**20_000)): 1}, [f"…{'0' * 119}: a key that is no text, described"]),
        (
            ["\udcff", Broken()],
            ["\\udcff", "<Broken whose repr raised KeyError>"],
            [f"output[0]: {ESCAPED}"],
        ),
        (
            ["\udcff", Raising()],
            ["\\udcff", "{}"],
            [f"output[0]: {ESCAPED}", "output[1]: OSError, described"],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_cannot_be_encoded_is_replaced(value: Any, stored: Any, marks: list[str]) -> None:
    kept = to_json("output", value)
    assert (whole(kept), kept.is_cut, kept.why_cut) == (stored, False, None)
    assert list(kept.not_json) == marks


@pytest.mark.parametrize(
    "rest", [{"file": "bad\udcff"}, {"bad\udcff": 1}, {"text": "\udcff" + "x" * 500_000}]
)
def test_the_rest_of_a_large_value_is_sent(rest: dict[str, Any]) -> None:
    under_test, kept = run({"rows": ROWS} | rest)
    sent = json.loads(b"".join(part.data for part in under_test.parts))
    assert sent.pop("rows") == ROWS
    assert str(sent).replace("\\\\", "\\") == str(rest)
    assert (kept["truncated"], len(kept["not_json"])) == (["output"], 1)
    assert kept["output"]["bytes"] > 1_000_000
    assert "output_cut" not in kept


@pytest.mark.parametrize("end", ["bad\udcff", 1])
def test_a_level_that_is_too_deep_is_described(end: Any) -> None:
    kept = to_json("output", {"rows": [1, 2], "deep": nested(1200, end), "after": 3})
    value = whole(kept)
    assert (value["rows"], value["after"], kept.is_cut) == ([1, 2], 3, False)
    assert len(kept.not_json) == 1
    assert kept.not_json[0].endswith("[0][0]: nested more than 200 deep, described")
    deep = value["deep"]
    for _ in range(199):
        (deep,) = deep
    assert isinstance(deep, str)


def test_a_value_that_contains_itself() -> None:
    value: dict[str, Any] = {"rows": ROWS[:3]}
    value["self"] = [value, Point(value["rows"])]
    kept = to_json("output", value)
    assert whole(kept) == {
        "rows": ROWS[:3],
        "self": ["<dict that contains itself>", {"x": ROWS[:3], "y": 1}],
    }
    assert kept.not_json == ["output.self[0]: contains itself"]


def test_deep_values_that_branch_take_no_time() -> None:
    value: list[Any] = []
    for _ in range(1200):
        value = [value, value]
    assert to_json("output", value).not_json[-1] == "…"


def test_bytes_that_are_not_contiguous_are_the_result() -> None:
    _, kept = run(BYTES)
    assert (kept["output"], kept["output_type"]) == ("YWNl", "bytes")
    assert "not_json" not in kept
    under_test, kept = run(memoryview(bytes(range(256)) * 1000)[::2])
    assert b"".join(part.data for part in under_test.parts) == bytes(range(0, 256, 2)) * 1000
    assert (kept["output"]["bytes"], kept["output_type"]) == (128_000, "bytes")


@pytest.mark.parametrize("make", [lambda: memoryview(b""), lambda: memoryview(array.array("d", [1.5]))])
def test_other_views_are_their_bytes(make: Callable[[], memoryview]) -> None:
    assert msgspec.json.decode(to_json("output", make()).json, type=bytes) == make().tobytes()


def test_what_cannot_be_encoded_at_all_is_marked_as_cut() -> None:
    released = memoryview(b"abc")
    released.release()
    under_test, kept = run(released)
    why = "it could not be encoded: ValueError"
    assert (kept["output_cut"], kept["truncated"], kept["not_json"]) == (why, ["output"], [f"output: {why}"])
    assert "released" in kept["output"]["preview"]
    assert "output_type" not in kept
    assert under_test.parts == []
