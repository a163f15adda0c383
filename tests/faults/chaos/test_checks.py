"""For each promise, a history in which it is broken, and one in which it is kept."""

import pytest

from tests.faults.chaos import takeover
from tests.faults.chaos.checks import Checker, CheckReport
from tests.faults.chaos.clients import Ledger
from tests.faults.chaos.execution_log import Execution
from tests.faults.chaos.executions import Executions
from tests.faults.chaos.fault_injector import NATS, Fault, FaultKind
from tests.faults.chaos.history import DELETED, RunHistory, Write
from tests.faults.chaos.scenario import ScenarioResult
from tests.faults.chaos.workload import PlannedRun

RUN = "r"
NOOP = PlannedRun(number=0, flow="noop", task_sec=0, key=None, repeat=False, cancel_after_sec=None)
KEYED = PlannedRun(number=0, flow="noop", task_sec=0, key="k", repeat=False, cancel_after_sec=None)

PENDING = Write(1, 1.0, "PENDING")
FIRST = Write(2, 2.0, "RUNNING", attempt=1, worker="w1")
SECOND = Write(3, 20.0, "RUNNING", attempt=2, worker="w2")
COMPLETED = Write(4, 30.0, "COMPLETED", attempt=2, worker="w2")
CRASHED = Write(4, 30.0, "FAILED", attempt=1, worker="w1", reason="executor_crashed")
CANCEL_REQUESTED = Write(3, 20.0, "CANCELLING", attempt=1, worker="w1", cancel_requested=True)
CANCELLED = Write(4, 30.0, "CANCELLED", attempt=1, worker="w1", cancel_requested=True)
KILL_W1 = Fault(FaultKind.KILL_WORKER, "w1", 10.0, 10.0)
KILL_EXECUTOR = Fault(FaultKind.KILL_EXECUTOR, "w1", 10.0, 10.0)


def executed(attempt: int, began: float, ended: float | None) -> Execution:
    return Execution(RUN, attempt, pid=1, key="only||0", began=began, ended=ended)


def checked(
    *writes: Write,
    planned: PlannedRun = NOOP,
    log: list[Execution] | None = None,
    journalled: float | None = None,
    faults: tuple[Fault, ...] = (),
    others: tuple[RunHistory, ...] = (),
) -> CheckReport:
    """About one accepted run, whose only task was executed by its last attempt unless told otherwise."""
    ledger = Ledger(accepted={RUN: planned})
    if planned.key is not None:
        ledger.by_key[planned.key].add(RUN)
    runs = {run.run_id: run for run in others}
    if writes:
        runs[RUN] = RunHistory(RUN, "noop", 0, list(writes))
    last = max((write.attempt for write in writes), default=0)
    if log is None and last:
        log = [executed(last, 25.0, 26.0)]
    executions = Executions({RUN: log} if log else {})
    if journalled is not None:
        executions.add_journalled(RUN, "only||0", journalled)
    checker = Checker(ledger, runs, faults)
    checker.check(executions)
    return checker.report


def test_a_run_that_was_taken_over_and_completed_is_all_right() -> None:
    report = checked(PENDING, FIRST, SECOND, COMPLETED, faults=(KILL_W1,))
    assert not report.broken
    assert [seconds for seconds, _ in report.recoveries] == [10.0]


@pytest.mark.parametrize("writes", [(), (PENDING, Write(2, 2.0, DELETED))])
def test_an_accepted_run_that_is_not_there_is_lost(writes: tuple[Write, ...]) -> None:
    assert list(checked(*writes).broken) == ["lost"]


def test_an_open_run_is_stuck() -> None:
    assert list(checked(PENDING, FIRST).broken) == ["stuck"]


def test_any_write_after_the_end_is_a_second_end() -> None:
    again = Write(5, 31.0, "COMPLETED", attempt=2, worker="w2")
    assert list(checked(PENDING, FIRST, SECOND, COMPLETED, again).broken) == ["second_ends"]


def test_a_run_may_fail_only_if_its_executor_was_killed() -> None:
    assert list(checked(PENDING, FIRST, CRASHED).broken) == ["wrong_ends"]
    assert not checked(PENDING, FIRST, CRASHED, faults=(KILL_EXECUTOR,)).broken


def test_a_wish_to_cancel_is_fulfilled_and_nothing_else_is_cancelled() -> None:
    assert not checked(PENDING, FIRST, CANCEL_REQUESTED, CANCELLED).broken
    not_requested = Write(4, 30.0, "CANCELLED", attempt=1, worker="w1")
    assert list(checked(PENDING, FIRST, not_requested).broken) == ["wrong_ends"]
    ignored = Write(4, 30.0, "COMPLETED", attempt=1, worker="w1", cancel_requested=True)
    assert list(checked(PENDING, FIRST, CANCEL_REQUESTED, ignored).broken) == ["wrong_ends"]


def test_a_completed_run_has_executed_all_its_tasks() -> None:
    assert list(checked(PENDING, FIRST, COMPLETED, log=[executed(1, 3.0, None)]).broken) == ["wrong_ends"]


def test_a_key_has_one_run() -> None:
    other = RunHistory("other", "noop", 0, [PENDING, Write(9, 9.0, "COMPLETED", attempt=1, worker="w1")])
    report = checked(PENDING, FIRST, SECOND, COMPLETED, planned=KEYED, others=(other,))
    assert "duplicates" in report.broken
    assert not checked(PENDING, FIRST, SECOND, COMPLETED, planned=KEYED).broken


@pytest.mark.parametrize(
    ("ended", "journalled", "faults", "allowed"),
    [
        pytest.param(None, None, (), True, id="never finished"),
        pytest.param(9.9, None, (KILL_W1,), True, id="finished right before its worker was killed"),
        pytest.param(9.0, None, (KILL_W1,), False, id="finished long before its worker was killed"),
        pytest.param(19.9, None, (), True, id="finished when the next attempt began"),
        pytest.param(9.9, 9.95, (KILL_W1,), False, id="was journalled"),
        pytest.param(9.9, 20.5, (KILL_W1,), True, id="was journalled when the next attempt had begun"),
        pytest.param(
            9.9, None, (Fault(FaultKind.KILL_WORKER, "w2", 10, 10),), False, id="another worker was killed"
        ),
        pytest.param(
            15.0, None, (Fault(FaultKind.KILL_NATS, NATS, 10, 16),), True, id="finished while NATS was away"
        ),
    ],
)
def test_a_task_is_executed_again_only_if_nobody_could_know_that_it_had_finished(
    ended: float | None, journalled: float | None, faults: tuple[Fault, ...], allowed: bool
) -> None:
    log = [executed(1, 3.0, ended), executed(2, 21.0, 22.0)]
    report = checked(PENDING, FIRST, SECOND, COMPLETED, log=log, journalled=journalled, faults=faults)
    assert list(report.broken) == ([] if allowed else ["duplicates"])
    assert report.in_flight == int(allowed)


def test_one_attempt_executes_a_task_once() -> None:
    log = [executed(2, 21.0, None), executed(2, 22.0, 23.0)]
    assert list(checked(PENDING, FIRST, SECOND, COMPLETED, log=log, faults=(KILL_W1,)).broken) == [
        "duplicates"
    ]


def test_an_attempt_that_was_replaced_begins_nothing_new() -> None:
    stale = executed(1, 24.0, 25.0)
    log = [executed(2, 21.0, 22.0), stale]
    assert list(checked(PENDING, FIRST, SECOND, COMPLETED, log=log).broken) == ["duplicates"]
    paused = Fault(FaultKind.PAUSE_WORKER, "w1", 10.0, 23.5)
    assert not checked(PENDING, FIRST, SECOND, COMPLETED, log=log, faults=(paused,)).broken


def test_a_handover_is_not_a_sign_of_the_owner() -> None:
    handed_over = Write(3, 15.0, "RUNNING", attempt=1, worker="w1", handed_over=True)
    run = RunHistory("r", "noop", 0, [PENDING, FIRST, handed_over, SECOND, COMPLETED])
    assert run.last_sign(1) == FIRST.at


def takeovers(*seconds: float) -> ScenarioResult:
    run = RunHistory("r", "noop", 0, [PENDING, FIRST, SECOND, COMPLETED])
    report = CheckReport(recoveries=[(each, run) for each in seconds])
    return ScenarioResult("seed", 1.0, [], report, 0)


def test_slow_takeovers_are_reported() -> None:
    assert takeover.slow(takeovers(*[2.0] * 199, 9.0)) == []
    assert len(takeover.slow(takeovers(*[2.0] * 98, 9.0, 9.0))) == 2
    assert "p99 9.00 s" in takeover.format_report(takeovers(*[2.0] * 98, 9.0, 9.0))


def test_a_run_that_waited_for_ack_wait_is_reported_unless_its_gateway_was_killed() -> None:
    run = RunHistory("r", "noop", 0, [PENDING, Write(2, 31.0, "RUNNING", attempt=1, worker="w1")])
    late = takeovers()
    late.report.starts.append((30.0, run))
    assert takeover.slow(late)
    late.faults.append(Fault(FaultKind.KILL_GATEWAY, "g1", PENDING.at + 0.5, PENDING.at + 1))
    assert takeover.slow(late) == []
