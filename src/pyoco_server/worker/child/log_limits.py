"""The limits of what is kept of a run's output: how long a line may be, and how much all lines together."""

from collections.abc import Callable

from pyoco_server.records.models import LogLine

# Counted as well: lines without a text are not for nothing.
_LINE_END = 1


class UnfinishedLine:
    """The beginning of a line whose end has not been printed yet.

    Of a progress bar, which goes back to the beginning of its line, it is what a terminal would show.
    """

    __slots__ = ("_dropped", "_gone_back", "_text", "from_descriptor")

    def __init__(self) -> None:
        self.from_descriptor = False
        self._text = ""
        self._dropped = 0
        self._gone_back = False

    def add(self, text: str, limit: int) -> None:
        # The text stays until something is printed over it: a "\r" may also be the first half of a line end.
        visible = text.rstrip("\r")
        if visible:
            _, back, rest = visible.rpartition("\r")
            if back or self._gone_back:
                self._text, self._dropped = "", 0
            kept = rest[: limit - len(self._text)]
            self._text += kept
            self._dropped += len(rest) - len(kept)
            self._gone_back = False
        self._gone_back |= len(visible) < len(text)

    def line(self) -> str:
        return f"{self._text} ... ({self._dropped} more characters)" if self._dropped else self._text


class RunLogLimit:
    """Counts what one run after another prints, and drops what is too much."""

    def __init__(self, run_limit: int) -> None:
        self._run_limit = run_limit
        self.begin_run()

    def begin_run(self) -> None:
        self._bytes_left = self._run_limit
        self.dropped_lines = 0

    def count(self, lines: list[LogLine]) -> None:
        for line in lines:
            self._bytes_left -= len(line.text) + _LINE_END

    def bounded(self, lines: list[LogLine], note: Callable[[str], LogLine]) -> list[LogLine]:
        """Those of the lines that the run may still print."""
        kept: list[LogLine] = []
        for line in lines:
            if self._bytes_left > 0:
                self._bytes_left -= len(line.text) + _LINE_END
                kept.append(line)
            else:
                self.dropped_lines += 1
                if self.dropped_lines == 1:
                    kept.append(note(f"more than {self.setting} was printed; the rest is dropped"))
        return kept

    @property
    def setting(self) -> str:
        return f"PYOCO_RUN_LOG_RUN_MAX_BYTES={self._run_limit}"
