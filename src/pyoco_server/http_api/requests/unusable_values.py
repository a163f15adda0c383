"""Finds the value of a JSON body that is valid JSON and cannot be stored: which field, and why."""

import json
import math
import sys
from typing import Any

from pyoco_server.errors import FieldProblem

_SHOWN_CHARS = 40
# The search blocks the event loop: of a larger body the error names no field.
_SEARCHED_BYTES = 64 * 1024


class _TooLarge(str):
    """The digits of a number that Python, and so a flow, cannot have."""


def unusable_value(body: bytes) -> FieldProblem | None:
    """The first such value; None if there is none, or the body is large or not JSON at all."""
    if len(body) > _SEARCHED_BYTES:
        return None
    try:
        document = json.loads(body, parse_int=_integer, parse_float=_float)
    except (ValueError, RecursionError):
        return None
    # Not recursive: the JSON may be nested deeper than Python's stack.
    rest: list[tuple[str, Any]] = [("", document)]
    while rest:
        path, value = rest.pop()
        if isinstance(value, dict):
            members = [(f"{path}.{name}" if path else name, member) for name, member in value.items()]
            rest += [each for name, member in reversed(members) for each in ((name, member), (path, name))]
        elif isinstance(value, list):
            rest += reversed([(f"{path}[{at}]", item) for at, item in enumerate(value)])
        elif problem := _problem_of(path, value):
            return problem
    return None


def _problem_of(path: str, value: Any) -> FieldProblem | None:
    if isinstance(value, _TooLarge):
        problem = "the number is out of range; send a smaller one, or a text"
        return FieldProblem(path, problem, value[:_SHOWN_CHARS])
    if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
        shown = value.encode("ascii", "backslashreplace").decode()[:_SHOWN_CHARS]
        path = path.encode("ascii", "backslashreplace").decode()
        return FieldProblem(path, "the text has half of a surrogate pair, which is not a character", shown)
    return None


def _integer(digits: str) -> int | _TooLarge:
    return _TooLarge(digits) if len(digits.lstrip("-")) > sys.get_int_max_str_digits() else 0


def _float(digits: str) -> float | _TooLarge:
    return _TooLarge(digits) if math.isinf(float(digits)) else 0.0
