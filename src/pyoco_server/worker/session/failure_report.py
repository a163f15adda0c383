"""Reports a failed run: one log line with its ids, and one dead letter."""

import logging
import time

from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.broker.stores.dead_letters import DeadLetters
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err, ErrorSpec
from pyoco_server.records.models import DeadLetter, Job, Reason
from pyoco_server.telemetry.logging_config import redact_exception
from pyoco_server.worker.ipc.protocol import Outcome

log = logging.getLogger(__name__)

_ERROR_CHARS = 8192
# Separates how an executor ended from its last output.
LAST_OUTPUT = "; its last output: "


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
        exception = {"exc_type": outcome.exc_type, "exc_message": error, "exc_traceback": trace}
        self._log(spec, error, **context, **{key: value for key, value in exception.items() if value})
        if outcome.reason == Reason.EXECUTION_ERROR and not self._publish_execution_errors:
            return
        letter = self._letter(delivery, str(outcome.reason), outcome.error)
        letter.run_id, letter.flow_name, letter.tags = job.run_id, job.flow_name, job.tags
        letter.tenant_id = job.tenant_id
        await self._publish(letter, delivery.tag)

    async def report_invalid(
        self, delivery: Delivery, run_id: str | None, error: str, *, tenant_id: str | None = None
    ) -> None:
        """A job that could not be decoded; its tenant is known if its run is."""
        self._log(Err.INVALID_JOB, error, run_id=run_id, tag=delivery.tag, reason=Reason.INVALID_JOB)
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
            self._log(Err.DLQ_PUBLISH_FAILED, str(error), run_id=letter.run_id, reason=letter.reason)
