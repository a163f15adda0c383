"""What became of the reruns of runs: of each run itself, and of the reruns of its reruns."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.index.index_schema import run_id_of

# Reruns of reruns are followed this far.
_MOST_GENERATIONS: Final = 20
# One statement for a generation: this thread may have to wait for the GIL at each statement.
_RERUNS: Final = (
    "SELECT r.origin, r.run_id, g.status, r.updated_at FROM json_each(?) AS asked "
    "CROSS JOIN runs r ON r.origin = asked.value JOIN groups g ON g.id = r.grp"
)


@dataclass(frozen=True, slots=True)
class Rerun:
    run_id: str
    status: RunStatus
    updated_at: float

    @property
    def completed(self) -> bool:
        return self.status is RunStatus.COMPLETED


def decisive_reruns(db: sqlite3.Connection, run_ids: Iterable[str]) -> dict[str, Rerun]:
    """Of each of these runs that was rerun: the rerun that has completed, or the one that changed last."""
    asked = set(run_ids)
    reruns = _reruns(db, asked)
    return {run_id: max(_descendants(reruns, run_id), key=_rank) for run_id in asked & reruns.keys()}


def _rank(rerun: Rerun) -> tuple[bool, float]:
    return rerun.completed, rerun.updated_at


def _reruns(db: sqlite3.Connection, run_ids: set[str]) -> Mapping[str, Sequence[Rerun]]:
    """The reruns of each of these runs and of their reruns."""
    reruns: dict[str, list[Rerun]] = defaultdict(list)
    known, generation = set(run_ids), set(run_ids)
    for _ in range(_MOST_GENERATIONS):
        rows = db.execute(_RERUNS, [json.dumps(sorted(generation))]).fetchall()
        for origin, key, status, updated_at in rows:
            reruns[origin].append(Rerun(run_id_of(key), RunStatus(status), updated_at))
        generation = {run_id_of(key) for _, key, _, _ in rows} - known
        if not generation:
            break
        known |= generation
    return reruns


def _descendants(reruns: Mapping[str, Sequence[Rerun]], run_id: str) -> Iterator[Rerun]:
    waiting, seen = [run_id], {run_id}
    while waiting:
        for rerun in reruns.get(waiting.pop(), ()):
            yield rerun
            if rerun.run_id not in seen:
                seen.add(rerun.run_id)
                waiting.append(rerun.run_id)
