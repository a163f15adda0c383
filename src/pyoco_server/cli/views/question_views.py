"""What a run that waits for people asks, and the command that answers it, for every view of runs."""

from collections.abc import Iterator, Mapping
from typing import Any

from pyoco_server.cli.options.moments import local_time, until
from pyoco_server.records.models import RunStatus


def waits_for_people(run: Mapping[str, Any]) -> bool:
    return bool(run["status"] == RunStatus.WAITING_HUMAN)


def questions_of(run: Mapping[str, Any]) -> str:
    """Two lines for each open wait."""
    return "\n".join(ToldQuestions().new_in(run))


def deadline_text(deadline_at: float) -> str:
    return f"until {local_time(deadline_at)}, {until(deadline_at)}"


class ToldQuestions:
    """What was told somebody who looks on; only new questions are told."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def new_in(self, run: Mapping[str, Any]) -> Iterator[str]:
        """Two lines for each new open wait; none of a run that does not wait for people."""
        waits = (run.get("open_waits") or []) if waits_for_people(run) else []
        for wait in waits:
            if wait["wait_id"] in self._told:
                continue
            self._told.add(wait["wait_id"])
            which = run["run_id"] if len(waits) == 1 else f"--wait-id {wait['wait_id']}"
            yield f"{wait['task']} asks: {wait['message']} ({deadline_text(wait['deadline_at'])})"
            yield f"  answer with: pyoco-client resume {which}"
