"""Flows that write to their executor's own descriptors; some crash it at a chosen moment."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any

from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.worker.child.descriptor_output import DescriptorOutput
from pyoco_server.worker.child.printed_lines import TaskOutput


def plain(name: str, function: Any, **options: Any) -> TaskWrapper:
    return TaskWrapper(Task(func=function, name=name, **options))


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _wait() -> None:
    time.sleep(600)


def die_while_its_output_is_read(text: str) -> None:
    """The executor has the text, and dies before it can report it."""
    TaskOutput.write_unowned = _die  # type: ignore[assignment,method-assign]
    os.write(1, text.encode())
    _wait()


def die_after_its_output_was_reported(text: str) -> None:
    report = DescriptorOutput._report

    def report_and_die(self: DescriptorOutput, lines: list[LogLine]) -> None:
        report(self, lines)
        _die()

    DescriptorOutput._report = report_and_die  # type: ignore[method-assign]
    os.write(1, text.encode())
    _wait()


def die_before_anything_is_read(text: str) -> None:
    """No other thread of the executor moves between the write and its death."""
    libc = ctypes.PyDLL(None)
    sys.setswitchinterval(1000)
    data, pid = text.encode(), os.getpid()
    libc.write(1, data, len(data))
    libc.kill(pid, signal.SIGKILL)


def leave_after_writing(text: str) -> None:
    os.write(1, text.encode())
    os._exit(3)


def outlast_its_limit(text: str) -> None:
    """The worker does not answer while its output is to be read."""
    DescriptorOutput._read = _never_read  # type: ignore[method-assign]
    os.write(1, text.encode())
    _wait()


def _never_read(self: DescriptorOutput, pipe: int) -> int:
    _wait()
    return 0


def write_first(text: str) -> None:
    os.write(1, text.encode())


def write_second(text: str) -> None:
    os.write(1, text.encode())


def write_in_parts(ctx: Any) -> None:
    print("half ", end="")
    os.write(1, b"done\n")


def write_much(lines: int, width: int) -> None:
    program = f"for each in range({lines}): print(str(each).zfill({width}))"
    subprocess.run([sys.executable, "-c", program], check=True)


def leave_a_writer() -> None:
    """It writes as fast as it can, for as long as its executor lives."""
    subprocess.Popen(["yes", "still here"])


dying_while_read = Flow("dying-while-read") >> plain("die", die_while_its_output_is_read)
dying_when_reported = Flow("dying-when-reported") >> plain("die", die_after_its_output_was_reported)
dying_unread = Flow("dying-unread") >> plain("die", die_before_anything_is_read)
leaving_unread = Flow("leaving-unread") >> plain("leave", leave_after_writing)
outlasting = Flow("outlasting") >> plain("outlast", outlast_its_limit, timeout_sec=0.4)
writing_twice = Flow("writing-twice") >> plain("first", write_first) >> plain("second", write_second)
writing_in_parts = Flow("writing-in-parts") >> plain("write", write_in_parts)
writing_much = Flow("writing-much") >> plain("write", write_much)
leaving_a_writer = Flow("leaving-a-writer") >> plain("leave", leave_a_writer)
