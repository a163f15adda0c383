"""What the flows of an embedded worker print: heard by their run, and still printed where the program prints.

`sys.stdout` and `sys.stderr` belong to the whole program. A run has them only while somebody waits for it:
one that is abandoned gives them back at once, and is heard no more, although its thread may go on printing.
"""

import sys
import threading
from typing import TextIO, cast

from pyoco_server.worker.child.task_output import OutputStream, TaskOutput
from pyoco_server.worker.engine.task_calls import TaskCall


class _Thread(threading.local):
    """The run whose task executes on this thread."""

    prints_for: "EmbeddedOutput | None" = None


_here = _Thread()


class EmbeddedOutput:
    """Has `sys.stdout` and `sys.stderr` heard by a TaskOutput, from entering to leaving."""

    def __init__(self, output: TaskOutput) -> None:
        self.output = output
        self.over = False

    def __enter__(self) -> None:
        self._stdout = _Echo(self, "stdout", _still_heard(sys.stdout))
        self._stderr = _Echo(self, "stderr", _still_heard(sys.stderr))
        sys.stdout, sys.stderr = cast(TextIO, self._stdout), cast(TextIO, self._stderr)

    def __exit__(self, *_: object) -> None:
        self.over = True
        # Whoever has replaced ours meanwhile keeps theirs.
        if sys.stdout is self._stdout:
            sys.stdout = _still_heard(sys.stdout)
        if sys.stderr is self._stderr:
            sys.stderr = _still_heard(sys.stderr)

    def began(self, call: TaskCall) -> None:
        _here.prints_for = self

    def ended(self, call: TaskCall) -> None:
        _here.prints_for = None

    def hears_this_thread(self) -> bool:
        """Not those of other runs: the thread of an abandoned one prints to whatever stdout is now."""
        return not self.over and _here.prints_for in (None, self)


class _Echo(OutputStream):
    """Heard by the run, and still printed where this program prints."""

    def __init__(self, run: EmbeddedOutput, name: str, original: TextIO) -> None:
        super().__init__(run.output, name)
        self.run = run
        self.original = original

    def write(self, text: str) -> int:
        self.original.write(text)
        return super().write(text) if self.run.hears_this_thread() else len(text)

    def flush(self) -> None:
        self.original.flush()


def _still_heard(stream: object) -> TextIO:
    """The stream, or what is below it if it was made for a run that is over."""
    while isinstance(stream, _Echo) and stream.run.over:
        stream = stream.original
    return cast(TextIO, stream)
