"""State of processes that are not children of the test."""

import os
import subprocess
from pathlib import Path

from pyoco_server.worker.child.template_main import EXECUTOR_NAME


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie, which only waits to be collected, does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter when it ends between open and read
        return not Path("/proc/self").exists()  # a system without /proc, or gone by now


def find_processes(*words: str) -> list[int]:
    """The processes whose command line has all the words in it."""
    return [pid for pid, command in _command_lines() if all(word in command for word in words)]


def _command_lines() -> list[tuple[int, str]]:
    if not Path("/proc/self").exists():
        listing = subprocess.run(
            ["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True
        ).stdout
        return [
            (int(pid), command)
            for pid, _, command in (line.strip().partition(" ") for line in listing.splitlines())
        ]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found.append((int(folder.name), (folder / "cmdline").read_bytes().decode(errors="replace")))
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
    return found


def descendants(pid: int) -> list[int]:
    """Processes that this one has started, and those that they have."""
    children = [int(child) for thread in _threads(pid) for child in _children(thread)]
    return [each for child in children for each in (child, *descendants(child))]


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return []


def _children(thread: Path) -> list[str]:
    try:
        return (thread / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def executors_of(pid: int) -> list[int]:
    """The executors of the workers at or below this process."""
    return [each for each in descendants(pid) if process_file(each, "comm").strip() == EXECUTOR_NAME]


def process_file(pid: int, name: str) -> str:
    """A file of the process in /proc; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
