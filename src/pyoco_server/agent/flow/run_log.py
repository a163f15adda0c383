"""Writes the lines of a task: all of them to runner.log, and up to a limit to the log of the run."""

import re
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

from pyoco_server.agent.atomic_files import append_to

# What is printed by one task of one attempt; the rest is in runner.log only.
_PRINTED_BYTES: Final = 4 * 1024 * 1024
_LINE_CHARS: Final = 64 * 1024
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def shown_line(text: str) -> str:
    """One line without colours and control characters."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _CONTROLS.sub("", text)


def said_phase(line: str) -> str | None:
    """The phase that begins with this line; None if none does. A program cannot print such a line."""
    kind, _, phase = line.partition(" ")
    return phase if kind == "[PHASE]" and phase else None


class RunLog:
    """Lines of the runner start with `[PHASE]` and the like; lines of programs start with `| `."""

    def __init__(self, path: Path) -> None:
        self._file = append_to(path)
        self._printed = 0

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def say(self, kind: str, text: str) -> None:
        """A line of the runner, such as `[STEP] S01 start`."""
        self._write(f"[{kind}] {shown_line(text)}")
        self._file.flush()

    def program_line(self, text: str) -> None:
        self._write(f"| {shown_line(text[:_LINE_CHARS])}")

    def flush(self) -> None:
        self._file.flush()

    def _write(self, line: str) -> None:
        self._file.write(f"{line}\n")
        if self._printed > _PRINTED_BYTES and line.startswith("| "):
            return
        self._printed += len(line) + 1
        if self._printed > _PRINTED_BYTES and line.startswith("| "):
            line = "[RUN] further output of programs is in runner.log only"
        sys.stdout.write(f"{line}\n")
