"""What a run leaves in its executor process, such as a patched function, sees no run of another tenant."""

import asyncio
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.queue import intake
from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.executors import executor_handle
from tests.support.running.tenants import Tenant, having_tenants
from tests.support.running.workers import serving_worker
from tests.support.waiting import NEVER_SEC

FLOWS = textwrap.dedent("""
    import builtins, os
    from pyoco import Flow, task

    @task
    def spy(path):
        whole = len

        def patched(value):
            with open(path, "a") as file:
                file.write(f"{value}\\n")
            return whole(value)

        builtins.len = patched
        return os.getpid()

    @task
    def use(secret, path):
        if len(secret):
            with open(path, "a") as file:
                file.write(f"{secret}\\n")
        return os.getpid()

    spying = Flow("spying") >> spy
    using = Flow("using") >> use
""")


class Stack:
    """Two tenants, and a worker with one slot or more."""

    def __init__(
        self, folder: Path, tenants: list[Tenant], worker: Callable[[], AbstractAsyncContextManager[Any]]
    ) -> None:
        self.acme, self.other = tenants
        self.seen, self.used = folder / "seen", folder / "used"
        self.worker = worker

    async def spy(self) -> int:
        run = await self.acme.run("spying", params={"path": str(self.seen)})
        return pid_of(run, "spy")

    async def use(self, tenant: Tenant, secret: str) -> int:
        run_id = await self.submit(tenant, secret)
        return pid_of(await tenant.ends(run_id), "use")

    async def submit(self, tenant: Tenant, secret: str) -> str:
        return await tenant.submit("using", params={"secret": secret, "path": str(self.used)})

    def was_seen(self, secret: str) -> bool:
        return self.seen.exists() and secret in self.seen.read_text()


def pid_of(run: dict[str, Any], task: str) -> int:
    assert run["status"] == "COMPLETED", run["error"]
    return int(run["task_records"][task]["output"])


@asynccontextmanager
async def stack(
    config: NatsBackendConfig,
    folder: Path,
    *,
    concurrency: int = 1,
    executor_reuse: str = "tenant",
    is_served: bool = True,
) -> AsyncIterator[Stack]:
    flows = folder / "flows"
    flows.mkdir()
    (flows / "tenant_flows.py").write_text(FLOWS)
    settings = replace(config, executor_reuse=executor_reuse)
    worker = partial(serving_worker, settings, flows=flows, concurrency=concurrency)
    async with having_tenants(config, "acme", "other") as tenants, worker() if is_served else nullcontext():
        yield Stack(folder, tenants, worker)


async def test_by_default_a_patched_function_sees_no_run_of_another_tenant(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    async with stack(config, tmp_path) as running:
        spying = await running.spy()
        assert await running.use(running.acme, "own-secret") == spying, "a tenant's runs share a process"
        assert running.was_seen("own-secret"), "the attack works"
        assert await running.use(running.other, "foreign-secret") != spying
        assert await running.use(running.acme, "late") != spying
        assert not running.was_seen("foreign-secret")
        assert not running.was_seen("late")


async def test_never_gives_each_run_a_process(config: NatsBackendConfig, tmp_path: Path) -> None:
    async with stack(config, tmp_path, executor_reuse="never") as running:
        spying = await running.spy()
        pids = [await running.use(tenant, "a-secret") for tenant in (running.acme, running.other) * 2]
        assert len({spying, *pids}) == 5
        assert not running.was_seen("a-secret")


async def test_always_shares_a_process_between_tenants(config: NatsBackendConfig, tmp_path: Path) -> None:
    async with stack(config, tmp_path, executor_reuse="always") as running:
        spying = await running.spy()
        assert await running.use(running.other, "foreign-secret") == spying
        assert running.was_seen("foreign-secret")


async def test_tenants_keep_their_processes_while_there_are_enough(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    async with stack(config, tmp_path, concurrency=2) as running:
        tenants = (running.acme, running.other)
        first = [await running.use(tenant, "x") for tenant in tenants]
        assert len(set(first)) == 2
        assert [await running.use(tenant, "x") for tenant in tenants * 3] == first * 3


@pytest.mark.parametrize(("reuse", "concurrency"), [("tenant", 1), ("tenant", 2), ("never", 2)])
async def test_queued_runs_of_alternating_tenants_are_executed_once(
    config: NatsBackendConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reuse: str,
    concurrency: int,
) -> None:
    # As many runs as possible are queued at an executor.
    monkeypatch.setattr(intake, "_SHORT_RUN_SEC", NEVER_SEC)
    monkeypatch.setattr(executor_handle, "_QUEUE_SEC", NEVER_SEC)
    monkeypatch.setattr(executor_handle, "_RECALL_AFTER_SEC", NEVER_SEC)
    async with stack(
        config, tmp_path, concurrency=concurrency, executor_reuse=reuse, is_served=False
    ) as running:
        tenants = [running.acme] * 6 + [running.other] * 4 + [running.acme, running.other] * 2
        submitted = [await running.submit(tenant, f"run-{number}") for number, tenant in enumerate(tenants)]
        async with running.worker():
            ends = (tenant.ends(run_id) for tenant, run_id in zip(tenants, submitted, strict=True))
            runs = await asyncio.gather(*ends)
    served: dict[int, set[str]] = {}
    for run, tenant in zip(runs, tenants, strict=True):
        served.setdefault(pid_of(run, "use"), set()).add(tenant.tenant_id)
    assert all(len(found) == 1 for found in served.values())
    assert len(served) == len(tenants) or reuse == "tenant"
    assert sorted(running.used.read_text().split()) == sorted(f"run-{n}" for n in range(len(tenants)))
