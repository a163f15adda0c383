"""The last fenced block tagged `aiflow` in the output of a CLI, found while it streams."""

import re
from typing import Final

MAX_BLOCK_CHARS: Final = 1024 * 1024
_OPENING: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})\s*aiflow\s*")


class FencedBlock:
    """Fed with the lines of standard output; memory is bounded however much comes."""

    def __init__(self) -> None:
        # The content of the last complete block.
        self.last: str | None = None
        # Set if a block was longer than the limit: it does not count.
        self.too_long = False
        self._fence: str | None = None
        self._lines: list[str] = []
        self._chars = 0

    def feed(self, line: str) -> None:
        if self._fence is None:
            self._open(line)
        elif (
            (closing := line.strip())
            and set(closing) == {self._fence[0]}
            and len(closing) >= len(self._fence)
        ):
            self._close()
        elif _OPENING.fullmatch(line.rstrip("\r\n")):
            # The one before was never closed.
            self._open(line)
        else:
            self._add(line)

    def _open(self, line: str) -> None:
        match = _OPENING.fullmatch(line.rstrip("\r\n"))
        if match is not None:
            self._fence, self._lines, self._chars = match[1], [], 0

    def _add(self, line: str) -> None:
        self._chars += len(line) + 1
        if self._chars > MAX_BLOCK_CHARS:
            self.too_long, self._fence, self._lines = True, None, []
        else:
            self._lines.append(line)

    def _close(self) -> None:
        self.last, self.too_long = "\n".join(self._lines), False
        self._fence, self._lines = None, []


def block_in(text: str) -> str | None:
    """The last block of a text."""
    block = FencedBlock()
    for line in text.split("\n"):
        block.feed(line)
    return block.last
