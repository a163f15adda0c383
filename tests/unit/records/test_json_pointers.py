"""Equality at JSON pointers."""

from typing import Any

import pytest

from pyoco_server.records.json_pointers import matches

DATA: Any = {
    "order": {"id": 7, "lines": [{"sku": "a"}, {"sku": "b"}], "note": None, "paid": True},
    "a/b": 1,
    "m~n": 2,
    "~1": 3,
    "": 4,
    "0": 5,
    "text": "é",
}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/order/id", 7),
        ("/order/id", 7.0),
        ("/order/lines/1/sku", "b"),
        ("/order/lines/0", {"sku": "a"}),
        ("/order/lines", [{"sku": "a"}, {"sku": "b"}]),
        ("/order/note", None),
        ("/order/paid", True),
        ("/a~1b", 1),
        ("/m~0n", 2),
        ("/~01", 3),
        ("/", 4),
        ("/0", 5),
        ("", DATA),
    ],
)
def test_equal_values_match(pointer: str, value: Any) -> None:
    assert matches({pointer: value}, DATA)


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/order/id", "7"),
        ("/order/id", True),
        ("/order/paid", 1),
        ("/order/paid", "true"),
        ("/order/missing", None),
        ("/order/id/deeper", None),
        ("/order/lines/2", None),
        ("/order/lines/-", {"sku": "b"}),
        ("/order/lines/-1", {"sku": "b"}),
        ("/order/lines/01", {"sku": "b"}),
        ("/order/lines/+1", {"sku": "b"}),
        ("/order/lines/\u0661", {"sku": "b"}),
        ("/order/lines/99999999999999999999", None),
        ("/order/lines", [{"sku": "b"}, {"sku": "a"}]),
        ("/order/lines/0", {"sku": "a", "more": 1}),
        ("/text", "e\u0301"),
        ("/text/0", "é"),
        ("", None),
    ],
)
def test_other_values_do_not_match(pointer: str, value: Any) -> None:
    assert not matches({pointer: value}, DATA)


def test_true_is_not_one_inside_of_values() -> None:
    assert not matches({"/a": [1, {"b": True}]}, {"a": [1, {"b": 1}]})
    assert not matches({"/a": [0]}, {"a": [False]})
    assert matches({"/a": [1.0, {"b": True}]}, {"a": [1, {"b": True}]})


def test_all_pointers_have_to_match() -> None:
    assert matches({"/order/id": 7, "/order/paid": True}, DATA)
    assert not matches({"/order/id": 7, "/order/paid": False}, DATA)
    assert matches({}, DATA)
    assert matches({}, None)


@pytest.mark.parametrize("data", [None, 1, "text", [1], True])
def test_data_that_is_no_object_has_no_members(data: Any) -> None:
    assert not matches({"/order": 1}, data)
    assert matches({"": data}, data)
