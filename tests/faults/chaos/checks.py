"""Compares what clients were answered with the history and the execution log."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.faults.chaos.clients import Ledger
from tests.faults.chaos.execution_log import Execution
from tests.faults.chaos.executions import Executions
from tests.faults.chaos.fault_injector import NATS, Fault, FaultKind
from tests.faults.chaos.history import RunHistory
from tests.faults.chaos.workload import SLEEPING, TASKS

# A killed executor may be noticed, or its last task be recorded, this much later.
_NOTICED_SEC = 2.0
# What a worker sent before it was killed may be stored this much later.
_LATE_WRITE_SEC = 0.5
_SHOWN = 5


@dataclass
class CheckReport:
    """The violations, by the broken promise, and some figures."""

    accepted: int = 0
    # Accepted, and not there any more.
    lost: list[str] = field(default_factory=list)
    # Written to after a terminal state.
    second_ends: list[str] = field(default_factory=list)
    # Without an end although there was time.
    stuck: list[str] = field(default_factory=list)
    # A finished task that was executed again, or a second run of one idempotency key.
    duplicates: list[str] = field(default_factory=list)
    # Ended in a way for which there was no cause.
    wrong_ends: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    # Of schedules: without a run and a reason, or with several.
    wrong_occurrences: list[str] = field(default_factory=list)
    unexpected_responses: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    occurrences: Counter[str] = field(default_factory=Counter)
    # From a fault until the next attempt began, each with its run.
    recoveries: list[tuple[float, RunHistory]] = field(default_factory=list)
    # New attempts of runs that no fault had hit: their worker was too slow to extend its message.
    unexplained_takeovers: list[str] = field(default_factory=list)
    # From the submission until the first attempt began, each with its run.
    starts: list[tuple[float, RunHistory]] = field(default_factory=list)
    # Tasks that were permitted to be executed again: their end was not known.
    in_flight: int = 0

    @property
    def broken(self) -> dict[str, list[str]]:
        promises = (
            "lost",
            "second_ends",
            "stuck",
            "duplicates",
            "wrong_ends",
            "leaks",
            "wrong_occurrences",
            "unexpected_responses",
        )
        return {name: found for name in promises if (found := getattr(self, name))}

    def started_after(self, seconds: float) -> list[RunHistory]:
        return [run for waited, run in self.starts if waited > seconds]

    def __str__(self) -> str:
        parts = []
        for promise, found in self.broken.items():
            shown = [f"{promise}: {len(found)}", *found[:_SHOWN]]
            parts.append("\n".join(shown + ["..."] * (len(found) > _SHOWN)))
        return "\n".join(parts)


class Checker:
    def __init__(self, ledger: Ledger, runs: Mapping[str, RunHistory], faults: Iterable[Fault]) -> None:
        self._ledger = ledger
        self._runs = runs
        self._faults = sorted(faults, key=lambda fault: fault.began)
        self.report = CheckReport(
            accepted=len(ledger.accepted), unexpected_responses=list(ledger.unexpected_responses)
        )

    def check(self, executions: Executions) -> None:
        for run_id, planned in self._ledger.accepted.items():
            run = self._runs.get(run_id)
            if run is None or run.deleted:
                self.report.lost.append(f"{run_id} ({planned.flow}): {run or 'never stored'}")
        for run in self._runs.values():
            self._check_end(run, executions.of(run.run_id))
            self._measure_recovery(run)
        self._check_keys()
        found, self.report.in_flight = executions.check(self._runs, self._faults)
        self.report.duplicates += found

    def _check_end(self, run: RunHistory, executions: list[Execution]) -> None:
        if run.deleted and run.end is None:
            return
        end = run.end
        if end is None:
            self.report.stuck.append(str(run))
            return
        if end is not run.last:
            self.report.second_ends.append(str(run))
        self.report.ends[end.reason or end.status] += 1
        problem = self._wrong(run, executions)
        if problem is not None:
            self.report.wrong_ends.append("\n    ".join([f"{problem}: {run}", *map(str, executions)]))

    def _wrong(self, run: RunHistory, executions: list[Execution]) -> str | None:
        end = run.end
        assert end is not None
        cancel_requested = any(write.cancel_requested for write in run.writes)
        if cancel_requested != (end.status == "CANCELLED"):
            return "cancelled without a request, or a recorded request was not followed"
        if run.run_id in self._ledger.cancelled and not cancel_requested:
            # The request was answered with 200, so it came after the end.
            return None if end.status != "CANCELLED" else "cancelled, but the request was not recorded"
        if end.status == "FAILED" and not (end.reason == "executor_crashed" and self._executor_killed(run)):
            return "failed without a cause"
        missing = TASKS[run.flow] - {each.key for each in executions if each.ended is not None}
        if end.status == "COMPLETED" and missing:
            return f"completed without {', '.join(sorted(missing))}"
        return None

    def _executor_killed(self, run: RunHistory) -> bool:
        end = run.end
        assert end is not None
        begun = run.claims[end.attempt].at
        return any(
            fault.kind is FaultKind.KILL_EXECUTOR
            and fault.target == end.worker
            and begun - _NOTICED_SEC < fault.began < end.at
            for fault in self._faults
        )

    def _check_keys(self) -> None:
        by_number: dict[int, list[RunHistory]] = defaultdict(list)
        for run in self._runs.values():
            if not run.deleted:
                by_number[run.number].append(run)
        for key, answered in self._ledger.by_key.items():
            number = self._ledger.accepted[next(iter(answered))].number
            stored = by_number[number]
            if len(answered) > 1 or len(stored) > 1:
                runs = "\n".join(map(str, stored))
                self.report.duplicates.append(f"key {key} was answered with {sorted(answered)}:\n{runs}")

    def _measure_recovery(self, run: RunHistory) -> None:
        """From the fault that silenced an owner until the next attempt began.

        From its end, if nothing could be stored before that.
        """
        claims = run.claims
        if run.flow in SLEEPING:
            # Between two of its attempts it slept.
            return
        if 1 in claims:
            self.report.starts.append((claims[1].at - run.writes[0].at, run))
        for attempt, claim in claims.items():
            if attempt - 1 not in claims:
                continue
            victims = (claims[attempt - 1].worker, NATS)
            silent_since = run.last_sign(attempt - 1)
            began = [
                fault.ended if fault.kind is FaultKind.FILL_DISK else fault.began
                for fault in self._faults
                if fault.target in victims
                and silent_since < fault.ended + _LATE_WRITE_SEC
                and fault.began < claim.at
            ]
            if began:
                self.report.recoveries.append((max(0.0, claim.at - began[0]), run))
            else:
                self.report.unexplained_takeovers.append(str(run))
