"""An executor inside this process, for a worker that is embedded in a program or a test.

The engine swaps the process's stdout while a flow runs, so that there is one at a time.
"""

import asyncio

from pyoco_server.worker.callable_policy import CallablePolicy
from pyoco_server.worker.executor import ExecutorCrashed
from pyoco_server.worker.flow_run import FlowRun
from pyoco_server.worker.flow_source import FlowResolver, FlowSource
from pyoco_server.worker.protocol import Outcome, Progress, Run


class ThreadExecutor:
    """Runs flows on a thread of this process; a flow that does not stop by itself cannot be killed."""

    def __init__(self, resolver: FlowResolver, policy: CallablePolicy) -> None:
        self._source = FlowSource(resolver, policy)
        self._current: FlowRun | None = None
        self._abandoned = asyncio.Event()

    async def execute(self, run: Run) -> Outcome:
        prepared = await asyncio.to_thread(self._source.prepare, run)
        if isinstance(prepared, Outcome):
            return prepared
        self._current = prepared
        self._abandoned = asyncio.Event()
        execution = asyncio.ensure_future(asyncio.to_thread(prepared.execute))
        abandoned = asyncio.ensure_future(self._abandoned.wait())
        try:
            await asyncio.wait([execution, abandoned], return_when=asyncio.FIRST_COMPLETED)
            if execution.done():
                return execution.result()
            raise ExecutorCrashed("the flow did not stop; its thread was left behind")
        finally:
            abandoned.cancel()
            self._current = None

    def progress(self) -> Progress | None:
        return None if self._current is None else self._current.progress()

    def cancel(self, run_id: str) -> None:
        if self._current is not None and self._current.run_id == run_id:
            self._current.cancel()

    def retire(self) -> None:
        """Nothing to do: the code is this program's own."""

    async def abandon(self) -> None:
        """Stop waiting for the flow; a thread cannot be killed, so it is asked to stop and left behind."""
        if self._current is not None:
            self._current.cancel()
        self._abandoned.set()

    async def close(self) -> None:
        await self.abandon()
