"""Reads values of the expected types from a YAML tree, and reports the others."""

import math
from collections.abc import Iterable
from collections.abc import Mapping as AnyMapping
from typing import Any, Final, NamedTuple

import yaml

from pyoco_server.runs.flow_yaml.yaml_problems import ProblemList, did_you_mean
from pyoco_server.runs.flow_yaml.yaml_tree import DOCUMENT, Mapping, Node, Scalar, Sequence

MAX_NUMBER_CHARS: Final = 4_300  # the longest integer that the JSON reader of POST /runs takes, sign included
MAX_BASE_60_CHARS: Final = 64  # reading one takes time that grows with the square of its length

_CONSTRUCT: Final = yaml.constructor.SafeConstructor()
_KIND_NAMES: Final = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "empty",
    "timestamp": "a date",
}


class MappingEntry(NamedTuple):
    key: Scalar
    value: Node


def described(node: Node) -> str:
    """The type of the value, for messages: `a list`, `text`, `a date`."""
    match node:
        case Scalar():
            return _KIND_NAMES.get(node.kind, "a special sign of YAML")
        case Mapping():
            return "a mapping"
        case _:
            return "a list"


def child(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.kind == "null"


def may_hold_keys(node: Node | None) -> bool:
    """Whether a missing key is to be reported: that it is no mapping was reported before."""
    return node is None or is_null(node) or isinstance(node, Mapping)


class Reader:
    """Each method returns a usable value even after a problem, so that reading continues."""

    def __init__(self, problems: ProblemList) -> None:
        self.problems = problems

    def section(
        self,
        node: Node | None,
        field: str,
        allowed: Iterable[str],
        forbidden: AnyMapping[str, str] | None = None,
    ) -> dict[str, Node]:
        """A mapping with only the allowed keys."""
        found: dict[str, Node] = {}
        known = tuple(allowed)
        for name, entry in self.entries(node, field).items():
            if self.problems.full:
                break
            if forbidden and name in forbidden:
                self._at(entry.key, child(field, name), f"this key is not allowed: {forbidden[name]}")
            elif name not in known:
                hint = did_you_mean(name, known) or f"; the keys here are {', '.join(known)}"
                self._at(entry.key, child(field, name), f"this key is not known{hint}")
            else:
                found[name] = entry.value
        return found

    def entries(self, node: Node | None, field: str) -> dict[str, MappingEntry]:
        """A mapping with text keys, each there once; `<<` is replaced by what it merges."""
        if node is None or is_null(node):
            return {}
        if not isinstance(node, Mapping):
            self._at(node, field, f"must be a mapping, not {described(node)}")
            return {}
        own: dict[str, MappingEntry] = {}
        merged: dict[str, MappingEntry] = {}
        for key, value in node.pairs():
            name = self._key(key, field)
            if name is None:
                continue
            if name in own:
                first = own[name].key.line
                self._at(key, child(field, name), f"this key is there twice; the first is on line {first}")
                continue
            assert isinstance(key, Scalar)
            own[name] = MappingEntry(key, value)
            if key.kind == "merge":
                merged = self._merged(value, field)
        if merged:
            own = {**merged, **own}
        return {name: entry for name, entry in own.items() if entry.key.kind != "merge"}

    def _key(self, key: Node, field: str) -> str | None:
        if isinstance(key, Scalar):
            if key.kind in ("str", "merge"):
                return key.text
            message = f"a key must be text, not {described(key)}; put it in quotes"
            self._at(key, child(field, key.text), message)
        else:
            self._at(key, field, f"a key must be text, not {described(key)}")
        return None

    def _merged(self, value: Node, field: str) -> dict[str, MappingEntry]:
        merged: dict[str, MappingEntry] = {}
        for source in value.items if isinstance(value, Sequence) else [value]:
            if not isinstance(source, Mapping):
                self._at(source, child(field, "<<"), f"can merge mappings only, not {described(source)}")
                continue
            for name, entry in self.entries(source, field).items():
                merged.setdefault(name, entry)
        return merged

    def text(self, node: Node, field: str) -> str | None:
        if not isinstance(node, Scalar) or node.kind != "str":
            cure = "; put it in quotes" if isinstance(node, Scalar) and node.kind != "null" else ""
            self._at(node, field, f"must be text, not {described(node)}{cure}")
            return None
        if not node.text.strip():
            self._at(node, field, "must not be empty")
            return None
        return node.text

    def texts(self, node: Node | None, field: str) -> list[str]:
        """A list of texts; a missing or empty value is an empty list."""
        if node is None or is_null(node):
            return []
        if not isinstance(node, Sequence):
            self._at(node, field, f"must be a list of texts, not {described(node)}")
            return []
        found = [self.text(item, f"{field}[{index}]") for index, item in enumerate(node.items)]
        return [text for text in found if text is not None]

    def json_mapping(self, node: Node | None, field: str) -> dict[str, Any]:
        entries = self.entries(node, field)
        return {name: self.json_value(entry.value, child(field, name)) for name, entry in entries.items()}

    def json_value(self, node: Node, field: str) -> Any:
        """The value of the node, if JSON can represent it."""
        if isinstance(node, Scalar):
            return self._scalar(node, field)
        if isinstance(node, Sequence):
            return [self.json_value(item, f"{field}[{index}]") for index, item in enumerate(node.items)]
        return self.json_mapping(node, field)

    def _scalar(self, node: Scalar, field: str) -> str | int | float | bool | None:
        if node.kind == "str":
            return node.text
        if node.kind == "null":
            return None
        if node.kind == "bool" and node.text.lower() in _CONSTRUCT.bool_values:
            return _CONSTRUCT.bool_values[node.text.lower()]
        if node.kind in ("int", "float"):
            return self._number(node, field)
        self._at(node, field, f"{described(node)} cannot be a value here; put it in quotes", node.text)
        return None

    def _number(self, node: Scalar, field: str) -> int | float | None:
        limit = MAX_BASE_60_CHARS if ":" in node.text else MAX_NUMBER_CHARS
        if len(node.text) > limit:
            self._at(
                node, field, f"this number has more than {limit} characters; put it in quotes", node.text
            )
            return None
        written = yaml.ScalarNode(node.kind, node.text)
        try:
            if node.kind == "float":
                number: int | float = _CONSTRUCT.construct_yaml_float(written)
                usable = math.isfinite(number)
            else:
                number = _CONSTRUCT.construct_yaml_int(written)
                usable = len(str(number)) <= MAX_NUMBER_CHARS  # a hexadecimal one is longer as JSON has it
        except (ValueError, LookupError, ArithmeticError):
            usable = False
        if usable:
            return number
        self._at(node, field, "this number cannot be held by JSON; put it in quotes", node.text)
        return None

    def _at(self, node: Node, field: str, message: str, value: object = None) -> None:
        self.problems.add(field or DOCUMENT, message, node.location, value)
