"""A schedule whose clock and runs a test moves."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyoco_server.records.schedules.schedule_models import (
    DecisionOutcome,
    Overlap,
    ScheduleDecision,
    ScheduleRecord,
    ScheduleSpec,
    StartedBy,
)
from pyoco_server.schedules.schedule_decider import DecisionStep, EarlierRun
from pyoco_server.schedules.schedule_transitions import decide, without_starts

NOON = datetime(2026, 11, 17, 12, 0, tzinfo=UTC).timestamp()


def schedule(spec: ScheduleSpec | None = None, **fields: Any) -> ScheduleRecord:
    """Every 10 s, created at noon."""
    given: dict[str, Any] = {
        "schedule_id": "nightly",
        "incarnation": "i1",
        "created_at": NOON,
        "updated_at": NOON,
        "flow_name": "etl",
        "spec": ScheduleSpec(every_sec=10) if spec is None else spec,
        "cursor": NOON,
        "overlap": Overlap.SKIP,
    }
    return ScheduleRecord(**(given | fields))


@dataclass
class Simulation:
    """Decides as a gateway does; starts are stored at once, and runs are open until the test ends them."""

    record: ScheduleRecord
    earlier_runs: dict[str, EarlierRun] = field(default_factory=dict)
    # Run id to nominal time, in seconds after noon.
    started: dict[str, float] = field(default_factory=dict)

    def look(self, at: float) -> DecisionStep:
        """Decide `at` seconds after noon."""
        decided = decide(self.record, now=NOON + at, earlier_runs=self.earlier_runs)
        self.store(decided.record)
        return self.look(at) if decided.more else decided

    def store(self, record: ScheduleRecord) -> None:
        for start in record.starts:
            assert start.run_id not in self.started, "started twice"
            self.started[start.run_id] = start.scheduled_for - NOON
            self.earlier_runs[start.run_id] = EarlierRun(is_open=True, status="RUNNING")
        self.record = without_starts(record, {start.run_id for start in record.starts})

    def run_until(self, end: int, *, takes: float | None = None) -> list[DecisionStep]:
        """Look each second until `end`; each run ends after `takes` seconds."""
        looks = []
        begun: dict[str, float] = {}
        for second in range(1, end + 1):
            for run_id in self.open_runs:
                if takes is not None and second - begun[run_id] >= takes:
                    self.end(run_id)
            looks.append(self.look(second))
            for run_id in self.open_runs:
                begun.setdefault(run_id, second)
        return looks

    def end(self, run_id: str, *, failed: bool = False) -> None:
        status = "FAILED" if failed else "COMPLETED"
        self.earlier_runs[run_id] = EarlierRun(is_open=False, failed=failed, status=status)

    def end_all(self) -> None:
        for run_id in self.open_runs:
            self.end(run_id)

    @property
    def open_runs(self) -> list[str]:
        return [run_id for run_id, earlier in self.earlier_runs.items() if earlier.is_open]

    @property
    def times(self) -> list[float]:
        """The nominal times that started, in the order of their starts."""
        return list(self.started.values())

    @property
    def decisions(self) -> list[tuple[str, float, int]]:
        """The outcome, the first nominal time, and for how many."""
        return [(each.outcome.value, each.scheduled_for - NOON, each.count) for each in self.record.decisions]

    def decided_times(self, every: float = 10) -> list[float]:
        """The nominal times of an interval that the record has decisions for, each as often as decided."""
        found: list[float] = []
        for each in self.record.decisions:
            if each.by is StartedBy.SCHEDULE and each.outcome is not DecisionOutcome.BUFFERED:
                found += [each.scheduled_for - NOON + number * every for number in range(each.count)]
        return sorted(found)

    @property
    def last(self) -> ScheduleDecision:
        return self.record.decisions[-1]
