"""Takes the values of a run's params out of a text before it is logged.

A text of four characters or more, and a number of six, is hidden wherever it stands. What is shorter is
hidden as a whole word only: `12` would otherwise take `312` apart. true, false, null and the keys of
mappings are no secrets. Of very large params the longest thousand values are looked for, so that the work
has a bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from heapq import nlargest
from typing import Final

from pyoco_server.config.setting import REDACTED

__all__ = ["redact", "redact_exception"]

MOST_VALUES: Final = 1_000

_SHORTEST_TEXT: Final = 4
_SHORTEST_NUMBER: Final = 6  # the line numbers of a traceback are shorter

# Frames and their source are indented, within the margin that the traceback of a group has.
_MESSAGE_LINE: Final = re.compile(r"^(?: *\| )?\S.*", re.MULTILINE)


def redact(text: str, secrets: Iterable[object]) -> str:
    """The text without the values that are in `secrets`: one mapping, one text, or several of anything."""
    anywhere, words = _written(secrets)
    return _hider(text, anywhere, words)(text)


def redact_exception(message: str, trace: str, secrets: Iterable[object]) -> tuple[str, str]:
    """An exception's message and its traceback, redacted so that the traceback can still be read.

    Short values are hidden in the messages of the traceback, but not in its frames: `line 12` stays.
    """
    anywhere, words = _written(secrets)
    hide = _hider(message, anywhere, words)
    hide_anywhere, hide_words = _hider(trace, anywhere), _hider(trace, (), words)
    told, around = _split_at_message(message, trace)
    rest = [_MESSAGE_LINE.sub(lambda line: hide_words(line[0]), hide_anywhere(part)) for part in around]
    return hide(message), hide(told).join(rest)


def _split_at_message(message: str, trace: str) -> tuple[str, list[str]]:
    """The message as the trace tells it, and what stands around it.

    `task load: ValueError: bad` has more before it than the trace has.
    """
    words = message.split(": ", 2)
    for told in (": ".join(words[start:]) for start in range(len(words))):
        if told.strip():
            around = re.split(rf"(?:^|(?<=: )){re.escape(told)}$", trace, flags=re.MULTILINE)
            if len(around) > 1:
                return told, around
    return "", [trace]


def _hider(text: str, anywhere: Iterable[str], words: Iterable[str] = ()) -> Callable[[str], str]:
    """A function that hides the values in this text, or in a part of it."""
    branches = {form: _word(form) for form in words if form in text}
    branches |= {form: re.escape(form) for form in anywhere if form in text}
    if not branches:
        return str
    longest_first = sorted(branches, key=len, reverse=True)
    return partial(re.compile("|".join(branches[form] for form in longest_first)).sub, REDACTED)


def _word(form: str) -> str:
    # What comes before is looked at last: Python tries alternatives faster when they begin with a letter.
    escaped = re.escape(form)
    return rf"{escaped}(?<!\w{escaped})(?!\w)"


def _written(secrets: Iterable[object]) -> tuple[set[str], set[str]]:
    """What the values look like in a text: those to hide wherever they stand, and those that are words."""
    # A mapping or a string is itself the object to hide, though it could be iterated over as well.
    roots: list[object] = [secrets] if isinstance(secrets, (str, Mapping)) else list(secrets)
    anywhere, words = set[str](), set[str]()
    for form, is_number in nlargest(MOST_VALUES, set(_values_in(roots)), key=lambda found: len(found[0])):
        if is_number:
            (anywhere if len(form) >= _SHORTEST_NUMBER else words).add(form)
        else:
            (anywhere if len(form) >= _SHORTEST_TEXT else words).update(_quoted_forms(form))
    return anywhere, words


def _values_in(roots: list[object]) -> Iterator[tuple[str, bool]]:
    """Every text and number below the roots, as it is written, and whether it is a number."""
    waiting, seen = list(roots), set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if value:
                yield value, False
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from ((form, True) for form in _number_forms(value))
        elif isinstance(value, (Mapping, list, tuple, set, frozenset)) and id(value) not in seen:
            seen.add(id(value))  # a structure may contain itself
            waiting.extend(value.values() if isinstance(value, Mapping) else value)


def _quoted_forms(value: str) -> set[str]:
    """The value as it is, and as it looks inside a repr or a JSON text."""
    quoted = (repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False))
    return {value, *(form[1:-1] for form in quoted)}


def _number_forms(value: int | float) -> set[str]:
    try:
        if isinstance(value, int):
            return {str(int(value))}
        return {repr(value), str(int(value))} if value.is_integer() else {repr(value)}
    except ValueError:
        return set()  # more digits than Python writes: no text can hold it
