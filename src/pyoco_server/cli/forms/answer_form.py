"""A form in the terminal, built from the JSON Schema of an answer: asked part by part, checked at once.

Enter takes what stands in brackets, and leaves an optional field without such a value out. `-` takes an
optional field away that has one.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET

from pyoco_server.cli.forms.dialogue import Dialogue, confirmed, picked, show_choices
from pyoco_server.cli.forms.schema_parts import Field, Kind, SchemaPart
from pyoco_server.cli.forms.typed_values import brief, choice_words, value_of
from pyoco_server.errors import FieldProblem

_LEAVE_OUT: Final = "-"
_WHOLE: Final = "answer"


class AnswerForm:
    """Asks for one answer; what was answered already may be given, to be changed."""

    def __init__(self, dialogue: Dialogue, schema: Any) -> None:
        self._dialogue = dialogue
        self._whole = SchemaPart({} if schema is None else schema)
        self._ways: dict[Kind, Callable[[SchemaPart, str, Any], Any]] = {
            Kind.OBJECT: self._object,
            Kind.MAP: self._map,
            Kind.ARRAY: self._array,
            Kind.ALTERNATIVES: self._alternatives,
        }

    def fill(self, current: Any = UNSET) -> Any:
        """A whole answer that the schema takes."""
        part = self._whole
        if current is UNSET:
            current = part.default
        while True:
            if way := self._ways.get(part.kind):
                self._describe(part)
                answer = way(part, "", current)
            else:
                answer = self._plain(Field(_WHOLE, part, required=True), _WHOLE, current)
            problems = part.problems(answer)
            if not problems:
                return answer
            self._tell(problems)
            current = answer

    def _field(self, field: Field, label: str, current: Any) -> Any:
        """The value of a field; UNSET when it is left out."""
        if current is UNSET:
            current = field.part.default
        way = self._ways.get(field.part.kind)
        if way is None:
            return self._plain(field, label, current)
        self._describe(field.part)
        if current is not UNSET:
            words = ["keep", "change"] if field.required else ["keep", "change", "leave out"]
            choice = words[picked(self._dialogue, f"{label} = {brief(current)}", words, default=0)]
            if choice != "change":
                return current if choice == "keep" else UNSET
        elif (not field.required or field.part.nullable) and not confirmed(
            self._dialogue, f"Give {label} ({field.part.hint}, optional)?", default=False
        ):
            return None if field.required else UNSET
        return way(field.part, label, current)

    def _plain(self, field: Field, label: str, current: Any) -> Any:
        part = field.part
        if part.kind is Kind.NULL:
            return None
        self._describe(part)
        if part.kind is Kind.CHOICE:
            show_choices(self._dialogue, choice_words(part))
        question = _question(field, label, current)
        while True:
            text = self._dialogue.ask(question)
            if (value := _without_typing(field, text, current)) is not ...:
                return value
            try:
                value = value_of(text, part)
            except ValueError as error:
                self._dialogue.tell(f"! {error}")
                continue
            problems = part.problems(value, label)
            if not problems:
                return value
            self._tell(problems)

    def _object(self, part: SchemaPart, label: str, current: Any) -> Any:
        while True:
            earlier = current if isinstance(current, dict) else {}
            value = dict(earlier)
            for field in part.fields:
                given = self._field(field, _below(label, field.name), earlier.get(field.name, UNSET))
                if given is UNSET:
                    value.pop(field.name, None)
                else:
                    value[field.name] = given
            problems = part.problems(value, label)
            if not problems:
                return value
            self._tell(problems)
            current = value

    def _map(self, part: SchemaPart, label: str, current: Any) -> Any:
        entries = part.entries
        value = dict(current) if isinstance(current, dict) else {}
        while True:
            name = self._dialogue.ask(f"{label or _WHOLE}: the name of an entry (Enter: no more)").strip()
            if name:
                field = Field(name, entries, required=name not in value)
                given = self._field(field, _below(label, name), value.get(name, UNSET))
                if given is UNSET:
                    del value[name]
                else:
                    value[name] = given
            elif problems := part.problems(value, label):
                self._tell(problems)
            else:
                return value

    def _array(self, part: SchemaPart, label: str, current: Any) -> Any:
        while True:
            value: list[Any] = []
            for place, earlier in enumerate(current if isinstance(current, list) else []):
                item = self._field(Field("", part.items, required=False), _below(label, str(place)), earlier)
                if item is not UNSET:
                    value.append(item)
            while self._one_more(part, label, len(value)):
                field = Field("", part.items, required=True)
                value.append(self._field(field, _below(label, str(len(value))), UNSET))
            problems = part.problems(value, label)
            if not problems:
                return value
            self._tell(problems)
            current = value

    def _one_more(self, part: SchemaPart, label: str, count: int) -> bool:
        if count < part.fewest:
            return True
        if part.most is not None and count >= part.most:
            return False
        return confirmed(
            self._dialogue, f"{label or _WHOLE}: add an item ({part.items.hint})?", default=False
        )

    def _alternatives(self, part: SchemaPart, label: str, current: Any) -> Any:
        ways = part.alternatives
        words = [each.title or each.hint for each in ways]
        fitting = [
            place for place, each in enumerate(ways) if current is not UNSET and not each.problems(current)
        ]
        chosen = picked(
            self._dialogue, f"{label or _WHOLE}: which?", words, default=fitting[0] if fitting else None
        )
        kept = current if chosen in fitting else UNSET
        if way := self._ways.get(ways[chosen].kind):
            return way(ways[chosen], label, kept)
        return self._plain(Field("", ways[chosen], required=True), label or _WHOLE, kept)

    def _describe(self, part: SchemaPart) -> None:
        if part.description:
            self._dialogue.tell(f"# {part.description}")

    def _tell(self, problems: list[FieldProblem]) -> None:
        for problem in problems:
            self._dialogue.tell(f"! {problem}")


def _question(field: Field, label: str, current: Any) -> str:
    about = [field.part.hint]
    if not field.required:
        about.append("optional" if current is UNSET else f"{_LEAVE_OUT} leaves it out")
    elif field.part.nullable:
        about.append("or null")
    return f"{label} ({', '.join(about)})" + ("" if current is UNSET else f" [{brief(current)}]")


def _without_typing(field: Field, text: str, current: Any) -> Any:
    """What Enter, `-` and null stand for; `...` when a value was typed."""
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


def _below(label: str, name: str) -> str:
    return f"{label}.{name}" if label else name
