"""The JSONL file of the audit: what a full disk leaves in it."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.triggers.workflow_events.event_audit_file import _Target

CREATED = "2026-11-17T00:00:00Z"


def lines(*sequences: int) -> bytes:
    return b"".join(json.dumps({"sequence": each, "text": "x" * 50}).encode() + b"\n" for each in sequences)


class FullDisk:
    """A file that takes a part of what is written, and then no more."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, content: bytes) -> int:
        self._file.write(content[: len(content) * 3 // 4])
        self._file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_after_a_full_disk_the_file_is_continued_after_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    target = _Target(path)
    assert target.open(CREATED)
    target.append(lines(1), upto=1)
    target._file = FullDisk(target._file)  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space left"):
        target.append(lines(2, 3), upto=3)

    # There is space again.
    assert target.open(CREATED)
    assert target.position == 2
    target.append(lines(3, 4), upto=4)
    target.close()
    written = [json.loads(line)["sequence"] for line in path.read_text().splitlines()]
    assert written == [1, 2, 3, 4]
