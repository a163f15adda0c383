"""The states of a retry job: back-off, escalation and discarding; and the row of each failure."""

from typing import Any

import pytest

from pyoco_server import errors
from pyoco_server.records.triggers.workflow_event_models import EventActor, EventInput, RetryJob, RetryStatus
from pyoco_server.triggers.workflow_events import retry_rules as rules
from pyoco_server.triggers.workflow_events.event_reasons import reason_of

NOW = 1_800_000_000.0
BUSY = reason_of(errors.TemplateBusy("busy"))
INVALID = reason_of(errors.EventInvalid("no month"))


def job(**fields: Any) -> RetryJob:
    known = {
        "job_id": "0" * 32,
        "template_id": "t",
        "template_name": "T",
        "action_key": "a",
        "idempotency_key": "k",
        "fingerprint": "f",
        "event": EventInput(),
        "max_attempts": 3,
        "next_retry_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
        "actor": EventActor(),
    }
    return RetryJob(**{**known, **fields})


def test_the_delay_doubles_up_to_a_day() -> None:
    assert [rules.delay_sec(n, 30) for n in (0, 1, 2, 3)] == [30, 30, 60, 120]
    assert rules.delay_sec(10, 3600) == 86_400
    assert rules.delay_sec(2000, 1) == 86_400


def test_failures_are_repeated_and_escalated_at_the_last_attempt() -> None:
    first = rules.failed(job(), BUSY, "busy", base_sec=30, now=NOW)
    assert (first.status, first.attempts, first.next_retry_at) == ("retrying", 1, NOW + 30)
    assert (first.last_error, first.last_reason_class, first.last_reason_code) == (
        "busy",
        "run_conflict",
        "http_409",
    )
    second = rules.failed(first, BUSY, "busy", base_sec=30, now=NOW)
    assert (second.status, second.attempts, second.next_retry_at) == ("retrying", 2, NOW + 60)
    third = rules.failed(second, BUSY, "busy", base_sec=30, now=NOW)
    assert (third.status, third.attempts) == ("escalated", 3)


def test_a_failure_that_another_attempt_does_not_mend_discards_the_job() -> None:
    after = rules.failed(job(), INVALID, "no month", base_sec=30, now=NOW)
    assert (after.status, after.attempts, after.last_retry_advice) == ("discarded", 1, "retry_after_fix")


def test_a_success_keeps_the_run() -> None:
    claimed = rules.claimed(job(), "me", until=NOW + 60, now=NOW)
    after = rules.succeeded(claimed, "run", now=NOW + 1)
    assert (after.status, after.last_run_id, after.claim, after.claimed_until) == (
        "succeeded",
        "run",
        None,
        0.0,
    )
    assert after.updated_at == NOW + 1


def test_a_claimed_job_is_not_due_until_the_claim_ends() -> None:
    assert rules.is_due(job(), NOW)
    assert not rules.is_due(job(next_retry_at=NOW + 1), NOW)
    assert rules.is_claimable(job(next_retry_at=NOW + 1), NOW)
    claimed = rules.claimed(job(), "me", until=NOW + 60, now=NOW)
    assert not rules.is_claimable(claimed, NOW + 59)
    assert rules.is_due(claimed, NOW + 60)
    assert not rules.is_claimable(job(status=RetryStatus.SUCCEEDED), NOW)


@pytest.mark.parametrize(
    ("state", "at"),
    [
        ({}, NOW),
        ({"claimed_until": NOW + 9}, NOW + 9),
        ({"status": RetryStatus.SUCCEEDED}, None),
        ({"status": RetryStatus.ESCALATED, "notified": True}, None),
        # Its gateway died before the notification.
        ({"status": RetryStatus.ESCALATED, "claimed_until": NOW + 9}, NOW + 9),
    ],
)
def test_the_time_of_the_next_check_of_a_job(state: dict[str, Any], at: float | None) -> None:
    assert rules.next_check_at(job(**state)) == at


@pytest.mark.parametrize(
    ("error", "row"),
    [
        (errors.EventTokenInvalid(), ("rejected", "auth", "http_401", "retry_after_fix")),
        (errors.TemplateNotFound(), ("rejected", "template_not_found", "http_404", "retry_after_fix")),
        (errors.TemplateConflict(), ("rejected", "template_conflict", "http_409", "retry_after_fix")),
        (
            errors.ActionNotExecutable(),
            ("rejected", "unsupported_action", "unsupported_action", "retry_after_fix"),
        ),
        (errors.EventInvalid(), ("rejected", "validation", "invalid_year_month", "retry_after_fix")),
        (errors.TemplateBusy(), ("rejected", "run_conflict", "http_409", "retry_with_backoff")),
        (errors.WorkflowTooLarge(), ("failed", "infra", "http_413", "retry_with_backoff")),
        (errors.InvalidRequest(), ("failed", "infra", "http_422", "retry_with_backoff")),
        (errors.NatsUnavailable(), ("failed", "infra", "exception", "retry_with_backoff")),
        (errors.EventNotProcessed(), ("failed", "infra", "exception", "retry_with_backoff")),
        (ValueError(), ("failed", "infra", "exception", "retry_with_backoff")),
    ],
)
def test_each_error_has_its_row_of_the_failure_table(error: Exception, row: tuple[str, ...]) -> None:
    reason = reason_of(error)
    assert (reason.status, reason.reason_class, reason.code, reason.advice) == row
