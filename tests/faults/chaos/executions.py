"""Finds tasks that were executed again although they must not be.

A finished task is journalled without waiting for the acknowledgement. Two rules follow:
- An attempt must not execute what was in the journal before it started. This is exact: both times are the
  server's.
- A finished task must be in the journal soon. It must not be executed again unless a fault hit its worker or
  NATS at that moment, or the next attempt started then.

An attempt that was replaced, or whose run has ended, starts nothing new once its worker had time to notice.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.storage.write_probes import PROBE_ID
from pyoco_server.records.runs.journal_models import JournalEntry
from tests.faults.chaos.execution_log import Execution
from tests.faults.chaos.fault_injector import NATS, Fault
from tests.faults.chaos.history import RunHistory, read_everything

# How long the record of a finished task is on its way.
_ON_ITS_WAY_SEC = 0.25
# How long after a fault its victim may still be catching up.
_CATCHING_UP_SEC = 2.0

_decode = msgspec.msgpack.Decoder(JournalEntry).decode


class Executions:
    """The execution log of a scenario, compared with its journal."""

    def __init__(self, log: dict[str, list[Execution]]) -> None:
        self._log = log
        # When each key of a run was journalled first.
        self._journalled: dict[str, dict[str, float]] = defaultdict(dict)

    def of(self, run_id: str) -> list[Execution]:
        return self._log.get(run_id, [])

    async def read_journal(self, connection: Connection) -> None:
        """All of it. Runs of this suite have small results only, each in one message."""
        config = connection.config
        subject = f"{config.journal_subject_prefix}.>"
        stored: dict[str, list[tuple[JournalEntry, float]]] = defaultdict(list)
        for message in await read_everything(connection, config.journal_stream, subject):
            if message.subject.endswith(PROBE_ID):
                continue
            stored_at = datetime.fromisoformat(message.timestamp).timestamp()
            stored[message.subject.rpartition(".")[2]].append((_decode(message.data), stored_at))
        for run_id, entries in stored.items():
            for key, valid_from in _valid_from(entries):
                self.add_journalled(run_id, key, valid_from)

    def add_journalled(self, run_id: str, key: str, at: float) -> None:
        self._journalled[run_id].setdefault(key, at)

    def under_way(self, executors: Iterable[int]) -> list[Execution]:
        """What these executors have started and not ended."""
        living = set(executors)
        return [
            each
            for executions in self._log.values()
            for each in executions
            if not each.left and each.pid in living
        ]

    def journalled_runs(self) -> set[str]:
        return set(self._journalled)

    def check(self, runs: Mapping[str, RunHistory], faults: Sequence[Fault]) -> tuple[list[str], int]:
        """The executions that must not be, as texts, and the number of permitted repetitions."""
        wrong: list[str] = []
        allowed = 0
        for run_id, executions in self._log.items():
            run = runs.get(run_id)
            if run is None:
                wrong.append(f"executed, but never stored: {run_id}")
                continue
            problems = [
                f"executed by an attempt that was over: {each}"
                for each in executions
                if _stale(run, each, faults)
            ]
            for earlier, later in _repetitions(executions):
                problem = self._problem(run, earlier, later, faults)
                if problem is None:
                    allowed += 1
                else:
                    problems.append(f"{problem}: {later}")
            if problems:
                wrong.append("\n    ".join([*problems, *map(str, executions), str(run)]))
        return wrong, allowed

    def _problem(
        self, run: RunHistory, earlier: Execution, later: Execution, faults: Iterable[Fault]
    ) -> str | None:
        if earlier.attempt == later.attempt:
            return "executed twice by one attempt"
        first, second = sorted((earlier.attempt, later.attempt))
        claims = run.claims
        began_at = claims[second].at
        if self._journalled[run.run_id].get(later.key, began_at) < began_at and later.attempt == second:
            return "executed although it was in the journal"
        older = earlier if earlier.attempt == first else later
        if older.ended is None or older.ended > began_at - _ON_ITS_WAY_SEC:
            return None
        excuses = (NATS, claims[first].worker)
        if any(fault.target in excuses and _covers(fault, older.ended) for fault in faults):
            return None
        return "executed again although it had finished in time"


def _valid_from(stored: Iterable[tuple[JournalEntry, float]]) -> Iterator[tuple[str, float]]:
    """From when on each entry counts: once all that its attempt counted before it are stored too."""
    latest: dict[tuple[int, int], tuple[int, float]] = {}
    for entry, stored_at in sorted(stored, key=lambda each: (each[0].attempt, each[0].number, each[1])):
        last, valid_from = latest.get((entry.attempt, entry.base), (entry.base, 0.0))
        if entry.number == last + 1:
            valid_from = max(valid_from, stored_at)
            latest[entry.attempt, entry.base] = entry.number, valid_from
            yield entry.key, valid_from


def _repetitions(executions: list[Execution]) -> Iterable[tuple[Execution, Execution]]:
    """Each execution that has an earlier one of the same key, with the latest such."""
    latest: dict[str, Execution] = {}
    for execution in executions:
        if execution.key in latest:
            yield latest[execution.key], execution
        latest[execution.key] = execution


def _stale(run: RunHistory, execution: Execution, faults: Iterable[Fault]) -> bool:
    """Whether the attempt that began it had been over for so long that its worker must have noticed."""
    over = [claim.at for attempt, claim in run.claims.items() if attempt > execution.attempt]
    if run.end is not None:
        over.append(run.end.at)
    if not over or execution.began < min(over) + _CATCHING_UP_SEC:
        return False
    excuses = (NATS, run.claims[execution.attempt].worker)
    return not any(fault.target in excuses and _covers(fault, execution.began) for fault in faults)


def _covers(fault: Fault, moment: float) -> bool:
    return fault.began - _ON_ITS_WAY_SEC < moment < fault.ended + _CATCHING_UP_SEC
