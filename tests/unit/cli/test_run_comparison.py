"""The compared values of two runs: a missing one is not null, and a name with a dot is not a path."""

from typing import Any

import pytest

from pyoco_server.cli.commands.runs.run_comparison import ComparedValue, compared


def params_of(a: Any, b: Any) -> list[ComparedValue]:
    runs = [{"run_id": "r", "params": params, "tasks": {}, "task_records": {}} for params in (a, b)]
    return compared(*runs)["params"]


def test_a_missing_value_is_left_out_and_null_is_not() -> None:
    [value] = params_of({"name": None}, {})
    assert value == {"name": "name", "a": None, "differs": True}


@pytest.mark.parametrize(
    ("params", "path"),
    [({"a.b": 1}, '["a.b"]'), ({"a": {"b": 1}}, "a.b"), ({"x": {"a[0]": 1}}, 'x["a[0]"]'), ({"": 1}, '[""]')],
)
def test_a_name_that_would_read_as_a_path_is_quoted(params: Any, path: str) -> None:
    [value] = params_of(params, params)
    assert value == {"name": path, "a": 1, "b": 1, "differs": False}
