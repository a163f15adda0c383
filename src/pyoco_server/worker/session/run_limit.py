"""The time limit of a whole run: counted from its first start, without the time that it waited for people."""

import logging

from pyoco_server.records.models import RunStatus
from pyoco_server.runs.lifecycle.ownership import OwnedRun
from pyoco_server.worker.executors.executor import RunExecutor

log = logging.getLogger(__name__)


class RunLimit:
    """Looked at while the run lasts; acts when the time is up."""

    def __init__(self, owned: OwnedRun, executor: RunExecutor) -> None:
        self._owned = owned
        self._executor = executor
        self._limit_sec = owned.snapshot.timeout_sec
        self.exceeded = False

    @property
    def passed(self) -> bool:
        return self._limit_sec is not None and self._owned.used_sec >= self._limit_sec

    async def pursue(self) -> None:
        if self.passed:
            if not self.exceeded:
                self.exceeded = True
                log.warning("ending a run: %s", self.verdict, extra={"run_id": self._owned.snapshot.run_id})
            # Again and again while the run lasts: it may have been between two executors.
            await self._executor.give_up(RunStatus.FAILED, self.verdict)

    @property
    def verdict(self) -> str:
        return f"the run took longer than its limit of {self._limit_sec:g} s"
