"""docs/pitfalls.md: the guards and the tests of every row exist."""

import ast
import re
from functools import cache
from typing import NamedTuple

from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")

LAST = 25
FOUND_BY_RUNNING = [2, 15, *range(17, 32)]


class Row(NamedTuple):
    number: str
    guards: list[str]
    tests: list[str]


def rows() -> list[Row]:
    cells = re.findall(r"^\| (B?\d+) \| .* \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    return [Row(number, _code_words(guards), _code_words(tests)) for number, guards, tests in cells]


def _code_words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def names_in(file: str) -> set[str]:
    """`test` and `Class::test` of a file, parsed without importing it."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    return _functions(body) | {f"{each.name}::{name}" for each in classes for name in _functions(each.body)}


def _functions(body: list[ast.stmt]) -> set[str]:
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_number_has_a_row() -> None:
    numbers = list(dict.fromkeys(row.number for row in rows()))
    assert numbers == [*map(str, range(1, LAST + 1)), *(f"B{number}" for number in FOUND_BY_RUNNING)]


def test_guards_and_tests_exist() -> None:
    missing: list[str] = []
    for row in rows():
        assert row.guards, row
        assert row.tests, row
        missing += [guard for guard in row.guards if not (ROOT / "src" / "pyoco_server" / guard).is_file()]
        for test in row.tests:
            file, _, name = test.partition("::")
            if not (ROOT / file).is_file() or name not in names_in(file):
                missing.append(test)
    assert missing == []
