"""Each invariant is broken by at least one case, and holds for a plain history."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.records.runs.bulk_models import BulkAction, BulkRecord, BulkState
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.run_models import (
    DeliveryId,
    OpenWait,
    Reason,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    WaitKind,
    new_run_id,
)
from pyoco_server.records.schedules.schedule_models import ScheduleRecord, ScheduleSpec
from pyoco_server.records.triggers.workflow_event_models import EventActor, EventInput, RetryJob, RetryStatus
from pyoco_server.records.waits.signal_models import Mailbox, Signal
from pyoco_server.records.waits.wait_models import WaitEventKind, WaitRecord, WaitState
from pyoco_server.waits.wait_transitions import event_of
from tests.simulation.invariants import (
    checks,
    request_invariants,
    run_invariants,
    trigger_invariants,
    wait_invariants,
)
from tests.simulation.invariants.evidence import (
    Evidence,
    Execution,
    FollowedLog,
    JournalWrite,
    LetterWrite,
    Request,
    Response,
    RetryWrite,
    RunWrite,
    WaitWrite,
)
from tests.support.broker.stored_runs import snapshot
from tests.support.broker.stored_waits import a_wait

RUN, OTHER = new_run_id(), new_run_id()
WAIT = a_wait(RUN).wait_id
BULK = BulkRecord(
    bulk_id="b",
    action=BulkAction.CANCEL,
    state=BulkState.RUNNING,
    query={},
    matched=1,
    created_at=1.0,
    updated_at=1.0,
)

SCHEDULE = ScheduleRecord(
    schedule_id="often",
    incarnation="1",
    spec=ScheduleSpec(every_sec=10.0),
    flow_name="f",
    tag="default",
    created_at=5.0,
    updated_at=5.0,
    cursor=5.0,
)


def run(status: RunStatus = RunStatus.COMPLETED, **fields: Any) -> RunSnapshot:
    return snapshot(run_id=RUN, status=status, **fields)


def wait(state: WaitState = WaitState.OPEN, **fields: Any) -> WaitRecord:
    return a_wait(RUN, state=state, created_at=1.0, deadline_at=100.0, **fields)


def executed(task: str, value: str, attempt: int = 1, *, at: float = 1.0, **fields: Any) -> Execution:
    return Execution(
        run_id=RUN,
        attempt=attempt,
        worker="w1",
        task=task,
        began_at=at,
        ended_at=at + 1.0,
        value=value,
        **fields,
    )


def of_event(
    status: RunStatus = RunStatus.COMPLETED, cause_id: str = "template:t", *, payload: str = "k"
) -> RunSnapshot:
    return run(status, params={"payload": payload}, cause=Cause(kind=CauseKind.EVENT, id=cause_id))


def retry_job(status: RetryStatus = RetryStatus.PENDING, **fields: Any) -> RetryJob:
    return RetryJob(
        job_id="0" * 32,
        template_id="t",
        template_name="t",
        action_key="a",
        idempotency_key="k",
        fingerprint="f",
        event=EventInput(),
        status=status,
        max_attempts=3,
        next_retry_at=1.0,
        created_at=1.0,
        updated_at=1.0,
        actor=EventActor(),
        **fields,
    )


def journalled(task: str, number: int, *, attempt: int = 1, at: float = 2.0) -> JournalWrite:
    entry = JournalEntry(
        key=f"{task}||0", task=task, attempt=attempt, started_at=1.0, ended_at=at, output=b"x", number=number
    )
    return JournalWrite(run_id=RUN, at=at, entry=entry)


def asked(kind: str, response: Response, **fields: Any) -> Request:
    return Request(kind=kind, response=response, **({"run_id": RUN} | fields))


def written(stored: RunSnapshot | None, *, at: float = 1.0, run_id: str = RUN) -> RunWrite:
    return RunWrite(run_id=run_id, revision=1, at=at, snapshot=stored)


def received() -> WaitRecord:
    return wait(WaitState.ANSWERED, kind=WaitKind.SIGNAL, topic="go", decision_id="s")


def opened(**fields: Any) -> Evidence:
    """A run that waits for a person who has not answered."""
    waiting = run(
        RunStatus.WAITING_HUMAN,
        open_waits=[OpenWait(wait_id=WAIT, task="check", name="approve", message="?", deadline_at=100.0)],
    )
    events = [event_of(wait(), WaitEventKind.OPENED)]
    plain: dict[str, Any] = {
        "runs": {RUN: waiting},
        "waits": {WAIT: wait()},
        "wait_events": events,
        "now": 10.0,
    }
    return Evidence(**(plain | fields))


BROKEN: list[tuple[Callable[[Evidence], Any], Evidence]] = [
    (run_invariants.no_open_run_is_stuck, Evidence(runs={RUN: run(RunStatus.PENDING)})),
    (run_invariants.no_open_run_is_stuck, opened(now=200.0)),
    (run_invariants.no_open_run_is_stuck, opened(waits={})),
    (
        run_invariants.no_open_run_is_stuck,
        Evidence(runs={RUN: run(RunStatus.SCHEDULED, start_at=5.0)}, now=6.0),
    ),
    (run_invariants.no_open_run_is_stuck, Evidence(runs={RUN: run()}, waits={WAIT: wait()})),
    (run_invariants.nothing_is_left_over, Evidence(runs={RUN: run()}, queued=[RUN])),
    (run_invariants.nothing_is_left_over, Evidence(with_outbox={WAIT})),
    (run_invariants.nothing_is_left_over, Evidence(bulk={"b": BULK})),
    (request_invariants.a_bulk_operation_was_accepted, Evidence(bulk={"b": BULK})),
    (
        run_invariants.no_finished_task_is_executed_again,
        Evidence(
            executions=[executed("a", "a#1"), executed("a", "a#2", attempt=2, at=5.0)],
            journal=[journalled("a", 1)],
        ),
    ),
    (
        run_invariants.replay_equals_what_happened,
        Evidence(
            runs={RUN: run()},
            executions=[
                executed("a", "a#1"),
                executed("b", "b#2", inputs={"a": "a#1"}),
                executed("c", "c#3", attempt=2, replayed={"a": "a#0", "b": "b#2"}),
            ],
        ),
    ),
    (request_invariants.an_accepted_run_exists, Evidence(requests=[asked("submit", Response.DONE)])),
    (
        request_invariants.an_accepted_run_is_deleted_only_after_its_end,
        Evidence(
            requests=[asked("submit", Response.DONE)],
            run_writes=[
                RunWrite(run_id=RUN, revision=1, at=1.0, snapshot=run(RunStatus.PENDING)),
                RunWrite(run_id=RUN, revision=2, at=2.0, snapshot=None),
            ],
        ),
    ),
    (
        request_invariants.a_refused_submit_never_runs,
        Evidence(requests=[asked("submit", Response.UNAVAILABLE)], executions=[executed("a", "a#1")]),
    ),
    (
        request_invariants.one_run_per_key,
        Evidence(
            requests=[
                asked("submit", Response.DONE, key="k"),
                asked("submit", Response.DONE, key="k", run_id=new_run_id()),
            ]
        ),
    ),
    (
        request_invariants.an_unavailable_request_has_changed_nothing,
        Evidence(
            requests=[asked("cancel", Response.UNAVAILABLE)],
            runs={RUN: run(RunStatus.CANCELLED, cancel_requested_at=2.0)},
        ),
    ),
    (
        request_invariants.an_unavailable_request_has_changed_nothing,
        Evidence(
            requests=[asked("retry", Response.UNAVAILABLE, began_at=1.0, ended_at=3.0)],
            run_writes=[RunWrite(run_id=RUN, revision=2, at=2.0, snapshot=run(RunStatus.WAITING_HUMAN))],
        ),
    ),
    (
        request_invariants.a_stored_cancel_ends_the_run,
        Evidence(
            requests=[asked("cancel", Response.DONE)],
            runs={RUN: run(RunStatus.COMPLETED, cancel_requested_at=2.0)},
        ),
    ),
    (
        wait_invariants.an_answer_counts_once,
        Evidence(
            requests=[
                asked("answer", Response.DONE, wait_id=WAIT, payload=1),
                asked("answer", Response.DONE, wait_id=WAIT, payload=2),
            ],
        ),
    ),
    (
        wait_invariants.an_answer_counts_once,
        Evidence(
            requests=[asked("answer", Response.DONE, wait_id=WAIT, payload=1)],
            waits={WAIT: wait(WaitState.EXPIRED)},
        ),
    ),
    (
        wait_invariants.an_answer_counts_once,
        Evidence(
            requests=[asked("answer", Response.DONE, wait_id=WAIT, payload=1)],
            waits={WAIT: wait(WaitState.ANSWERED, payload=2)},
        ),
    ),
    (
        wait_invariants.a_repeated_answer_gets_its_receipt,
        Evidence(
            requests=[
                asked("answer", Response.DONE, key="d", ended_at=1.0),
                asked("answer", Response.REFUSED, key="d", began_at=2.0),
            ]
        ),
    ),
    (
        # A user repeats it at once: no simulated time is between the response and the repetition.
        wait_invariants.a_repeated_answer_gets_its_receipt,
        Evidence(
            requests=[
                asked("answer", Response.DONE, key="d", ended_at=1.0),
                asked("answer", Response.REFUSED, key="d", began_at=1.0),
            ]
        ),
    ),
    (wait_invariants.each_wait_event_is_published_once, opened(wait_events=[])),
    (
        wait_invariants.each_wait_event_is_published_once,
        opened(wait_events=[event_of(wait(), WaitEventKind.OPENED)] * 2),
    ),
    (wait_invariants.each_wait_event_is_published_once, opened(waits={WAIT: wait(WaitState.EXPIRED)})),
    (
        wait_invariants.a_decided_wait_never_changes,
        Evidence(
            wait_writes=[
                WaitWrite(revision=1, at=1.0, wall=101.0, record=wait(WaitState.EXPIRED)),
                WaitWrite(revision=2, at=2.0, wall=102.0, record=wait(WaitState.ANSWERED, payload=1)),
            ]
        ),
    ),
    (run_invariants.lists_equal_the_bucket, Evidence(runs={RUN: run()}, listed_runs={"g1": {}})),
    (run_invariants.lists_equal_the_bucket, Evidence(open_waits={"g1": {WAIT}})),
    (
        run_invariants.no_run_fails_without_cause,
        Evidence(runs={RUN: run(RunStatus.FAILED, reason=Reason.DELIVERIES_EXHAUSTED)}),
    ),
    (
        run_invariants.dead_letters_match_failed_runs,
        Evidence(letters=[DeadLetter(timestamp=1.0, reason="None", error="", run_id=RUN)]),
    ),
    (
        request_invariants.a_later_letter_is_kept,
        Evidence(
            requests=[asked("bulk", Response.DONE, ended_at=1.0)],
            letter_writes=[
                LetterWrite(at=2.0, letter=DeadLetter(timestamp=1.0, reason="r", error="", run_id=RUN))
            ],
        ),
    ),
    (
        run_invariants.a_followed_log_ends_with_the_run,
        Evidence(runs={RUN: run()}, followed=[FollowedLog(run_id=RUN, lines=[], status="RUNNING")]),
    ),
    (
        request_invariants.a_rerun_from_failed_tasks_reuses_the_others,
        Evidence(
            requests=[asked("rerun", Response.DONE, run_id=OTHER, payload=RUN)],
            run_writes=[written(run(RunStatus.FAILED, tasks={"a": TaskStatus.SUCCEEDED}))],
            executions=[replace(executed("a", "a#2"), run_id=OTHER)],
        ),
    ),
    (
        run_invariants.a_timed_out_run_has_used_its_time,
        Evidence(
            run_writes=[
                written(run(RunStatus.RUNNING, start_time=1.0)),
                written(
                    run(RunStatus.FAILED, start_time=1.0, timeout_sec=20.0, reason=Reason.TIMEOUT), at=5.0
                ),
            ]
        ),
    ),
    (
        run_invariants.an_ended_run_is_kept_for_its_time,
        Evidence(run_writes=[written(run()), written(None, at=3.0)], retention_sec=10.0),
    ),
    (
        request_invariants.concurrent_retries_agree,
        Evidence(
            requests=[
                asked("retry", Response.DONE, began_at=1.0, ended_at=2.0),
                asked("retry", Response.REFUSED, began_at=1.5, ended_at=2.5, text="the waits are gone"),
            ]
        ),
    ),
    (
        wait_invariants.a_wait_is_over_at_its_time,
        Evidence(wait_writes=[WaitWrite(revision=1, at=1.0, wall=50.0, record=wait(WaitState.EXPIRED))]),
    ),
    (
        wait_invariants.a_signal_is_received_once,
        Evidence(waits={"1": received(), "2": received()}),
    ),
    (
        wait_invariants.what_was_sent_is_received,
        Evidence(
            waits={WAIT: wait(kind=WaitKind.SIGNAL, topic="go")},
            mailboxes={RUN: Mailbox(run_id=RUN, signals=[Signal(signal_id="s", name="go", at=1.0)])},
        ),
    ),
    (
        wait_invariants.what_was_sent_is_received,
        Evidence(
            waits={WAIT: wait(kind=WaitKind.EVENT, topic="news")},
            requests=[asked("event", Response.DONE, payload="news", began_at=2.0)],
            run_writes=[written(run(RunStatus.WAITING))],
        ),
    ),
    (trigger_invariants.each_occurrence_starts_one_run, Evidence(schedules=[SCHEDULE], now=100.0)),
    (
        trigger_invariants.an_event_starts_one_run,
        Evidence(run_writes=[written(of_event()), written(of_event(), run_id=OTHER)]),
    ),
    (
        trigger_invariants.a_repeated_event_is_a_duplicate,
        Evidence(
            requests=[
                asked("workflow_event", Response.DONE, key="k", ended_at=1.0),
                asked("workflow_event", Response.DONE, key="k", began_at=2.0, ended_at=3.0),
            ],
            runs={RUN: run()},
        ),
    ),
    (
        trigger_invariants.a_repeated_event_is_a_duplicate,
        Evidence(
            requests=[
                asked("delivery", Response.DONE, key="k", ended_at=1.0),
                asked("delivery", Response.DONE, run_id=OTHER, key="k", began_at=2.0, is_duplicate=True),
            ],
        ),
    ),
    (
        trigger_invariants.each_hook_message_starts_its_run,
        Evidence(hook_messages={"k"}, run_writes=[written(run(params={"payload": "other"}))]),
    ),
    (trigger_invariants.each_hook_message_starts_its_run, Evidence(waiting_messages={"k"})),
    (
        trigger_invariants.runs_of_a_single_hook_do_not_overlap,
        Evidence(
            single_hooks={"h"},
            run_writes=[
                written(of_event(RunStatus.RUNNING, "hook:h")),
                written(of_event(RunStatus.PENDING, "hook:h"), run_id=OTHER),
            ],
        ),
    ),
    (
        trigger_invariants.a_retry_job_is_executed_once,
        Evidence(
            retry_writes=[
                RetryWrite(wall=1.0, job=retry_job(claim="one", claimed_until=60.0)),
                RetryWrite(wall=2.0, job=retry_job(claim="other", claimed_until=61.0)),
            ]
        ),
    ),
    (
        trigger_invariants.a_retry_job_is_executed_once,
        Evidence(
            retry_writes=[
                RetryWrite(wall=1.0, job=retry_job(RetryStatus.SUCCEEDED)),
                RetryWrite(wall=2.0, job=retry_job(RetryStatus.RETRYING, claim="other", claimed_until=61.0)),
            ]
        ),
    ),
]


@pytest.mark.parametrize(("invariant", "evidence"), BROKEN)
def test_invariant_can_fail(invariant: Callable[[Evidence], Any], evidence: Evidence) -> None:
    assert list(invariant(evidence))
    with pytest.raises(checks.InvariantBroken):
        checks.check(evidence)


def test_every_invariant_has_a_case_that_breaks_it() -> None:
    assert {invariant for invariant, _ in BROKEN} == set(checks.ALL)


HOLDING = [
    Evidence(),
    opened(),
    Evidence(
        runs={RUN: run()},
        listed_runs={"g1": {RUN: "COMPLETED"}},
        executions=[executed("a", "a#1"), executed("b", "b#2", inputs={"a": "a#1"})],
        journal=[journalled("a", 1), journalled("b", 2)],
        requests=[asked("submit", Response.DONE, key="k"), asked("submit", Response.DONE, key="k")],
        run_writes=[RunWrite(run_id=RUN, revision=1, at=1.0, snapshot=run())],
    ),
    # Its worker has died before the result was stored.
    Evidence(
        runs={RUN: run()},
        executions=[executed("a", "a#1"), executed("a", "a#2", attempt=2, at=5.0)],
        journal=[journalled("a", 1, at=6.0, attempt=2)],
    ),
    # The second delivery of a hook has waited for the end of the first run.
    Evidence(
        single_hooks={"h"},
        hook_messages={"k"},
        run_writes=[
            written(of_event(RunStatus.RUNNING, "hook:h")),
            written(of_event(RunStatus.COMPLETED, "hook:h")),
            written(of_event(RunStatus.RUNNING, "hook:h", payload="l"), run_id=OTHER),
        ],
    ),
    # Without the entry before it, a result does not count.
    Evidence(
        executions=[executed("b", "b#1"), executed("b", "b#2", attempt=2, at=5.0)],
        journal=[journalled("b", 2)],
    ),
]


@pytest.mark.parametrize("evidence", HOLDING)
def test_plain_histories_break_no_invariant(evidence: Evidence) -> None:
    checks.check(evidence)


WRITES = [
    (run(), run(RunStatus.RUNNING)),
    (run(RunStatus.FAILED, reason=Reason.TIMEOUT), run(RunStatus.WAITING_HUMAN)),
    (run(RunStatus.RUNNING, generation=2), run(RunStatus.RUNNING, generation=1)),
    (run(RunStatus.CANCELLING, cancel_requested_at=1.0), run(RunStatus.RUNNING)),
    (run(RunStatus.RUNNING, delivery=DeliveryId(3, 2)), run(RunStatus.RUNNING, delivery=DeliveryId(3, 1))),
]


@pytest.mark.parametrize(("before", "after"), WRITES)
def test_write_that_breaks_an_invariant(before: RunSnapshot, after: RunSnapshot) -> None:
    assert list(run_invariants.check_run_write(RUN, before, after))


def test_legal_writes_break_no_invariant() -> None:
    pending, running = run(RunStatus.PENDING), run(RunStatus.RUNNING, delivery=DeliveryId(3, 1))
    failed = run(RunStatus.FAILED, reason=Reason.HUMAN_TIMEOUT)
    for before, after in [
        (None, pending),
        (pending, running),
        (running, pending),
        (running, run()),
        (run(), None),
        (failed, run(RunStatus.WAITING_HUMAN)),
    ]:
        assert not list(run_invariants.check_run_write(RUN, before, after))


def test_lost_writes_excuse_what_was_promised_about_them() -> None:
    lost = Evidence(requests=[asked("submit", Response.DONE)])
    assert list(request_invariants.an_accepted_run_exists(lost))
    assert not list(request_invariants.an_accepted_run_exists(replace(lost, lost_writes=True)))
    later, reused = (
        run(RunStatus.RUNNING, delivery=DeliveryId(3, 1)),
        run(RunStatus.RUNNING, delivery=DeliveryId(1, 1)),
    )
    assert list(run_invariants.check_run_write(RUN, later, reused))
    assert not list(run_invariants.check_run_write(RUN, later, reused, lost_writes=True))
