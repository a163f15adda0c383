"""The judge: for each promise, a made-up history in which it is broken, and one in which it is kept."""

import pytest

from tests.faults.book import Execution
from tests.faults.clients import Ledger
from tests.faults.executions import Executions
from tests.faults.history import DELETED, RunHistory, Write
from tests.faults.verdict import Judge, Verdict
from tests.faults.villain import NATS, Crime, Fault
from tests.faults.work import Work

RUN = "r"
NOOP = Work(number=0, flow="noop", nap_sec=0, key=None, repeat=False, cancel_after_sec=None)
KEYED = Work(number=0, flow="noop", nap_sec=0, key="k", repeat=False, cancel_after_sec=None)

PENDING = Write(1, 1.0, "PENDING")
FIRST = Write(2, 2.0, "RUNNING", attempt=1, worker="w1")
SECOND = Write(3, 20.0, "RUNNING", attempt=2, worker="w2")
COMPLETED = Write(4, 30.0, "COMPLETED", attempt=2, worker="w2")
CRASHED = Write(4, 30.0, "FAILED", attempt=1, worker="w1", reason="executor_crashed")
WISHED = Write(3, 20.0, "CANCELLING", attempt=1, worker="w1", cancel_requested=True)
CANCELLED = Write(4, 30.0, "CANCELLED", attempt=1, worker="w1", cancel_requested=True)
KILL_W1 = Fault(Crime.KILL_WORKER, "w1", 10.0, 10.0)
KILL_EXECUTOR = Fault(Crime.KILL_EXECUTOR, "w1", 10.0, 10.0)


def executed(attempt: int, began: float, ended: float | None) -> Execution:
    return Execution(RUN, attempt, pid=1, key="only||0", began=began, ended=ended)


def judged(
    *writes: Write,
    work: Work = NOOP,
    book: list[Execution] | None = None,
    journalled: float | None = None,
    faults: tuple[Fault, ...] = (),
    others: tuple[RunHistory, ...] = (),
) -> Verdict:
    """About one accepted run, whose only task was executed by its last attempt unless told otherwise."""
    ledger = Ledger(accepted={RUN: work})
    if work.key is not None:
        ledger.by_key[work.key].add(RUN)
    runs = {run.run_id: run for run in others}
    if writes:
        runs[RUN] = RunHistory(RUN, "noop", 0, list(writes))
    last = max((write.attempt for write in writes), default=0)
    if book is None and last:
        book = [executed(last, 25.0, 26.0)]
    executions = Executions({RUN: book} if book else {})
    if journalled is not None:
        executions.note_journalled(RUN, "only||0", journalled)
    judge = Judge(ledger, runs, faults)
    judge.judge(executions)
    return judge.verdict


def test_a_run_that_was_taken_over_and_completed_is_all_right() -> None:
    verdict = judged(PENDING, FIRST, SECOND, COMPLETED, faults=(KILL_W1,))
    assert not verdict.broken
    assert [seconds for seconds, _ in verdict.recoveries] == [10.0]


@pytest.mark.parametrize("writes", [(), (PENDING, Write(2, 2.0, DELETED))])
def test_an_accepted_run_that_is_not_there_is_lost(writes: tuple[Write, ...]) -> None:
    assert list(judged(*writes).broken) == ["lost"]


def test_an_open_run_is_stuck() -> None:
    assert list(judged(PENDING, FIRST).broken) == ["stuck"]


def test_any_write_after_the_end_is_a_second_end() -> None:
    again = Write(5, 31.0, "COMPLETED", attempt=2, worker="w2")
    assert list(judged(PENDING, FIRST, SECOND, COMPLETED, again).broken) == ["two_ends"]


def test_a_run_may_fail_only_if_its_executor_was_killed() -> None:
    assert list(judged(PENDING, FIRST, CRASHED).broken) == ["wrong_ends"]
    assert not judged(PENDING, FIRST, CRASHED, faults=(KILL_EXECUTOR,)).broken


def test_a_wish_to_cancel_is_fulfilled_and_nothing_else_is_cancelled() -> None:
    assert not judged(PENDING, FIRST, WISHED, CANCELLED).broken
    unwished = Write(4, 30.0, "CANCELLED", attempt=1, worker="w1")
    assert list(judged(PENDING, FIRST, unwished).broken) == ["wrong_ends"]
    ignored = Write(4, 30.0, "COMPLETED", attempt=1, worker="w1", cancel_requested=True)
    assert list(judged(PENDING, FIRST, WISHED, ignored).broken) == ["wrong_ends"]


def test_a_completed_run_has_executed_all_its_tasks() -> None:
    assert list(judged(PENDING, FIRST, COMPLETED, book=[executed(1, 3.0, None)]).broken) == ["wrong_ends"]


def test_a_key_has_one_run() -> None:
    other = RunHistory("other", "noop", 0, [PENDING, Write(9, 9.0, "COMPLETED", attempt=1, worker="w1")])
    verdict = judged(PENDING, FIRST, SECOND, COMPLETED, work=KEYED, others=(other,))
    assert "duplicates" in verdict.broken
    assert not judged(PENDING, FIRST, SECOND, COMPLETED, work=KEYED).broken


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
            9.9, None, (Fault(Crime.KILL_WORKER, "w2", 10, 10),), False, id="another worker was killed"
        ),
        pytest.param(
            15.0, None, (Fault(Crime.KILL_NATS, NATS, 10, 16),), True, id="finished while NATS was away"
        ),
    ],
)
def test_a_task_is_executed_again_only_if_nobody_could_know_that_it_had_finished(
    ended: float | None, journalled: float | None, faults: tuple[Fault, ...], allowed: bool
) -> None:
    book = [executed(1, 3.0, ended), executed(2, 21.0, 22.0)]
    verdict = judged(PENDING, FIRST, SECOND, COMPLETED, book=book, journalled=journalled, faults=faults)
    assert list(verdict.broken) == ([] if allowed else ["duplicates"])
    assert verdict.in_flight == int(allowed)


def test_one_attempt_executes_a_task_once() -> None:
    book = [executed(2, 21.0, None), executed(2, 22.0, 23.0)]
    assert list(judged(PENDING, FIRST, SECOND, COMPLETED, book=book, faults=(KILL_W1,)).broken) == [
        "duplicates"
    ]


def test_an_attempt_that_was_replaced_begins_nothing_new() -> None:
    stale = executed(1, 24.0, 25.0)
    book = [executed(2, 21.0, 22.0), stale]
    assert list(judged(PENDING, FIRST, SECOND, COMPLETED, book=book).broken) == ["duplicates"]
    paused = Fault(Crime.PAUSE_WORKER, "w1", 10.0, 23.5)
    assert not judged(PENDING, FIRST, SECOND, COMPLETED, book=book, faults=(paused,)).broken
