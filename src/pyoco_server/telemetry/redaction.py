"""Removes the values of a run's params from a text before it is logged.

A text of at least four characters, or a number of at least six, is redacted anywhere. A shorter value is
redacted as a whole word only: `12` must not change `312`. true, false, null and the keys of mappings are not
secrets. Of very large params the longest thousand values are redacted, which bounds the work.
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

MAX_VALUES: Final = 1_000

_MIN_TEXT: Final = 4
_MIN_NUMBER: Final = 6  # the line numbers of a traceback are shorter

# Frames and source lines are indented, also within the margin of an exception group.
_MESSAGE_LINE: Final = re.compile(r"^(?: *\| )?\S.*", re.MULTILINE)


def redact(text: str, secrets: Iterable[object]) -> str:
    """The text without the values in `secrets`: a mapping, a text, or several of them."""
    anywhere, words = _written(secrets)
    return _hider(text, anywhere, words)(text)


def redact_exception(message: str, trace: str, secrets: Iterable[object]) -> tuple[str, str]:
    """A redacted message and traceback. Short values stay in the frames of the traceback, as in `line 12`."""
    anywhere, words = _written(secrets)
    hide = _hider(message, anywhere, words)
    hide_anywhere, hide_words = _hider(trace, anywhere), _hider(trace, (), words)
    found, around = _split_at_message(message, trace)
    rest = [_MESSAGE_LINE.sub(lambda line: hide_words(line[0]), hide_anywhere(part)) for part in around]
    return hide(message), hide(found).join(rest)


def _split_at_message(message: str, trace: str) -> tuple[str, list[str]]:
    """The message as the traceback has it, and the parts around it.

    `task load: ValueError: bad` has a prefix that the traceback does not have.
    """
    words = message.split(": ", 2)
    for found in (": ".join(words[start:]) for start in range(len(words))):
        if found.strip():
            around = re.split(rf"(?:^|(?<=: )){re.escape(found)}$", trace, flags=re.MULTILINE)
            if len(around) > 1:
                return found, around
    return "", [trace]


def _hider(text: str, anywhere: Iterable[str], words: Iterable[str] = ()) -> Callable[[str], str]:
    """A function that redacts the values in this text or a part of it."""
    branches = {form: _word(form) for form in words if form in text}
    branches |= {form: re.escape(form) for form in anywhere if form in text}
    if not branches:
        return str
    longest_first = sorted(branches, key=len, reverse=True)
    return partial(re.compile("|".join(branches[form] for form in longest_first)).sub, REDACTED)


def _word(form: str) -> str:
    # The lookbehind comes last: alternatives that start with a letter are matched faster.
    escaped = re.escape(form)
    return rf"{escaped}(?<!\w{escaped})(?!\w)"


def _written(secrets: Iterable[object]) -> tuple[set[str], set[str]]:
    """The written forms of the values: those to redact anywhere, and those to redact as words."""
    # A mapping or a string is one value, although it is iterable.
    roots: list[object] = [secrets] if isinstance(secrets, (str, Mapping)) else list(secrets)
    anywhere, words = set[str](), set[str]()
    for form, is_number in nlargest(MAX_VALUES, set(_values_in(roots)), key=lambda found: len(found[0])):
        if is_number:
            (anywhere if len(form) >= _MIN_NUMBER else words).add(form)
        else:
            (anywhere if len(form) >= _MIN_TEXT else words).update(_quoted_forms(form))
    return anywhere, words


def _values_in(roots: list[object]) -> Iterator[tuple[str, bool]]:
    """Every text and number below the roots as written, and whether it is a number."""
    pending, seen = list(roots), set[int]()
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            if value:
                yield value, False
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from ((form, True) for form in _number_forms(value))
        elif isinstance(value, (Mapping, list, tuple, set, frozenset)) and id(value) not in seen:
            seen.add(id(value))  # a structure may contain itself
            pending.extend(value.values() if isinstance(value, Mapping) else value)


def _quoted_forms(value: str) -> set[str]:
    """The value itself, and its forms in a repr or JSON text."""
    quoted = (repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False))
    return {value, *(form[1:-1] for form in quoted)}


def _number_forms(value: int | float) -> set[str]:
    try:
        if isinstance(value, int):
            return {str(int(value))}
        return {repr(value), str(int(value))} if value.is_integer() else {repr(value)}
    except ValueError:
        return set()  # more digits than Python converts
