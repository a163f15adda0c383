"""The wish to cancel a run of this worker: the flow is asked to stop, then ended by force."""

import logging
import time

from pyoco_server.errors.error_table import Err
from pyoco_server.records.models import RunSnapshot, RunStatus
from pyoco_server.worker.executors.executor import RunExecutor

log = logging.getLogger(__name__)


class Cancellation:
    """Looked at whenever the run's snapshot is known anew; acts once on the wish, and then on its delay."""

    def __init__(self, executor: RunExecutor, *, grace_sec: float) -> None:
        self._executor = executor
        self._grace_sec = grace_sec
        self._asked_at: float | None = None
        self.forced = False

    async def pursue(self, snapshot: RunSnapshot) -> None:
        if snapshot.cancel_requested_at is None:
            return
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._executor.cancel(snapshot.run_id)
        elif now - self._asked_at > self._grace_sec:
            if not self.forced:
                self.forced = True
                spec = Err.CANCEL_TIMED_OUT
                log.error("%s: %s", spec.en, self.verdict, extra=spec.log_fields(run_id=snapshot.run_id))
            # Again and again while the run lasts: it may have been between two executors.
            await self._executor.give_up(RunStatus.CANCELLED, self.verdict)

    @property
    def verdict(self) -> str:
        return f"the flow did not stop within {self._grace_sec:g} s of the cancel, and was ended by force"
