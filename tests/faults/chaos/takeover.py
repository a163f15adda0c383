"""Workers killed at the default settings, and how soon others continue their runs.

With the short AckWait of the other scenarios, the queue redelivers a run as soon as a gateway would.
"""

from typing import Final

from tests.faults.chaos.fault_injector import Fault, FaultKind
from tests.faults.chaos.history import RunHistory
from tests.faults.chaos.scenario import Scenario, ScenarioResult
from tests.faults.chaos.stack import Size
from tests.faults.chaos.workload import Mix

# How long the slowest takeover of a hundred may take.
P99_LIMIT_SEC: Final = 4.0
# A run that starts later was at a dead worker until AckWait, 30 s: the queue is never that long here.
_LATE_START_SEC: Final = 20.0
# A request that was in progress when its gateway was killed began at most so much earlier.
_IN_REQUEST_SEC: Final = 2.0
_RUNS_PER_FAULT: Final = 60
_MOST_FAULTS: Final = 24
_MIX: Final = Mix({"noop": 3, "chain": 5, "loop": 3, "steps": 3, "branches": 2}, task_sec=0.4, cancelled=0.0)
_KINDS: Final = (FaultKind.KILL_WORKER, FaultKind.KILL_WORKER, FaultKind.KILL_GATEWAY)


def scenario(*, runs: int, cluster: bool) -> Scenario:
    """Beside workers gateways are killed: any other one hands the runs over."""
    faults = max(len(_KINDS), min(_MOST_FAULTS, runs // 800))
    return Scenario(
        kinds=[_KINDS[number % len(_KINDS)] for number in range(faults)],
        mix=_MIX,
        runs=faults * _RUNS_PER_FAULT,
        size=Size(nats=3 if cluster else 1, gateways=2, workers=3, slots=3),
        most_open=24,
        default_settings=True,
    )


def _seconds(result: ScenarioResult) -> list[float]:
    return sorted(seconds for seconds, _ in result.report.recoveries)


def _part(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def slow(result: ScenarioResult) -> list[str]:
    """The runs that were taken over too late, if there are more than one in a hundred; and late starts."""
    ordered = _seconds(result)
    late = result.report.started_after(_LATE_START_SEC)
    found = [f"started late: {run}" for run in late if not _without_job(run, result.faults)]
    if ordered and _part(ordered, 0.99) > P99_LIMIT_SEC:
        found += [
            f"{seconds:.2f} s: {run}" for seconds, run in result.report.recoveries if seconds > P99_LIMIT_SEC
        ]
    return found


def _without_job(run: RunHistory, faults: list[Fault]) -> bool:
    """Whether its gateway was killed between its two writes: the sweep publishes the job later."""
    submitted = run.writes[0].at
    return any(
        fault.kind is FaultKind.KILL_GATEWAY and abs(fault.began - submitted) < _IN_REQUEST_SEC
        for fault in faults
    )


def format_report(result: ScenarioResult) -> str:
    ordered = _seconds(result)
    figures = "no run was taken over"
    if ordered:
        p50, p99 = _part(ordered, 0.5), _part(ordered, 0.99)
        figures = f"{len(ordered)} runs, p50 {p50:.2f} s, p99 {p99:.2f} s, at most {ordered[-1]:.2f} s"
    return f"{'takeover':<21} {figures} (default AckWait, {len(result.faults)} faults)\n"
