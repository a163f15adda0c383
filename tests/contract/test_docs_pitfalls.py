"""docs/pitfalls.md: each pitfall of what is built has its row, with a guard and a test that exist."""

import ast
import re
from functools import cache
from typing import NamedTuple

import pytest

from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")

LAST = 25
# Of the second list, what is built.
SECOND = [2, 15, *range(17, 25)]


class Row(NamedTuple):
    number: str
    guards: list[str]
    tests: list[str]


def rows() -> list[Row]:
    """Every row that begins with a number; its last two cells are the guards and the tests."""
    cells = re.findall(r"^\| (B?\d+) \| .* \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    return [Row(number, _code_words(guards), _code_words(tests)) for number, guards, tests in cells]


def _code_words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def names_in(file: str) -> set[str]:
    """`test` and `Class::test` of a file, read and not imported."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    return _functions(body) | {f"{each.name}::{name}" for each in classes for name in _functions(each.body)}


def _functions(body: list[ast.stmt]) -> set[str]:
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_pitfall_of_what_is_built_has_its_row() -> None:
    numbers = list(dict.fromkeys(row.number for row in rows()))
    assert numbers == [*map(str, range(1, LAST + 1)), *(f"B{number}" for number in SECOND)]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.number}-{row.tests[0]}")
def test_its_guard_and_its_test_exist(row: Row) -> None:
    assert row.guards
    assert row.tests
    for guard in row.guards:
        assert (ROOT / "src" / "pyoco_server" / guard).is_file(), f"no module {guard}"
    for test in row.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file(), f"no file {file}"
        assert name in names_in(file), f"no test {test}"


def test_the_page_can_be_found() -> None:
    assert "](pitfalls.md)" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
