"""Whether a file of a folder of flows is its `schedules.yaml`. Its content is read by schedule_file.py."""

import re
from pathlib import Path
from typing import Final

FILE_NAME: Final = "schedules.yaml"
# A flow may have this name as well.
_FLOW: Final = re.compile(rb"^(flow|'flow'|\"flow\")\s*:", re.MULTILINE)


def is_schedules_yaml(file: Path) -> bool:
    """Whether it is the file of schedules, and not a flow.yaml of that name; OSError if it is unreadable."""
    return file.name == FILE_NAME and _FLOW.search(file.read_bytes()) is None
