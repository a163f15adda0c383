"""The problems of one file, collected so that its author can fix them all at once."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.runs.flow_yaml.source_map import Location

MAX_REPORTED: Final = 50  # a response must stay small

# Comparing names takes time, which a hostile file could exploit.
_MAX_COMPARED_CHARS: Final = 64
_MAX_COMPARED_NAMES: Final = 200


def problem(field: str, message: str, location: Location, value: object = None) -> FieldProblem:
    """Names in it come from the file, and may be of any length."""
    shown = None if value is None else shortened(value)
    return FieldProblem(_cut(field, 200), _cut(message, 400), shown, location.line, location.column)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class ProblemList:
    def __init__(self) -> None:
        self._problems: list[FieldProblem] = []

    def __bool__(self) -> bool:
        return bool(self._problems)

    @property
    def full(self) -> bool:
        return len(self._problems) >= MAX_REPORTED

    def add(self, field: str, message: str, location: Location, value: object = None) -> None:
        """Report it once, though aliases may lead to the same lines several times."""
        found = problem(field, message, location, value)
        if not self.full and found not in self._problems:
            self._problems.append(found)

    def raise_if_any(self) -> None:
        if self._problems:
            in_order = sorted(self._problems, key=lambda found: (found.line, found.column))
            raise InvalidRequest(problems=in_order)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to a message about an unknown name; may be empty."""
    if len(name) > _MAX_COMPARED_CHARS:
        return ""
    comparable = (other for other in known if len(other) <= _MAX_COMPARED_CHARS)
    nearest = get_close_matches(name, list(islice(comparable, _MAX_COMPARED_NAMES)), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
