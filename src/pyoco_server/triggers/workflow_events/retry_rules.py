"""What becomes of a retry job: when it is due, and its state after an attempt."""

from typing import Final

from msgspec import structs

from pyoco_server.records.triggers.workflow_event_models import RetryAdvice, RetryJob, RetryStatus
from pyoco_server.triggers.workflow_events.event_reasons import EventFailure

_LONGEST_DELAY_SEC: Final = 86_400.0
_ERROR_CHARS: Final = 500


def delay_sec(attempts: int, base_sec: float) -> float:
    """The delay after so many attempts; the first one is made after the base."""
    # Beyond these doublings it is more than a day in any case.
    doublings = min(max(1, attempts) - 1, 20)
    return min(base_sec * 2.0**doublings, _LONGEST_DELAY_SEC)


def is_claimable(job: RetryJob, now: float) -> bool:
    """Whether no gateway has claimed it."""
    return not job.status.terminal and job.claimed_until <= now


def is_due(job: RetryJob, now: float) -> bool:
    return is_claimable(job, now) and job.next_retry_at <= now


def next_check_at(job: RetryJob) -> float | None:
    """When there is something to do with it; None: never."""
    if job.status is RetryStatus.ESCALATED and not job.notified:
        return job.claimed_until
    return None if job.status.terminal else max(job.next_retry_at, job.claimed_until)


def claimed(job: RetryJob, claim: str, *, until: float, now: float) -> RetryJob:
    return structs.replace(job, claim=claim, claimed_until=until, updated_at=now)


def succeeded(job: RetryJob, run_id: str, *, now: float) -> RetryJob:
    return structs.replace(
        _released(job, now),
        status=RetryStatus.SUCCEEDED,
        attempts=job.attempts + 1,
        last_run_id=run_id,
        last_error=None,
    )


def discarded(job: RetryJob, reason: EventFailure, why: str, *, now: float) -> RetryJob:
    """Another attempt would not help."""
    return structs.replace(
        _released(job, now),
        status=RetryStatus.DISCARDED,
        last_error=why[:_ERROR_CHARS],
        last_reason_class=reason.reason_class,
        last_reason_code=reason.code,
        last_retry_advice=reason.advice,
    )


def failed(job: RetryJob, reason: EventFailure, why: str, *, base_sec: float, now: float) -> RetryJob:
    """After a failed attempt: to be repeated, escalated after the last one, or discarded."""
    attempts = job.attempts + 1
    after = structs.replace(
        _released(job, now),
        attempts=attempts,
        last_error=why[:_ERROR_CHARS],
        last_reason_class=reason.reason_class,
        last_reason_code=reason.code,
        last_retry_advice=reason.advice,
    )
    if reason.advice is not RetryAdvice.RETRY_WITH_BACKOFF:
        after.status = RetryStatus.DISCARDED
    elif attempts >= job.max_attempts:
        after.status = RetryStatus.ESCALATED
    else:
        after.status = RetryStatus.RETRYING
        after.next_retry_at = now + delay_sec(attempts, base_sec)
    return after


def _released(job: RetryJob, now: float) -> RetryJob:
    return structs.replace(job, claim=None, claimed_until=0.0, updated_at=now)
