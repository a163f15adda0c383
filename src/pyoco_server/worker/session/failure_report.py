"""Reports a failed run: one log line with its ids, and one dead letter."""

import logging
import time

from msgspec import structs

from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err, ErrorSpec
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import Job, Reason
from pyoco_server.telemetry.logging_config import exception_fields, redact_exception
from pyoco_server.worker.ipc.protocol import Outcome

log = logging.getLogger(__name__)

_ERROR_CHARS = 8192
# Separates how an executor ended from its last output.
LAST_OUTPUT = "; its last output: "

# A time limit that the worker enforces ends a run without an exception.
_EXCEPTION_OF_REASON: dict[str | None, str] = {
    Reason.TIMEOUT: "TimeoutError",
    Reason.HUMAN_TIMEOUT: "TimeoutError",
}


class FailureReport:
    def __init__(self, letters: DeadLetters, *, worker_id: str, publish_execution_errors: bool) -> None:
        self._letters = letters
        self._worker_id = worker_id
        self._publish_execution_errors = publish_execution_errors

    async def report(self, job: Job, delivery: Delivery, outcome: Outcome) -> None:
        spec = Err.FLOW_NOT_FOUND if outcome.reason == Reason.FLOW_NOT_FOUND else Err.EXECUTION_FAILED
        # A user's exception often quotes its input; neither params nor output may reach the log.
        reported = (outcome.error or "").partition(LAST_OUTPUT)[0]
        error, trace = redact_exception(reported, outcome.exc_traceback or "", [job.params])
        context = {"run_id": job.run_id, "flow_name": job.flow_name, "tag": job.tag, "reason": outcome.reason}
        exception = {
            "exc_type": outcome.exc_type or _EXCEPTION_OF_REASON.get(outcome.reason),
            "exc_message": error,
            "exc_traceback": trace,
            "exc_origin": None if outcome.exc_origin is None else structs.asdict(outcome.exc_origin),
        }
        self._log(spec, error, **context, **{key: value for key, value in exception.items() if value})
        if outcome.reason == Reason.EXECUTION_ERROR and not self._publish_execution_errors:
            return
        letter = self._letter(delivery, str(outcome.reason), outcome.error)
        letter.run_id, letter.flow_name, letter.tags = job.run_id, job.flow_name, job.tags
        letter.tenant_id = job.tenant_id
        await self._publish(letter, delivery.tag)

    async def report_invalid(
        self, delivery: Delivery, run_id: str | None, error: str, cause: Exception, *, tenant_id: str | None
    ) -> None:
        """A job that could not be decoded; its tenant is known if its run is."""
        context = {"run_id": run_id, "tag": delivery.tag, "reason": Reason.INVALID_JOB}
        self._log(Err.INVALID_JOB, error, **context, **exception_fields(cause))
        letter = self._letter(delivery, Reason.INVALID_JOB, error)
        letter.run_id, letter.tenant_id = run_id, tenant_id
        await self._publish(letter, delivery.tag)

    def _log(self, spec: ErrorSpec, detail: str, **context: object) -> None:
        log.error("%s: %s", spec.en, detail, extra=spec.log_fields(worker_id=self._worker_id, **context))

    def _letter(self, delivery: Delivery, reason: str, error: str | None) -> DeadLetter:
        return DeadLetter(
            timestamp=time.time(),
            reason=reason,
            error=error[:_ERROR_CHARS] if error else error,
            tag=delivery.tag,
            worker_id=self._worker_id,
            num_delivered=delivery.number,
            subject=delivery.subject,
        )

    async def _publish(self, letter: DeadLetter, tag: str) -> None:
        try:
            await self._letters.publish(letter, tag=tag)
        except NatsUnavailable as error:
            # Best effort by contract: the run's snapshot has the same error.
            context = {"run_id": letter.run_id, "tag": tag, "reason": letter.reason}
            self._log(Err.DLQ_PUBLISH_FAILED, str(error), **context, **exception_fields(error))
