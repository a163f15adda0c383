"""The rules of explain, from facts to findings."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from pyoco_server.broker.queue.queue_position import JobLocation, JobState, TagQueue
from pyoco_server.broker.queue.tag_consumers import DeliveryLimits
from pyoco_server.records.runs.run_models import DeliveryId, Reason, RerunMode, RunStatus, TaskStatus
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.runs.explain.explain_facts import Facts, FinishedTask
from tests.support.samples.explain_facts import (
    MANNERS,
    NOW,
    answered,
    busy,
    cancelling,
    codes,
    facts,
    only,
    parked,
    queue,
    run,
    running,
    waiting,
    worker,
)


class TestScheduled:
    def test_it_starts_at_its_time(self) -> None:
        found = facts(run(RunStatus.SCHEDULED, start_at=NOW + 10_800))
        evidence = only(found, "scheduled")
        assert (evidence["start_at"], evidence["left_sec"]) == (NOW + 10_800, 10_800)

    def test_a_gateway_has_a_moment_before_the_start_is_overdue(self) -> None:
        assert codes(facts(run(RunStatus.SCHEDULED, start_at=NOW - 1))) == ["scheduled"]
        found = facts(run(RunStatus.SCHEDULED, start_at=NOW - 60))
        assert only(found, "start_overdue")["overdue_sec"] == 60

    def test_a_released_run_waits_in_the_queue_since_its_release(self) -> None:
        released = run(start_at=NOW - 6, heartbeat_at=NOW - 5)
        assert only(facts(released, worker()), "about_to_start")["waiting_sec"] == 5


class TestPending:
    def test_no_worker_ever_served_the_tag(self) -> None:
        found = facts(run(), worker(tags=["cpu"]), worker("w2", tags=["cpu", "io"]))
        assert codes(found) == ["no_worker_for_tag", "waiting_in_queue"]
        assert only(found, "no_worker_for_tag") == {"tag": "gpu", "served_tags": ["cpu", "io"]}

    def test_an_answered_run_waits_for_a_worker_and_not_for_a_person(self) -> None:
        found = facts(answered(), worker(tags=["cpu"]))
        assert codes(found) == ["no_worker_for_tag", "waiting_in_queue", "answered"]
        # Since the answer, not since the submit.
        assert only(found, "waiting_in_queue")["waiting_sec"] == 5.0
        assert codes(facts(answered(), busy("w1", "x")))[0] == "all_slots_busy"

    def test_an_answer_is_no_later_attempt(self) -> None:
        assert "later_attempt" not in codes(facts(running(attempt=3, continuations=2), busy()))
        assert only(facts(running(attempt=3, continuations=1), busy()), "later_attempt")["attempt"] == 2

    def test_other_questions_of_an_answered_run_are_named(self) -> None:
        found = facts(answered(300.0, 100.0), worker())
        assert codes(found) == ["about_to_start", "answered", "other_questions_open"]
        assert only(found, "other_questions_open")["wait_count"] == 2

    def test_a_dead_worker_serves_no_tag(self) -> None:
        found = facts(run(), worker(tags=["cpu"], last_seen_at=NOW - 100))
        assert only(found, "no_worker_for_tag")["served_tags"] == []

    @pytest.mark.parametrize(
        "gone", [worker(last_seen_at=NOW - 100), worker(state=WorkerState.STOPPED_GRACEFUL)]
    )
    def test_all_workers_of_the_tag_are_disconnected(self, gone: WorkerRecord) -> None:
        found = facts(run(), gone)
        assert codes(found) == ["workers_gone", "waiting_in_queue"]
        [evidence] = only(found, "workers_gone")["workers"]
        assert (evidence["worker_id"], evidence["state"]) == ("w1", found.state_of(gone))

    def test_the_worker_seen_last_is_listed_first(self) -> None:
        found = facts(run(), worker("old", last_seen_at=NOW - 900), worker("new", last_seen_at=NOW - 90))
        assert [each["worker_id"] for each in only(found, "workers_gone")["workers"]] == ["new", "old"]

    def test_a_hidden_disconnected_worker_counts_for_its_tag(self) -> None:
        assert codes(facts(run(), worker(hidden=True, last_seen_at=NOW - 100)))[0] == "workers_gone"

    def test_a_hidden_alive_worker_takes_runs(self) -> None:
        assert codes(facts(run(), worker(hidden=True))) == ["about_to_start"]

    @pytest.mark.parametrize("command", [{"paused": True}, {"drain_requested_at": NOW - 5}])
    def test_all_workers_are_paused(self, command: dict[str, Any]) -> None:
        found = facts(run(), worker(**command), worker("w2", last_seen_at=NOW - 100))
        assert codes(found) == ["workers_paused", "waiting_in_queue"]
        [evidence] = only(found, "workers_paused")["workers"]
        assert (evidence["worker_id"], evidence["paused"], evidence["draining"]) == (
            "w1",
            "paused" in command,
            "paused" not in command,
        )

    def test_one_unpaused_worker_is_enough(self) -> None:
        assert codes(facts(run(), worker(paused=True), worker("w2"))) == ["about_to_start"]

    def test_no_worker_can_start_an_executor(self) -> None:
        found = facts(run(), worker(executor_error="no module named 'flows'"), worker("p", paused=True))
        assert codes(found) == ["executors_failing", "waiting_in_queue"]
        [evidence] = only(found, "executors_failing")["workers"]
        assert (evidence["worker_id"], evidence["executor_error"]) == ("w1", "no module named 'flows'")

    def test_one_worker_that_can_start_an_executor_is_enough(self) -> None:
        assert codes(facts(run(), worker(executor_error="broken"), worker("w2"))) == ["about_to_start"]

    def test_busy_slots_list_their_runs(self) -> None:
        found = facts(
            run(),
            busy("w1", "a", "b"),
            busy("w2", "c"),
            worker("paused", paused=True),
            location=JobLocation(JobState.WAITING, 3),
            queue=queue(waiting=9),
        )
        assert codes(found) == ["all_slots_busy", "waiting_in_queue"]
        evidence = only(found, "all_slots_busy")
        assert (evidence["slots"], evidence["worker_count"]) == (3, 2)
        assert [each["run_ids"] for each in evidence["workers"]] == [["a", "b"], ["c"]]
        waiting = only(found, "waiting_in_queue")
        assert waiting == {"position": 3, "waiting": 9, "waiting_sec": 20.0}

    def test_only_some_of_many_workers_are_listed(self) -> None:
        found = facts(run(), *(busy(f"w{number}", "x") for number in range(50)))
        evidence = only(found, "all_slots_busy")
        assert (len(evidence["workers"]), evidence["worker_count"], evidence["slots"]) == (10, 50, 50)

    def test_the_in_work_limit_is_reached(self) -> None:
        found = facts(run(), worker(slots=4, slots_busy=2), queue=queue(in_work=2, in_work_limit=2))
        assert codes(found) == ["in_work_limit_reached", "waiting_in_queue"]
        assert only(found, "in_work_limit_reached") == {"tag": "gpu", "limit": 2}

    def test_a_queue_without_a_limit_is_never_full(self) -> None:
        found = facts(run(), worker(), queue=queue(in_work=500, in_work_limit=-1))
        assert codes(found) == ["about_to_start"]

    def test_the_queue_was_paused(self) -> None:
        found = facts(run(), worker(), queue=queue(paused=True))
        assert codes(found) == ["queue_paused", "waiting_in_queue"]

    def test_the_ack_wait_of_the_queue_is_too_short(self) -> None:
        found = facts(run(), worker(), queue=replace(queue(), limits=DeliveryLimits(0.2, 20)))
        assert codes(found) == ["ack_wait_too_short", "waiting_in_queue"]
        evidence = {"tag": "gpu", "ack_wait_sec": 0.2, "expected_sec": 1.0}
        assert only(found, "ack_wait_too_short") == evidence

    def test_other_runs_are_queued_before_it(self) -> None:
        found = facts(run(), worker(), location=JobLocation(JobState.WAITING, 2), queue=queue(waiting=5))
        assert codes(found) == ["waiting_in_queue"]

    def test_the_first_in_the_queue_is_about_to_start(self) -> None:
        found = facts(run(), worker("free"), busy("w2", "x"))
        assert codes(found) == ["about_to_start"]
        assert only(found, "about_to_start")["workers"] == ["free"]

    def test_the_position_in_a_long_queue_is_unknown(self) -> None:
        found = facts(run(), worker(), location=JobLocation(JobState.UNKNOWN), queue=queue(waiting=99_999))
        assert codes(found) == ["far_back_in_queue"]
        assert only(found, "far_back_in_queue")["waiting"] == 99_999

    def test_a_missing_job_is_reported(self) -> None:
        found = facts(run(), location=JobLocation(JobState.ABSENT), queue=queue(waiting=0))
        assert codes(found) == ["job_missing"]
        assert only(found, "job_missing")["mended_within_sec"] == 2 * MANNERS.sweep_sec

    def test_a_job_being_published_is_not_missing(self) -> None:
        young = structs.replace(run(), submitted_at=NOW - 1)
        assert codes(facts(young, worker(), location=JobLocation(JobState.ABSENT))) == ["about_to_start"]

    def test_a_delivered_job_was_not_started(self) -> None:
        found = facts(run(), worker(), location=JobLocation(JobState.DELIVERED))
        assert codes(found) == ["delivered_not_begun"]
        assert only(found, "delivered_not_begun")["ack_wait_sec"] == 30.0

    def test_a_handed_back_job_lists_blockers(self) -> None:
        found = facts(
            run(), worker(state=WorkerState.STOPPED_GRACEFUL), location=JobLocation(JobState.DELIVERED)
        )
        assert codes(found) == ["delivered_not_begun", "workers_gone"]


class TestRunning:
    def test_a_worker_executes_it(self) -> None:
        snapshot = running(
            tasks={"load": TaskStatus.SUCCEEDED, "clean": TaskStatus.RUNNING, "store": TaskStatus.PENDING}
        )
        found = facts(
            snapshot,
            busy(last_progress_at=NOW - 9),
            last_finished=FinishedTask("load", NOW - 8),
            last_output_at=NOW - 3,
        )
        assert codes(found) == ["executing"]
        assert only(found, "executing") == {
            "worker_id": "w1",
            "last_heartbeat_at": NOW - 0.5,
            "running_tasks": ["clean"],
            "finished_tasks": 1,
            "task_count": 3,
            "last_finished_task": "load",
            "last_finished_at": NOW - 8,
            "quiet_sec": 8.0,
            "last_output_at": NOW - 3,
            "worker_last_progress_at": NOW - 9,
        }

    def test_silence_of_the_first_task_counts_from_the_start(self) -> None:
        found = facts(running(tasks={"load": TaskStatus.RUNNING}), busy())
        assert only(found, "executing")["quiet_sec"] == 15.0

    def test_silence_of_a_later_attempt_counts_from_its_start(self) -> None:
        later = running(tasks={"load": TaskStatus.RUNNING}, attempt=2, attempt_started_at=NOW - 11)
        found = facts(later, busy(), last_finished=FinishedTask("split", NOW - 79))
        assert only(found, "executing")["quiet_sec"] == 11.0

    def test_no_task_is_running(self) -> None:
        assert codes(facts(running(), busy())) == ["between_tasks"]

    def test_a_worker_without_a_record_counts_by_its_heartbeat(self) -> None:
        assert codes(facts(running())) == ["between_tasks"]

    def test_clock_skew_gives_no_negative_durations(self) -> None:
        ahead = running(tasks={"load": TaskStatus.RUNNING}, start_time=NOW + 30, heartbeat_at=NOW + 30)
        assert only(facts(ahead, busy(last_seen_at=NOW + 30)), "executing")["quiet_sec"] == 0.0

    @pytest.mark.parametrize(
        ("owner", "code"),
        [
            (busy(last_seen_at=NOW - 100), "worker_disconnected"),
            (busy(), "heartbeat_overdue"),
            (worker(), "handed_back"),
            (None, "worker_unknown"),
        ],
    )
    def test_its_heartbeat_is_late(self, owner: WorkerRecord | None, code: str) -> None:
        silent = running(heartbeat_at=NOW - 12)
        found = facts(silent, worker("other"), *([owner] if owner else []))
        assert codes(found)[0] == code
        evidence = only(found, code)
        assert (evidence["worker_id"], evidence["silent_sec"], evidence["ack_wait_sec"]) == ("w1", 12.0, 30.0)

    def test_its_worker_is_lost(self) -> None:
        owner = busy()
        found = facts(running(), owner, worker("other"), lost=frozenset({owner.instance_id}))
        assert codes(found)[0] == "worker_disconnected"

    def test_it_was_handed_over(self) -> None:
        found = facts(running(heartbeat_at=NOW - 3, handed_over_at=NOW - 1), busy(), worker("other"))
        assert codes(found) == ["handed_over"]
        evidence = only(found, "handed_over")
        assert (evidence["worker_id"], evidence["silent_sec"]) == ("w1", 3.0)
        assert (evidence["handed_over_at"], evidence["handed_over_sec"]) == (NOW - 1, 1.0)

    def test_a_worker_that_stopped_does_not_execute_whatever_the_heartbeat_says(self) -> None:
        found = facts(running(), worker(state=WorkerState.STOPPED_GRACEFUL), worker("other"))
        assert codes(found) == ["worker_stopped"]

    def test_no_worker_can_take_it_over(self) -> None:
        found = facts(running(heartbeat_at=NOW - 50), busy(last_seen_at=NOW - 50))
        assert codes(found) == ["worker_disconnected", "workers_gone"]

    @pytest.mark.parametrize(
        ("command", "code"),
        [({"paused": True}, "worker_paused"), ({"drain_requested_at": NOW}, "worker_draining")],
    )
    def test_its_worker_is_paused_or_draining(self, command: dict[str, Any], code: str) -> None:
        assert codes(facts(running(), busy(**command))) == ["between_tasks", code]

    def test_a_later_attempt_is_reported(self) -> None:
        found = facts(running(attempt=3, delivery=DeliveryId(7, 5)), busy())
        assert codes(found) == ["between_tasks", "later_attempt"]
        assert only(found, "later_attempt") == {"attempt": 3, "delivery": 5, "max_deliver": 20, "left": 15}

    def test_the_last_attempt_is_reported(self) -> None:
        assert codes(facts(running(attempt=3, delivery=DeliveryId(7, 20)), busy())) == [
            "between_tasks",
            "last_attempt",
        ]

    def test_without_a_limit_no_attempt_is_the_last(self) -> None:
        unlimited = TagQueue(limits=DeliveryLimits(30.0, -1), waiting=0, in_work=1, in_work_limit=200)
        found = facts(running(attempt=9, delivery=DeliveryId(7, 9)), busy(), queue=unlimited)
        assert only(found, "later_attempt")["left"] is None

    @pytest.mark.parametrize(("timeout", "left"), [(60.0, 45.0), (5.0, 0.0)])
    def test_a_time_limit_is_reported(self, timeout: float, left: float) -> None:
        found = facts(running(timeout_sec=timeout), busy())
        evidence = only(found, "time_limit")
        assert (evidence["left_sec"], evidence["ends_at"]) == (left, NOW - 15 + timeout)

    def test_the_time_counted_by_owners_is_used(self) -> None:
        found = facts(running(timeout_sec=60.0, heartbeat_at=NOW - 2, used_sec=50.0), busy())
        assert only(found, "time_limit")["ends_at"] == NOW + 8

    def test_waits_do_not_count_against_the_time_limit(self) -> None:
        found = facts(running(timeout_sec=60.0, waited_sec=1000.0), busy())
        assert only(found, "time_limit")["ends_at"] == NOW - 15 + 60 + 1000


class TestWaitingHuman:
    def test_open_waits_are_listed_with_their_deadline(self) -> None:
        found = facts(waiting(300.0, 100.0))
        assert codes(found) == ["waiting_human"]
        evidence = only(found, "waiting_human")
        assert [wait["task"] for wait in evidence["waits"]] == ["ask0", "ask1"]
        assert (evidence["wait_count"], evidence["message"]) == (2, "question 0?")
        assert (evidence["waiting_sec"], evidence["left_sec"]) == (600.0, 100.0)

    def test_a_question_that_changed_is_named(self) -> None:
        found = facts(waiting(300.0, asked_again="schema_changed"))
        assert codes(found) == ["waiting_human", "question_changed"]
        assert only(found, "question_changed") == {"tasks": ["ask0"], "why": "schema_changed"}

    def test_a_wait_is_past_its_deadline(self) -> None:
        assert codes(facts(waiting(300.0, 0.0))) == ["human_deadline_over"]

    def test_only_some_of_many_waits_are_listed(self) -> None:
        evidence = only(facts(waiting(*range(1, 31))), "waiting_human")
        assert (len(evidence["waits"]), evidence["wait_count"]) == (10, 30)


class TestWaiting:
    def test_a_sleep_says_until_when(self) -> None:
        evidence = only(facts(parked("sleep")), "sleeping")
        assert (evidence["ends_at"], evidence["left_sec"], evidence["since_at"]) == (
            NOW + 100,
            100.0,
            NOW - 600,
        )

    @pytest.mark.parametrize("kind", ["signal", "event"])
    def test_a_signal_or_event_is_named(self, kind: str) -> None:
        evidence = only(facts(parked(kind, left_sec=None)), f"waiting_{kind}")
        assert (evidence["topics"], evidence["since_at"]) == (["paid"], NOW - 600)
        assert (evidence["ends_at"], evidence["left_sec"]) == (None, None)

    def test_a_sleep_that_is_over_continues_shortly(self) -> None:
        assert codes(facts(parked("sleep", left_sec=0.0))) == ["wait_over"]

    def test_a_run_whose_waits_are_all_decided_continues_shortly(self) -> None:
        decided = structs.replace(parked("sleep"), open_waits=[])
        assert codes(facts(decided)) == ["wait_over"]

    def test_people_come_first(self) -> None:
        asking, sleeping = waiting(300.0), parked("sleep")
        both = structs.replace(asking, open_waits=[*(sleeping.open_waits or []), *(asking.open_waits or [])])
        assert codes(facts(both)) == ["waiting_human", "sleeping"]
        assert only(facts(both), "waiting_human")["wait_count"] == 1

    def test_after_an_answer_the_sleep_of_another_task_is_named(self) -> None:
        queued = structs.replace(answered(), open_waits=parked("sleep").open_waits)
        assert codes(facts(queued, worker())) == ["about_to_start", "answered", "sleeping"]


class TestCancelling:
    def test_a_cancel_is_within_its_grace_period(self) -> None:
        found = facts(cancelling(cancel_requested_at=NOW - 10, cancel_reason="typo"), busy())
        assert codes(found) == ["cancel_grace"]
        evidence = only(found, "cancel_grace")
        assert (evidence["grace_left_sec"], evidence["reason"]) == (20.0, "typo")

    def test_a_cancel_is_past_its_grace_period(self) -> None:
        assert codes(facts(cancelling(cancel_requested_at=NOW - 31), busy())) == ["cancel_overdue"]

    def test_a_forced_cancel_has_no_grace_period(self) -> None:
        found = facts(cancelling(cancel_requested_at=NOW - 1, cancel_force=True), busy())
        assert only(found, "cancel_overdue")["grace_sec"] == 0.0

    def test_a_cancel_without_a_connected_worker(self) -> None:
        silent = cancelling(cancel_requested_at=NOW - 10, heartbeat_at=NOW - 50)
        found = facts(silent, busy(last_seen_at=NOW - 50))
        assert codes(found) == ["cancel_without_worker"]
        assert only(found, "cancel_without_worker")["worker"] == "worker_disconnected"

    def test_a_cancel_of_an_unstarted_run(self) -> None:
        wished = cancelling(cancel_requested_at=NOW - 1, delivery=None, worker_id=None)
        evidence = only(facts(wished), "cancel_without_worker")
        assert evidence["ended_within_sec"] == MANNERS.silence.unstarted_sec


class TestEnded:
    def ended(self, status: RunStatus, **fields: Any) -> Facts:
        return facts(
            structs.replace(running(), status=status, end_time=NOW, **fields), queue=None, location=None
        )

    def test_a_completed_run(self) -> None:
        assert codes(self.ended(RunStatus.COMPLETED, tasks={"a": TaskStatus.SUCCEEDED})) == ["completed"]

    @pytest.mark.parametrize("how", [{"attempt": 2}, {"rerun_mode": RerunMode.FAILED}])
    def test_finished_tasks_were_executed_again(self, how: dict[str, Any]) -> None:
        records = {"a": Raw(b"{}"), "b": Raw(b'{"executed_again": "the flow has changed"}')}
        found = self.ended(RunStatus.COMPLETED, task_records=records, **how)
        assert codes(found) == ["completed", "executed_again"]
        evidence = only(found, "executed_again")
        assert evidence["tasks"] == [{"task": "b", "reason": "the flow has changed"}]

    def test_a_completed_run_with_a_failed_task(self) -> None:
        record = Raw(msgspec.json.encode({"error": "ValueError: no"}))
        found = self.ended(
            RunStatus.COMPLETED,
            tasks={"a": TaskStatus.FAILED, "b": TaskStatus.SUCCEEDED},
            task_records={"a": record},
        )
        evidence = only(found, "completed_with_failures")
        assert evidence["failed_tasks"] == [{"task": "a", "error": "ValueError: no"}]

    @pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.CANCEL_FORCED])
    def test_every_reason_has_its_own_code(self, reason: Reason) -> None:
        tasks = {"a": TaskStatus.FAILED}
        found = self.ended(RunStatus.FAILED, reason=reason, error="it broke", tasks=tasks)
        assert codes(found) == [f"failed_{reason}"]
        assert only(found, f"failed_{reason}")["error"] == "it broke"

    def test_a_flow_that_failed_without_a_failed_task(self) -> None:
        found = self.ended(RunStatus.FAILED, reason=Reason.EXECUTION_ERROR, error="'a:b' cannot be called")
        assert codes(found) == ["failed_outside_tasks"]

    @pytest.mark.parametrize("reason", [None, "a_word_of_a_newer_worker"])
    def test_an_unknown_reason_has_the_generic_code(self, reason: str | None) -> None:
        assert codes(self.ended(RunStatus.FAILED, reason=reason)) == ["failed"]

    def test_a_failed_task_without_a_record(self) -> None:
        found = self.ended(RunStatus.FAILED, reason="timeout", tasks={"a": TaskStatus.FAILED})
        assert only(found, "failed_timeout")["failed_tasks"] == [{"task": "a", "error": None}]

    def test_a_cancelled_run(self) -> None:
        assert codes(self.ended(RunStatus.CANCELLED)) == ["cancelled"]
        assert codes(self.ended(RunStatus.CANCELLED, reason="cancel_forced")) == ["cancel_forced"]
