"""Why an event has started nothing, as the audit and the retry queue name it."""

from dataclasses import dataclass
from typing import Final

from pyoco_server import errors
from pyoco_server.records.triggers.workflow_event_models import EventReason, EventStatus, RetryAdvice


@dataclass(frozen=True, slots=True)
class EventFailure:
    status: EventStatus
    reason_class: EventReason
    code: str
    advice: RetryAdvice


DUPLICATE: Final = EventFailure(
    EventStatus.SKIPPED, EventReason.DUPLICATE, "duplicate_idempotency_key", RetryAdvice.DO_NOT_RETRY
)
EXCEPTION: Final = EventFailure(
    EventStatus.FAILED, EventReason.INFRA, "exception", RetryAdvice.RETRY_WITH_BACKOFF
)


def _rejected(
    kind: EventReason, code: str, advice: RetryAdvice = RetryAdvice.RETRY_AFTER_FIX
) -> EventFailure:
    return EventFailure(EventStatus.REJECTED, kind, code, advice)


_REASONS: Final[dict[type[Exception], EventFailure]] = {
    errors.EventTokenInvalid: _rejected(EventReason.AUTH, "http_401"),
    errors.TemplateNotFound: _rejected(EventReason.TEMPLATE_NOT_FOUND, "http_404"),
    errors.TemplateConflict: _rejected(EventReason.TEMPLATE_CONFLICT, "http_409"),
    errors.ActionNotExecutable: _rejected(EventReason.UNSUPPORTED_ACTION, "unsupported_action"),
    errors.EventInvalid: _rejected(EventReason.VALIDATION, "invalid_year_month"),
    errors.TemplateBusy: _rejected(EventReason.RUN_CONFLICT, "http_409", RetryAdvice.RETRY_WITH_BACKOFF),
}
# A body that is not what it has to be: sending it again does not help.
MALFORMED: Final = _rejected(EventReason.VALIDATION, "http_422")


def reason_of(error: Exception) -> EventFailure:
    """The row of the failure table for this error."""
    if (known := _REASONS.get(type(error))) is not None:
        return known
    if isinstance(error, errors.PyocoError) and not isinstance(error, errors.NatsUnavailable):
        code = f"http_{error.error.status or 500}"
        return EventFailure(EventStatus.FAILED, EventReason.INFRA, code, RetryAdvice.RETRY_WITH_BACKOFF)
    return EXCEPTION
