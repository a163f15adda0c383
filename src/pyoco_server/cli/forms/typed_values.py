"""What somebody has typed, as the value that one part of a schema wants."""

import json
import math
from typing import Any, Final, NoReturn

from pyoco_server.cli.forms.dialogue import place_of, yes_or_no
from pyoco_server.cli.forms.schema_parts import Kind, SchemaPart
from pyoco_server.errors import shortened

_LONGEST: Final = 100


def value_of(text: str, part: SchemaPart) -> Any:
    """The value; ValueError says what was wanted. Spaces around it count in a text only."""
    if part.kind is Kind.STRING:
        return _text(text)
    text = text.strip()
    if part.kind is Kind.CHOICE:
        return part.choices[place_of(text, choice_words(part))]
    if part.kind is Kind.BOOLEAN:
        return yes_or_no(text)
    if part.kind is Kind.INTEGER:
        return _whole_number(text)
    if part.kind is Kind.NUMBER:
        return _number(text)
    return json_or_text(text)


def choice_words(part: SchemaPart) -> list[str]:
    return [each if isinstance(each, str) else shown(each) for each in part.choices]


def json_or_text(text: str) -> Any:
    """JSON where it is JSON, and a text otherwise, unless it begins like an object, a list or a quotation."""
    if not text:
        raise ValueError('nothing was typed; "" is an empty text, and null is nothing')
    try:
        value = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        if text[:1] in ("{", "[", '"'):
            raise ValueError(f"{shortened(text)} is not JSON: {error}") from None
        value = text
    return _sendable(value)


def parsed_json(text: str) -> Any:
    """JSON and nothing else."""
    try:
        return _sendable(json.loads(text, parse_constant=_not_json))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f'{shortened(text)} is not JSON ({error}); wanted a value such as \'{{"decision": "approved"}}\','
            " true, 3 or '\"a text\"'"
        ) from None


def shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def brief(value: Any) -> str:
    """The beginning of it, where it is long."""
    text = shown(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _text(text: str) -> Any:
    """As it is; in quotation marks as JSON has it, so that an empty one and a line break can be written."""
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    try:
        return _sendable(json.loads(text) if quoted else text)
    except json.JSONDecodeError:
        return _sendable(text)


def _whole_number(text: str) -> int:
    number = _number(text, "a whole number such as 12")
    if number != int(number):
        raise ValueError(f"{text!r}: wanted a whole number such as 12")
    return int(number)


def _number(text: str, wanted: str = "a number such as 12 or 3.5") -> int | float:
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"{shortened(text)}: wanted {wanted}")
    return number


def _sendable(value: Any) -> Any:
    try:
        shown(value).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{shortened(value)} is not UTF-8 text") from None
    return value


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")
