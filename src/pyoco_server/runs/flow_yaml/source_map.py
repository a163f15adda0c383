"""From a position in a text that YAML has decoded back to the line and column where it is written.

Decoding a scalar removes indentation, folds line breaks and resolves escapes; what it never does is
reorder. So the n-th visible character of the decoded text is the n-th one of the written text, and
counting visible characters finds it in every style.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple


class Place(NamedTuple):
    """A line and a column of the file, both counted from 1."""

    line: int
    column: int


START: Final = Place(1, 1)

_LINE_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_VISIBLE: Final = re.compile(r"\S")
_VISIBLE_IN_QUOTES: Final = {
    "'": re.compile(r"''|\S"),
    '"': re.compile(r"\\(?:x\w{2}|u\w{4}|U\w{8}|[\s\S])|\S"),
}
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+|#[^\r\n]*\s+)*")  # an anchor, a tag, comments after them
_BLANK_ESCAPES: Final = frozenset("tnvfrNLP_ \t\r\n\x85\u2028\u2029")


class LineMap:
    """The places of a text's characters, when its first one is at `start`."""

    def __init__(self, text: str, start: Place = START) -> None:
        self._start = start
        self._lines = [found.end() for found in _LINE_BREAK.finditer(text)]

    def place(self, index: int) -> Place:
        line = bisect_right(self._lines, index)
        if line == 0:
            return Place(self._start.line, self._start.column + index)
        return Place(self._start.line + line, index - self._lines[line - 1] + 1)


class ScalarMap:
    """The places of the characters of `text`, which is what YAML made of `raw`, written at `start`."""

    def __init__(self, *, text: str, raw: str, style: str, start: Place) -> None:
        self._lines = LineMap(raw, start)
        self._decoded = [found.start() for found in _VISIBLE.finditer(text)]
        self._written = list(_visible_characters(raw, style))

    def place(self, offset: int) -> Place:
        """The place of text[offset]; for a blank, of the next visible character."""
        if not self._written:
            return self._lines.place(0)
        # Counted from the end: `raw` may begin with an anchor, a tag or the header of a block, and has
        # nothing but a closing quote behind the text.
        remaining = len(self._decoded) - bisect_left(self._decoded, offset)
        if remaining == 0:
            return self._lines.place(self._written[-1] + 1)
        return self._lines.place(self._written[-min(remaining, len(self._written))])


def _visible_characters(raw: str, style: str) -> Iterator[int]:
    pattern = _VISIBLE_IN_QUOTES.get(style)
    if pattern is None:
        yield from (found.start() for found in _VISIBLE.finditer(raw))
        return
    properties = _PROPERTIES.match(raw)
    opening = properties.end() if properties else 0
    for found in pattern.finditer(raw, opening + 1, len(raw) - 1):
        if not _is_blank_escape(found.group()):
            yield found.start()


def _is_blank_escape(written: str) -> bool:
    if len(written) < 2 or written[0] != "\\":
        return False
    if len(written) == 2:
        return written[1] in _BLANK_ESCAPES
    return chr(int(written[2:], 16)).isspace()
