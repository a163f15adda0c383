"""A supervised process keeps running when its log cannot be written."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.cli.server.supervisor import Child
from tests.support.waiting import LIMIT_SEC, eventually

# More than a pipe holds; it would block if nobody read it.
LINES = 20_000
PRINTING = f"""
import os, sys
with os.fdopen(int(sys.argv[-1]), "w") as parent:
    parent.write("{{}}\\n")
for number in range({LINES}):
    print("line", number, flush=True)
sys.stdin.read()
import time; time.sleep({LIMIT_SEC})
"""


async def test_the_output_is_read_although_its_file_is_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    events: list[str] = []
    child = Child(
        "program",
        [sys.executable, "-c", PRINTING],
        environ=os.environ,
        log_path=tmp_path / "program.log",
        on_event=events.append,
        on_line=lambda _, line: lines.append(line),
    )
    opened = Path.open

    def on_full_disk(path: Path, *arguments: Any, **options: Any) -> Any:
        return opened(Path("/dev/full") if path == tmp_path / "program.log" else path, *arguments, **options)

    monkeypatch.setattr(Path, "open", on_full_disk)
    await child.start()
    await child.ready()
    await eventually(lambda: len(lines) == LINES, describe="every line is read")
    await child.stop(LIMIT_SEC)
    assert events[0].startswith(f"The output of the program is not written to {tmp_path / 'program.log'}")
    assert len([event for event in events if "is not written" in event]) == 1
