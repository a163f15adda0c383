"""Which executor of a worker gets a run, by the tenants whose runs its process has had."""

from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.worker.executors import renewable_executor
from pyoco_server.worker.executors.executor_pool import ExecutorPool
from pyoco_server.worker.executors.renewable_executor import RenewableExecutor
from pyoco_server.worker.ipc.protocol import Run, Setup

NO_EVENTS: Any = None


class Places:
    """Executors without processes, each of which ends a run at once."""

    def __init__(self, count: int, reuse: str = "tenant") -> None:
        self.executors = [_Executor(Setup(), reuse=reuse) for _ in range(count)]
        self.pool = ExecutorPool(self.executors, allowance=0)

    async def run(self, tenant: str | None) -> int:
        """The number of the executor that gets it."""
        executor = await self.begin(tenant)
        self.pool.release(executor)
        return self.executors.index(executor)

    async def begin(self, tenant: str | None) -> "_Executor":
        await self.pool.reserve()
        run = Run(run_id="r", flow_name="f", params=b"{}", tenant_id=tenant)
        assignment = self.pool.assign(run, NO_EVENTS, reserved=True, may_queue=True)
        assert assignment is not None
        executor, queued = assignment
        assert queued is None
        assert isinstance(executor, _Executor)
        await executor.start_for(tenant)
        return executor

    @property
    def starts(self) -> list[int]:
        return [executor.starts for executor in self.executors]


class _Executor(RenewableExecutor):
    starts = 0

    async def _spawn(self) -> Any:
        self.starts += 1
        self._tenant = renewable_executor._NO_RUN_YET
        self.child = SimpleNamespace(is_usable=True, capacity=0)  # type: ignore[assignment]
        return self.child


async def test_a_tenant_returns_to_its_process() -> None:
    places = Places(3)
    chosen = [await places.run(tenant) for tenant in ("a", "b", "a", "b", "a")]
    assert chosen == [chosen[0], chosen[1], chosen[0], chosen[1], chosen[0]]
    assert sorted(places.starts) == [0, 1, 1]


async def test_a_fresh_process_is_used_before_one_is_replaced() -> None:
    places = Places(2)
    first, second = await places.run("a"), await places.run("b")
    assert first != second
    assert places.starts == [1, 1]


async def test_the_process_that_was_idle_for_longest_is_replaced() -> None:
    places = Places(2)
    a, b = await places.run("a"), await places.run("b")
    assert await places.run("a") == a
    assert await places.run("c") == b
    assert places.starts[b] == 2
    assert places.starts[a] == 1


async def test_a_busy_process_is_not_waited_for() -> None:
    places = Places(2)
    busy = await places.begin("a")
    assert places.executors[await places.run("a")] is not busy


@pytest.mark.parametrize(
    ("reuse", "tenants", "starts"),
    [
        ("tenant", [None, None, None], 1),
        ("tenant", ["a", None, "a"], 3),
        ("tenant", ["a", "a", "b", "b"], 2),
        ("always", ["a", "b", None], 1),
        ("never", [None, None, None], 3),
        ("never", ["a", "a"], 2),
    ],
)
async def test_starts_of_the_only_process(reuse: str, tenants: list[str | None], starts: int) -> None:
    places = Places(1, reuse)
    for tenant in tenants:
        executor = await places.begin(tenant)
        places.pool._queueing = False  # nothing is started in the background
        places.pool.release(executor)
    assert places.starts == [starts]
