"""Maps an offset in a decoded YAML scalar to its line and column in the file.

Decoding removes indentation, folds line breaks and resolves escapes, but never reorders: the n-th visible
character of the decoded text is the n-th visible character of the source.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple


class Location(NamedTuple):
    """A line and a column of the file, both counted from 1."""

    line: int
    column: int


START: Final = Location(1, 1)

_LINE_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_VISIBLE: Final = re.compile(r"\S")
_VISIBLE_IN_QUOTES: Final = {
    "'": re.compile(r"''|\S"),
    '"': re.compile(r"\\(?:x\w{2}|u\w{4}|U\w{8}|[\s\S])|\S"),
}
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+|#[^\r\n]*\s+)*")  # an anchor, a tag, comments after them
_BLANK_ESCAPES: Final = frozenset("tnvfrNLP_ \t\r\n\x85\u2028\u2029")


class LineMap:
    """The locations of the characters of a text that begins at `start`."""

    def __init__(self, text: str, start: Location = START) -> None:
        self._start = start
        self._lines = [found.end() for found in _LINE_BREAK.finditer(text)]

    def location(self, index: int) -> Location:
        line = bisect_right(self._lines, index)
        if line == 0:
            return Location(self._start.line, self._start.column + index)
        return Location(self._start.line + line, index - self._lines[line - 1] + 1)


class ScalarMap:
    """The locations of the characters of `text`, which YAML decoded from `raw` at `start`."""

    def __init__(self, *, text: str, raw: str, style: str, start: Location) -> None:
        self._lines = LineMap(raw, start)
        self._decoded = [found.start() for found in _VISIBLE.finditer(text)]
        self._written = list(_visible_characters(raw, style))

    def location(self, offset: int) -> Location:
        """The location of text[offset]; for a blank, of the next visible character."""
        if not self._written:
            return self._lines.location(0)
        # Counted from the end: `raw` may begin with an anchor, a tag or a block header.
        remaining = len(self._decoded) - bisect_left(self._decoded, offset)
        if remaining == 0:
            return self._lines.location(self._written[-1] + 1)
        return self._lines.location(self._written[-min(remaining, len(self._written))])


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
