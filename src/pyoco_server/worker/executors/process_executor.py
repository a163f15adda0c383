"""A slot for one executor process: keeps it warm between runs, and replaces it when it has exited."""

from collections.abc import Sequence

from msgspec import structs

from pyoco_server.worker.executors.child_process import ChildProcess
from pyoco_server.worker.executors.executor import ExecutorFailedToStart
from pyoco_server.worker.ipc.protocol import Ready, Setup


class ProcessExecutor:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.child: ChildProcess | None = None
        self._retired = False
        self._starting = False
        # The import folders of the child.
        self._code: Sequence[str] = ()
        # The flows that the child has found.
        self.ready = Ready()

    async def start(self) -> ChildProcess:
        """A usable child, or ExecutorFailedToStart."""
        if self.child is not None and self.child.is_usable and not self._retired:
            return self.child
        self._starting = True
        try:
            return await self._replace()
        finally:
            self._starting = False

    async def _replace(self) -> ChildProcess:
        await self.close()
        self._retired = False
        self._code = self._setup.code_folders
        try:
            child = self.child = await ChildProcess.spawn(self._setup)
        except OSError as error:
            raise ExecutorFailedToStart(f"no process could be started: {error}") from error
        self.ready = await child.wait_ready()
        if self.ready.error is not None:
            await self.close()
            raise ExecutorFailedToStart(self.ready.error)
        return child

    @property
    def capacity(self) -> int:
        return 0 if self.child is None or self._retired else self.child.capacity

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
        child, self.child = self.child, None
        if child is not None:
            await child.close()
