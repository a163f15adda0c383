"""A coding CLI as a process: its limits, its end, and what a killed executor leaves of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyoco_server.agent.coding_cli import cli_process
from pyoco_server.agent.coding_cli.cli_lock import take_over
from pyoco_server.agent.coding_cli.cli_process import ProcessResult, execute
from pyoco_server.agent.file_lock import FileLock
from tests.support.places import ROOT
from tests.support.processes import is_alive
from tests.support.waiting import LIMIT_SEC, eventually_sync

# Starts the CLI as an executor would, in a process that can be killed.
_HOLDER = """
import sys
from pathlib import Path
from pyoco_server.agent.file_lock import FileLock
from pyoco_server.agent.coding_cli.cli_process import execute
lock, code = sys.argv[1:]
execute([sys.executable, "-c", code], program=sys.executable, folder=Path("."), environment={},
        timeout_sec=600, on_line=print, is_cancelled=lambda: False, lock=FileLock(Path(lock)))
"""


def run(
    folder: Path, code: str, *, timeout_sec: float = LIMIT_SEC, cancel_at: str = ""
) -> tuple[ProcessResult, list[str]]:
    lines: list[str] = []
    result = execute(
        [sys.executable, "-c", code],
        program=sys.executable,
        folder=folder,
        environment={},
        timeout_sec=timeout_sec,
        on_line=lines.append,
        is_cancelled=lambda: bool(cancel_at) and cancel_at in lines,
        lock=FileLock(folder / "cli.lock"),
    )
    return result, lines


def test_both_streams_are_lines_and_only_standard_output_has_the_block(tmp_path: Path) -> None:
    code = (
        "import sys; print('out'); print('```aiflow\\nerr\\n```', file=sys.stderr)\n"
        "print('```aiflow\\n{}\\n```')"
    )
    result, lines = run(tmp_path, code)
    assert result.succeeded
    assert {"out", "err"} <= set(lines)
    assert result.block.last == "{}"


def test_line_that_never_ends_is_cut_into_pieces(tmp_path: Path) -> None:
    result, lines = run(tmp_path, "import sys; sys.stdout.write('x' * 3_000_000)")
    assert result.succeeded
    assert sum(map(len, lines)) == 3_000_000
    assert max(map(len, result.tail)) == 2000


def test_cancel_ends_the_group_and_what_has_left_it(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(
        "import os, time\nopen('child', 'w').write(str(os.getpid()))\ntime.sleep(3600)"
    )
    code = (
        "import signal, subprocess, sys, time, os\n"
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'saving\\n'), sys.exit(5)))\n"
        "subprocess.Popen([sys.executable, 'child.py'], start_new_session=True, close_fds=False)\n"
        "while not os.path.exists('child'): time.sleep(0.01)\n"
        "print('ready', flush=True)\ntime.sleep(3600)"
    )
    result, lines = run(tmp_path, code, cancel_at="ready")
    assert result.cancelled
    assert "saving" in lines
    assert not is_alive(int((tmp_path / "child").read_text()))


def test_daemon_that_keeps_nothing_of_its_cli_ends_with_it(tmp_path: Path) -> None:
    """Most languages close inherited descriptors, the lock too, in what they start."""
    code = (
        "import subprocess, sys; null = subprocess.DEVNULL\n"
        "print(subprocess.Popen(['sleep', '3600'], stdin=null, stdout=null, stderr=null,"
        " start_new_session=True, close_fds=True).pid)"
    )
    result, lines = run(tmp_path, code)
    assert result.succeeded
    eventually_sync(lambda: not is_alive(int(lines[0])), describe="the daemon has ended")


def test_endless_output_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_process, "MAX_OUTPUT_BYTES", 1_000_000)
    result, _ = run(tmp_path, "while True: print('x' * 1000)")
    assert result.printed_too_much
    assert not result.succeeded


def test_program_that_closes_its_output_is_still_waited_for(tmp_path: Path) -> None:
    code = "import os, time; os.close(1); os.close(2); time.sleep(0.3); open('end', 'w').close(); os._exit(4)"
    result, _ = run(tmp_path, code)
    assert (result.exit_code, (tmp_path / "end").exists()) == (4, True)


def test_orphan_of_a_killed_executor_is_ended_before_the_next_call(tmp_path: Path) -> None:
    lock, pid_file = tmp_path / "cli.lock", tmp_path / "pid"
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n"
        f"while True: open({str(tmp_path / 'edits')!r}, 'a').write('x'); time.sleep(0.01)"
    )
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(lock), code], cwd=ROOT)
    orphan = int(
        eventually_sync(lambda: pid_file.read_text() if pid_file.exists() else "", describe="the CLI works")
    )
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert is_alive(orphan), "nobody has ended it: it has no executor mark"
    assert not FileLock(lock).try_acquire()
    taken = FileLock(lock)
    assert orphan in take_over(taken)
    taken.release()
    size = (tmp_path / "edits").stat().st_size
    # Time in which it would have written on.
    time.sleep(0.1)
    assert (tmp_path / "edits").stat().st_size == size
    eventually_sync(lambda: not is_alive(orphan), describe="the orphan has ended")
