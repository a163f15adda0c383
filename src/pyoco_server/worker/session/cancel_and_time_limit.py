"""What ends a run by force while its flow executes: a cancel that it ignores, or the run's time limit.

A cancelled flow is first asked to stop. After the grace period (setting `cancel_grace_period_sec`) its
executor is asked for the outcome, and is then killed with SIGKILL, no SIGTERM before it: see
`ExecutorHandle.force_end`.
"""

import logging
import time

from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from pyoco_server.runs.lifecycle.ownership import OwnedRun
from pyoco_server.worker.executors.executor import RunExecutor

log = logging.getLogger(__name__)


class Cancellation:
    """Asks a cancelled flow to stop, and ends it by force after the grace period."""

    def __init__(self, executor: RunExecutor, *, grace_sec: float) -> None:
        self._executor = executor
        self._grace_sec = grace_sec
        self._requested_at: float | None = None
        # Whether the request allows no grace period.
        self._at_once = False
        self.forced = False

    async def enforce(self, snapshot: RunSnapshot) -> None:
        if snapshot.cancel_requested_at is None:
            return
        now = time.monotonic()
        if self._requested_at is None:
            self._requested_at = now
            self._executor.cancel(snapshot.run_id)
            if snapshot.cancel_force is not True:
                return
        self._at_once = snapshot.cancel_force is True
        if self._at_once or now - self._requested_at > self._grace_sec:
            if not self.forced:
                self.forced = True
                self._log(snapshot.run_id)
            # Repeated while the run lasts: it may have been between two executors.
            await self._executor.force_end(RunStatus.CANCELLED, self.error)

    def _log(self, run_id: str) -> None:
        if self._at_once:
            log.info("the run is ended by force, as requested", extra={"run_id": run_id})
            return
        spec = Err.CANCEL_TIMED_OUT
        log.error("%s: %s", spec.en, self.error, extra=spec.log_fields(run_id=run_id))

    @property
    def error(self) -> str:
        if self._at_once:
            return "the run was ended by force, as the cancel requested"
        return f"the flow did not stop within {self._grace_sec:g} s of the cancel, and was ended by force"


class RunTimeLimit:
    """Ends a run that exceeds its time limit, which excludes the time that it was parked."""

    def __init__(self, owned: OwnedRun, executor: RunExecutor) -> None:
        self._owned = owned
        self._executor = executor
        self._limit_sec = owned.snapshot.timeout_sec
        self.forced = False

    @property
    def is_used_up(self) -> bool:
        return self._limit_sec is not None and self._owned.used_sec >= self._limit_sec

    async def enforce(self) -> None:
        if self.is_used_up:
            if not self.forced:
                self.forced = True
                log.warning("ending a run: %s", self.error, extra={"run_id": self._owned.snapshot.run_id})
            # Repeated while the run lasts: it may have been between two executors.
            await self._executor.force_end(RunStatus.FAILED, self.error)

    @property
    def error(self) -> str:
        return f"the run took longer than its limit of {self._limit_sec:g} s"
