"""Values of a user's tasks as JSON of bounded size; encoding them never fails."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct

from pyoco_server.records.nesting import is_json_nested_deeper
from pyoco_server.runs.lifecycle.compaction import cut_bytes, cut_value

# One value may take this much of a record; more is replaced by its size and beginning.
VALUE_LIMIT_BYTES = 64 * 1024
_BYTES_TYPES = frozenset({bytes, bytearray, memoryview})
_REPR_CHARS = 4096
# Deeper values are replaced too: a stored record has a limit (records/nesting.py).
_MAX_VALUE_NESTING = 200
# Which values are looked through for numbers that JSON does not have, and how many are named.
_SEARCHED_BYTES = 1024 * 1024
_MARKS = 20
_PATH_CHARS = 120
# Of a value with more places that are nested too deeply, the rest is described.
_DEEP_PLACES = 1000
_LEAVES = frozenset({type(None), bool, str, int, float}) | _BYTES_TYPES
_LISTS = (list, tuple, set, frozenset)


class JsonValue(NamedTuple):
    json: Raw
    is_cut: bool = False
    # Where something was that JSON does not have.
    not_json: Sequence[str] = ()
    # All of a value that was cut: JSON, or bytes as they are.
    whole: memoryview = memoryview(b"")
    # Why there is no `whole`: the value could not be encoded, and this is its description.
    why_cut: str | None = None


def to_json(name: str, value: Any, limit: int = VALUE_LIMIT_BYTES) -> JsonValue:
    """The value as JSON; `name` is the field of the record that it is stored in.

    One that takes more than `limit` bytes is cut.
    """
    try:
        return _bounded(name, value, limit)
    except Exception as error:  # noqa: BLE001 - the memory does not suffice, a buffer was released
        why = f"it could not be encoded: {type(error).__name__}"
        described = cut_value(msgspec.json.encode(describe(value)))
        return JsonValue(described, is_cut=True, not_json=[f"{name}: {why}"], why_cut=why)


def _bounded(name: str, value: Any, limit: int) -> JsonValue:
    if is_bytes(value):
        value = _flat(value)
        if value.nbytes * 4 // 3 > limit:
            # Without its base64, which would be another copy.
            return JsonValue(cut_bytes(value, value.nbytes), is_cut=True, whole=value)
    not_json: Sequence[str] = ()
    try:
        encoded = _encode(value)
        not_json = _non_finite(name, value, encoded)
    except Exception:  # noqa: BLE001 - a text that is no Unicode, a number that is too long, a user's property
        repair = _Repair()
        encoded = _encode(repair.repaired(name, value))
        not_json = repair.marks
    if len(encoded) <= limit and not is_json_nested_deeper(encoded, _MAX_VALUE_NESTING):
        return JsonValue(Raw(encoded), not_json=not_json)
    return JsonValue(cut_value(encoded), is_cut=True, not_json=not_json, whole=memoryview(encoded))


def is_bytes(value: Any) -> bool:
    """Whether JSON has it as base64."""
    return type(value) in _BYTES_TYPES


def _flat(value: Any) -> memoryview:
    view = memoryview(value)
    try:
        return view.cast("B")
    except (TypeError, ValueError, NotImplementedError):  # not contiguous, empty, or of another format
        return memoryview(view.tobytes())


def _non_finite(name: str, value: Any, encoded: bytes) -> list[str]:
    """Where the value has a NaN or an infinity, which JSON stores as null: `output.rows[3]: NaN`."""
    if b"null" not in encoded or len(encoded) > _SEARCHED_BYTES:
        return []
    found = list(islice(_search(name, msgspec.to_builtins(value, enc_hook=describe)), _MARKS + 1))
    return found if len(found) <= _MARKS else [*found[:_MARKS], "…"]


def _search(path: str, value: Any) -> Iterator[str]:
    """Iteratively: a value may be nested more deeply than calls can be."""
    pending = [(path, value)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{path}: {_name_of(value)}"
        elif isinstance(value, dict):
            pending += [(_shortened(f"{path}.{key}"), each) for key, each in reversed(value.items())]
        elif isinstance(value, list | tuple):
            pending += [(f"{path}[{index}]", each) for index, each in reversed(list(enumerate(value)))]


def _name_of(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _shortened(path: str) -> str:
    return escape_surrogates(_end(path))


def _end(path: str) -> str:
    return path if len(path) <= _PATH_CHARS else f"…{path[1 - _PATH_CHARS :]}"


def describe(value: Any) -> str:
    """The repr of a value that JSON cannot represent."""
    try:
        text = repr(value)
    except BaseException as error:  # noqa: BLE001 - a user's __repr__ may raise anything
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return escape_surrogates(text[:_REPR_CHARS])


_encode = msgspec.json.Encoder(enc_hook=describe).encode


class _Repair:
    """Replaces the parts of one value that cannot be encoded, and nothing else."""

    def __init__(self) -> None:
        # What was replaced: `output.file: a lone surrogate, escaped`.
        self.marks: list[str] = []
        # The ids of the lists and objects around the current part.
        self._around: set[int] = set()
        self._deep_places = 0

    def repaired(self, path: str, value: Any) -> Any:
        """The value in a form that can be encoded. Two calls for each level, and their number is limited."""
        try:
            if type(value) in _LEAVES:
                return self._leaf(path, value)
            fields = _fields(value)
            if fields is not None or isinstance(value, _LISTS):
                return self._container(path, value, fields)
            return self.repaired(path, msgspec.to_builtins(value, enc_hook=describe))
        except Exception as error:  # noqa: BLE001 - a user's property may raise anything
            self._mark(path, f"{type(error).__name__}, described")
            return describe(value)

    def _container(self, path: str, value: Any, fields: dict[Any, Any] | None) -> Any:
        if id(value) in self._around:
            self._mark(path, "contains itself")
            return f"<{type(value).__name__} that contains itself>"
        if len(self._around) >= _MAX_VALUE_NESTING or self._deep_places > _DEEP_PLACES:
            self._deep_places += 1
            self._mark(path, f"nested more than {_MAX_VALUE_NESTING} deep, described")
            return describe(value)
        self._around.add(id(value))
        try:
            if fields is None:
                items: list[Any] = []
                # No comprehension: it would be a third call for each level.
                for index, each in enumerate(value):
                    items.append(self.repaired(_end(f"{path}[{index}]"), each))
                return items
            result: dict[str, Any] = {}
            for key, each in fields.items():
                text = self._key(path, key, result)
                result[text] = self.repaired(_end(f"{path}.{text}"), each)
            return result
        finally:
            self._around.remove(id(value))

    def _leaf(self, path: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(path, value)
        if isinstance(value, int):
            return self._integer(path, value)
        if isinstance(value, float) and not math.isfinite(value):
            self._mark(path, _name_of(value))
        return _flat(value) if is_bytes(value) else value

    def _key(self, path: str, key: Any, taken: dict[str, Any]) -> str:
        try:
            text = original = key if type(key) is str else _key_text(key)
        except Exception:  # noqa: BLE001 - as for values
            text = original = hex(key) if type(key) is int else describe(key)
            self._mark(f"{path}.{text}", "a key that is no text, described")
        if not text.isascii() and (text := escape_surrogates(original)) != original:
            self._mark(f"{path}.{text}", "a lone surrogate in the key, escaped")
        if text in taken:
            same, text = text, f"{text} ({len(taken) + 1})"
            while text in taken:
                text += "'"
            self._mark(f"{path}.{text}", f"another key {same}")
        return text

    def _text(self, path: str, text: str) -> str:
        if text.isascii() or (escaped := escape_surrogates(text)) == text:
            return text
        self._mark(path, "a lone surrogate, escaped")
        return escaped

    def _integer(self, path: str, number: int) -> int | str:
        try:
            _encode(number)
        except ValueError:  # Python limits the digits
            self._mark(path, f"an integer of {number.bit_length()} bits, as hexadecimal text")
            return hex(number)
        return number

    def _mark(self, path: str, what: str) -> None:
        if len(self.marks) < _MARKS:
            self.marks.append(f"{_shortened(path)}: {_shortened(what)}")
        elif len(self.marks) == _MARKS:
            self.marks.append("…")


def _fields(value: Any) -> dict[Any, Any] | None:
    """What an object has: of a dict, a Struct or a dataclass."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Struct) and not value.__struct_config__.array_like:
        config = value.__struct_config__
        tag = {} if config.tag_field is None else {config.tag_field: config.tag}
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return tag | _set_fields(value, names)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _set_fields(value, ((each.name, each.name) for each in dataclasses.fields(value)))
    return None


def _set_fields(value: Any, names: Iterable[tuple[str, str]]) -> dict[str, Any]:
    fields = {shown: getattr(value, name, UNSET) for shown, name in names}
    return {name: each for name, each in fields.items() if each is not UNSET}


def _key_text(key: Any) -> str:
    """A key that is no text, as the encoder has it."""
    return next(iter(msgspec.json.decode(_encode({key: None}), type=dict[str, None])))


def escape_surrogates(text: str) -> str:
    """The text as valid UTF-8: a lone surrogate, as in a file name, becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def error_message(error: BaseException) -> str:
    """The text of a user's exception, whose `__str__` may raise anything too."""
    try:
        return escape_surrogates(str(error))
    except Exception as broken:  # noqa: BLE001 - see above
        return f"<its message raised {type(broken).__name__}>"
