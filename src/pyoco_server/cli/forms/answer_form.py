"""A form on the terminal, built from the JSON Schema of an answer and checked field by field.

Enter accepts the value in brackets, or leaves out an optional field that has none. `-` removes the value of
an optional field.
"""

import json
import math
from collections.abc import Callable
from typing import Any, Final, NoReturn

from msgspec import UNSET

from pyoco_server.cli.forms.dialogue import Dialogue, confirmed, index_of, picked, show_choices, yes_or_no
from pyoco_server.cli.forms.schema_parts import Field, PartKind, SchemaPart
from pyoco_server.cli.translation import localized
from pyoco_server.errors import FieldProblem, shortened

_MAX_BRIEF_CHARACTERS: Final = 100
_LEAVE_OUT: Final = "-"


class AnswerForm:
    """Prompts for one answer, optionally starting with a previous one."""

    def __init__(self, dialogue: Dialogue, schema: Any) -> None:
        self._dialogue = dialogue
        self._whole = SchemaPart({} if schema is None else schema)
        self._prompts: dict[PartKind, Callable[[SchemaPart, str, Any], Any]] = {
            PartKind.OBJECT: self._object,
            PartKind.MAP: self._map,
            PartKind.ARRAY: self._array,
            PartKind.ALTERNATIVES: self._alternatives,
        }

    def fill(self, current: Any = UNSET) -> Any:
        """An answer that is valid under the schema."""
        part = self._whole
        if current is UNSET:
            current = part.default
        while True:
            if prompt := self._prompts.get(part.kind):
                self._describe(part)
                answer = prompt(part, "", current)
            else:
                answer = self._plain(Field(_whole(), part, required=True), _whole(), current)
            problems = part.problems(answer)
            if not problems:
                return answer
            self._print(problems)
            current = answer

    def _field(self, field: Field, label: str, current: Any) -> Any:
        """The value of a field; UNSET when it is left out."""
        if current is UNSET:
            current = field.part.default
        prompt = self._prompts.get(field.part.kind)
        if prompt is None:
            return self._plain(field, label, current)
        self._describe(field.part)
        if current is not UNSET:
            words = ["keep", "change"] if field.required else ["keep", "change", "leave out"]
            shown_words = [localized(word) for word in words]
            choice = words[picked(self._dialogue, f"{label} = {brief(current)}", shown_words, default=0)]
            if choice != "change":
                return current if choice == "keep" else UNSET
        elif (not field.required or field.part.nullable) and not confirmed(
            self._dialogue,
            localized("Give {label} ({hint}, optional)?").format(label=label, hint=field.part.hint),
            default=False,
        ):
            return None if field.required else UNSET
        return prompt(field.part, label, current)

    def _plain(self, field: Field, label: str, current: Any) -> Any:
        part = field.part
        if part.kind is PartKind.NULL:
            return None
        self._describe(part)
        if part.kind is PartKind.CHOICE:
            show_choices(self._dialogue, choice_words(part))
        question = _question(field, label, current)
        while True:
            text = self._dialogue.ask(question)
            if (value := _shortcut_value(field, text, current)) is not ...:
                return value
            try:
                value = value_of(text, part)
            except ValueError as error:
                self._dialogue.print(f"! {error}")
                continue
            problems = part.problems(value, label)
            if not problems:
                return value
            self._print(problems)

    def _object(self, part: SchemaPart, label: str, current: Any) -> Any:
        while True:
            earlier = current if isinstance(current, dict) else {}
            value = dict(earlier)
            for field in part.fields:
                given = self._field(field, _child_label(label, field.name), earlier.get(field.name, UNSET))
                if given is UNSET:
                    value.pop(field.name, None)
                else:
                    value[field.name] = given
            problems = part.problems(value, label)
            if not problems:
                return value
            self._print(problems)
            current = value

    def _map(self, part: SchemaPart, label: str, current: Any) -> Any:
        entries = part.entries
        value = dict(current) if isinstance(current, dict) else {}
        while True:
            question = localized("name of an entry (Enter: done)")
            name = self._dialogue.ask(f"{label or _whole()}: {question}").strip()
            if name:
                field = Field(name, entries, required=name not in value)
                given = self._field(field, _child_label(label, name), value.get(name, UNSET))
                if given is UNSET:
                    del value[name]
                else:
                    value[name] = given
            elif problems := part.problems(value, label):
                self._print(problems)
            else:
                return value

    def _array(self, part: SchemaPart, label: str, current: Any) -> Any:
        while True:
            value: list[Any] = []
            for index, earlier in enumerate(current if isinstance(current, list) else []):
                item = self._field(
                    Field("", part.items, required=False), _child_label(label, str(index)), earlier
                )
                if item is not UNSET:
                    value.append(item)
            while self._one_more(part, label, len(value)):
                field = Field("", part.items, required=True)
                value.append(self._field(field, _child_label(label, str(len(value))), UNSET))
            problems = part.problems(value, label)
            if not problems:
                return value
            self._print(problems)
            current = value

    def _one_more(self, part: SchemaPart, label: str, count: int) -> bool:
        if count < part.min_items:
            return True
        if part.max_items is not None and count >= part.max_items:
            return False
        question = localized("add an item ({hint})?").format(hint=part.items.hint)
        return confirmed(self._dialogue, f"{label or _whole()}: {question}", default=False)

    def _alternatives(self, part: SchemaPart, label: str, current: Any) -> Any:
        options = part.alternatives
        words = [each.title or each.hint for each in options]
        fitting = [
            index for index, each in enumerate(options) if current is not UNSET and not each.problems(current)
        ]
        chosen = picked(
            self._dialogue,
            f"{label or _whole()}: {localized('which?')}",
            words,
            default=fitting[0] if fitting else None,
        )
        kept = current if chosen in fitting else UNSET
        if prompt := self._prompts.get(options[chosen].kind):
            return prompt(options[chosen], label, kept)
        return self._plain(Field("", options[chosen], required=True), label or _whole(), kept)

    def _describe(self, part: SchemaPart) -> None:
        if part.description:
            self._dialogue.print(f"# {part.description}")

    def _print(self, problems: list[FieldProblem]) -> None:
        for problem in problems:
            self._dialogue.print(f"! {problem}")


def _whole() -> str:
    """The name of the whole answer in prompts."""
    return localized("answer")


def _question(field: Field, label: str, current: Any) -> str:
    details = [field.part.hint]
    if not field.required:
        details.append(localized("optional" if current is UNSET else "- leaves it out"))
    elif field.part.nullable:
        details.append(localized("or null"))
    return f"{label} ({', '.join(details)})" + ("" if current is UNSET else f" [{brief(current)}]")


def _shortcut_value(field: Field, text: str, current: Any) -> Any:
    """The value of Enter, `-` or null; `...` when something else was typed."""
    word = text.strip()
    if word == _LEAVE_OUT and not field.required and current is not UNSET:
        return UNSET
    if word == "null" and field.part.nullable:
        return None
    if text:
        return ...
    if current is not UNSET or not field.required:
        return current
    return None if field.part.nullable else ...


def _child_label(label: str, name: str) -> str:
    return f"{label}.{name}" if label else name


def value_of(text: str, part: SchemaPart) -> Any:
    """The typed text as a value of this part; ValueError says what is expected."""
    if part.kind is PartKind.STRING:
        return _text(text)
    text = text.strip()
    if part.kind is PartKind.CHOICE:
        return part.choices[index_of(text, choice_words(part))]
    if part.kind is PartKind.BOOLEAN:
        return yes_or_no(text)
    if part.kind is PartKind.INTEGER:
        return _whole_number(text)
    if part.kind is PartKind.NUMBER:
        return _number(text)
    return json_or_text(text)


def choice_words(part: SchemaPart) -> list[str]:
    return [each if isinstance(each, str) else shown(each) for each in part.choices]


def json_or_text(text: str) -> Any:
    """JSON if it is JSON, otherwise text; what starts like an object, a list or a string must be JSON."""
    if not text:
        raise ValueError(localized('nothing was typed; type "" for an empty text, or null'))
    try:
        value = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        if text[:1] in ("{", "[", '"'):
            raise ValueError(f"{shortened(text)} is not JSON: {error}") from None
        value = text
    return _sendable(value)


def parsed_json(text: str) -> Any:
    try:
        return _sendable(json.loads(text, parse_constant=_not_json))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{shortened(text)} is not JSON ({error}); expected a value such as "
            """'{"decision": "approved"}', true, 3 or '"a text"'"""
        ) from None


def shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def brief(value: Any) -> str:
    text = shown(value)
    return text if len(text) <= _MAX_BRIEF_CHARACTERS else f"{text[:_MAX_BRIEF_CHARACTERS]}…"


def _text(text: str) -> Any:
    """The text as typed; a quoted one is JSON, so that it can be empty or have line breaks."""
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    try:
        return _sendable(json.loads(text) if quoted else text)
    except json.JSONDecodeError:
        return _sendable(text)


def _whole_number(text: str) -> int:
    number = _number(text, "expected a whole number such as 12")
    if number != int(number):
        raise ValueError(f"{text!r}: {localized('expected a whole number such as 12')}")
    return int(number)


def _number(text: str, expected: str = "expected a number such as 12 or 3.5") -> int | float:
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"{shortened(text)}: {localized(expected)}")
    return number


def _sendable(value: Any) -> Any:
    try:
        shown(value).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{shortened(value)} is not UTF-8 text") from None
    return value


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")
