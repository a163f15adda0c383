"""A place of a worker for one executor process, which is replaced when it has exited.

A process executes runs of one tenant only, unless `PYOCO_EXECUTOR_REUSE` says otherwise: a function that a
task has patched stays in the process, and sees the params of later runs. A run of another tenant gets a new
process.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from pyoco_server.worker.executors.executor import ExecutorFailedToStart
from pyoco_server.worker.executors.executor_handle import ExecutorHandle
from pyoco_server.worker.executors.executor_template import ExecutorTemplate
from pyoco_server.worker.ipc.protocol import Ready, Setup

log = logging.getLogger(__name__)

# In place of a tenant: the process has had no run yet.
_NO_RUN_YET: Final = object()


class RenewableExecutor:
    """A place for one executor process: keeps it warm between runs, and replaces it when it has exited."""

    def __init__(
        self,
        setup: Setup,
        *,
        reuse: str = "tenant",
        template: ExecutorTemplate | None = None,
        versions: dict[str, str] | None = None,
    ) -> None:
        """`reuse` is the setting `executor_reuse`. Without a template, processes are new interpreters.

        Executors with the same `versions` share what is known of the version of the code.
        """
        self._setup = setup
        self._versions = {} if versions is None else versions
        self._template = template
        self._reuse = reuse
        self.child: ExecutorHandle | None = None
        # Whose runs the child has had.
        self._tenant: object = _NO_RUN_YET
        self._renewal: asyncio.Task[None] | None = None
        self._retired = False
        self._starting = False
        # The import folders of the child.
        self._code: Sequence[str] = ()
        # The flows that the child has found.
        self.ready = Ready()
        # Of each file, those that it had when it could be loaded.
        self._flows_of_files: dict[str, list[str]] = {}

    async def start(self) -> ExecutorHandle:
        """A usable child, or ExecutorFailedToStart."""
        if self._renewal is not None:
            await asyncio.wait({self._renewal})
            self._renewal = None
        if self.child is not None and self.child.is_usable and not self._retired:
            return self.child
        return await self._replace()

    async def start_for(self, tenant: str | None) -> ExecutorHandle:
        """A usable child that executes the next run of this tenant, or ExecutorFailedToStart."""
        child = await self.start()
        if not self.may_run(tenant):
            child = await self._replace()
        self._tenant = tenant
        return child

    def may_run(self, tenant: str | None) -> bool:
        """Whether the child may execute a run of this tenant after those that it has had."""
        if self._tenant is _NO_RUN_YET or self._reuse == "always":
            return True
        return self._reuse == "tenant" and self._tenant == tenant

    @property
    def is_fresh(self) -> bool:
        return self._tenant is _NO_RUN_YET

    def renew(self) -> None:
        """Start a new child now, if the present one may not have another run."""
        if self._reuse == "never" and not self.is_fresh and self._renewal is None:
            self._renewal = asyncio.create_task(self._renew(), name="executor-renewal")

    async def _renew(self) -> None:
        try:
            await self._replace()
        except ExecutorFailedToStart as error:
            log.warning("no executor could be started; the next run tries again: %s", error)

    async def _replace(self) -> ExecutorHandle:
        self._starting = True
        try:
            return await self._spawn()
        finally:
            self._starting = False

    async def _spawn(self) -> ExecutorHandle:
        await self._close_child()
        self._retired = False
        self._tenant = _NO_RUN_YET
        self._code = self._setup.code_folders
        try:
            child = self.child = await ExecutorHandle.spawn(self._with_versions(self._setup), self._template)
        except OSError as error:
            raise ExecutorFailedToStart(f"no process could be started: {error}") from error
        self.ready = await child.wait_ready()
        if self.ready.error is not None:
            await self._close_child()
            raise ExecutorFailedToStart(self.ready.error)
        self._learn_version(self.ready)
        self._flows_of_files.update(self.ready.flows_of_files)
        # Once is enough: `describe` asks again after a change.
        self._setup = structs.replace(self._setup, describe_flows=False)
        return child

    async def describe(self) -> Ready:
        """The flows as a new process loads them now, which then ends; ExecutorFailedToStart if it cannot."""
        setup = structs.replace(self._setup, describe_flows=True, earlier_flows=self._flows_of_files)
        try:
            child = await ExecutorHandle.spawn(self._with_versions(setup), self._template)
        except OSError as error:
            raise ExecutorFailedToStart(f"no process could be started: {error}") from error
        try:
            ready = await child.wait_ready()
        finally:
            await child.close()
        if ready.error is not None:
            raise ExecutorFailedToStart(ready.error)
        self._learn_version(ready)
        failed = {file: names for file, names in self._flows_of_files.items() if file in ready.failures}
        self._flows_of_files = failed | ready.flows_of_files
        return ready

    def _with_versions(self, setup: Setup) -> Setup:
        return structs.replace(setup, known_versions=dict(self._versions))

    def _learn_version(self, ready: Ready) -> None:
        if ready.code_key:
            # Only that of the present code: an earlier one hardly comes back.
            self._versions.clear()
            self._versions[ready.code_key] = ready.code_version

    @property
    def code_folders(self) -> Sequence[str]:
        """The folders of wheels that the next child imports from."""
        return self._setup.code_folders

    @property
    def capacity(self) -> int:
        """How many runs of the tenant that the child has now may be queued there."""
        if self.child is None or self._retired or self._reuse == "never":
            return 0
        return self.child.capacity

    @property
    def is_long_running(self) -> bool:
        return self.child is not None and self.child.is_long_running

    def retire(self) -> None:
        self._retired = True
        self.recall_queued()

    def recall_queued(self) -> None:
        if self.child is not None:
            self.child.recall()

    def use_code(self, folders: Sequence[str]) -> None:
        self._setup = structs.replace(self._setup, code_folders=list(folders))
        self.retire()

    @property
    def code_in_use(self) -> Sequence[str]:
        is_busy = self._starting or (self.child is not None and self.child.current is not None)
        return self._code if is_busy else ()

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait({self._renewal})
        await self._close_child()

    async def _close_child(self) -> None:
        child, self.child = self.child, None
        if child is not None:
            await child.close()
