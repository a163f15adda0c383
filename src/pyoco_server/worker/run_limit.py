"""The time limit of a whole run: counted from its first start, without the time that it waited for people."""

import logging
import time

from pyoco_server.models import RunSnapshot, RunStatus
from pyoco_server.worker.executor import RunExecutor

log = logging.getLogger(__name__)


class RunLimit:
    """Looked at while the run lasts; acts when the time is up."""

    def __init__(self, snapshot: RunSnapshot, executor: RunExecutor) -> None:
        self._executor = executor
        self._limit_sec = snapshot.timeout_sec
        # Nobody is to hurry because somebody else's run has a limit.
        self._started_at = (snapshot.start_time or time.time()) + (snapshot.waited_sec or 0.0)
        self.exceeded = False

    @property
    def passed(self) -> bool:
        return self._limit_sec is not None and time.time() - self._started_at >= self._limit_sec

    async def pursue(self, snapshot: RunSnapshot) -> None:
        if self.passed:
            if not self.exceeded:
                self.exceeded = True
                log.warning("ending a run: %s", self.verdict, extra={"run_id": snapshot.run_id})
            # Again and again while the run lasts: it may have been between two executors.
            await self._executor.give_up(RunStatus.FAILED, self.verdict)

    @property
    def verdict(self) -> str:
        return f"the run took longer than its limit of {self._limit_sec:g} s"
