"""The log that tasks append to: which task was executed, by which attempt, from when to when."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Execution:
    """One execution of one task or step."""

    run_id: str
    attempt: int
    # Of the executor.
    pid: int
    # As in the journal: `task|loop path|occurrence`, and for a step also `|step|occurrence`.
    key: str
    began: float
    # None when it was not executed to its end.
    ended: float | None = None
    # Whether it ended in any way; not if its executor was killed or still executes it.
    left: bool = False

    def __str__(self) -> str:
        end = "never ended" if self.ended is None else f"ended {self.ended:.3f}"
        return f"{self.key} by attempt {self.attempt}: began {self.began:.3f}, {end}"


def read_execution_log(path: Path) -> dict[str, list[Execution]]:
    """The executions of each run, in the order in which they began."""
    runs: dict[str, list[Execution]] = defaultdict(list)
    under_way: dict[tuple[str, str, str], Execution] = {}
    for line in path.read_text().splitlines():
        word, run_id, attempt, pid, key, time = line.split(" ")
        place = (run_id, pid, key)
        if word == "begin":
            under_way[place] = Execution(run_id, int(attempt), int(pid), key, float(time))
            runs[run_id].append(under_way[place])
        else:
            under_way[place].left = True
            under_way[place].ended = float(time) if word == "end" else None
    return runs
