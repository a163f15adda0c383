"""State of processes that are not children of the test."""

import os
import subprocess
from pathlib import Path


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
    threads = Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    return [each for child in children for each in (child, *descendants(child))]
