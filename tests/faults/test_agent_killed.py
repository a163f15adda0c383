"""kill -9 of worker, executor, coding CLI or gateway in each phase of a request.

Each request ends done, each step is committed once, no commit is lost, and no process of a CLI is left.
Four kills by default; `PYOCO_FAULT_AGENT=full` makes fifty, `PYOCO_FAULT_AGENT=8-16` those of these seeds.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from pyoco_server.agent.flow.work_session import run_params
from pyoco_server.agent.flow.worker_setup import FLOWS_FOLDER, worker_environment
from pyoco_server.agent.run_files import RunFiles
from pyoco_server.config import NatsBackendConfig
from tests.faults.chaos.service import Service
from tests.support.agent.repository import AgentRepository, git
from tests.support.agent.running import TAG, start_run
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.ports import port_to_keep
from tests.support.processes import is_alive
from tests.support.programs import SERVER, WORKER, environment
from tests.support.waiting import LIMIT_SEC, eventually

VICTIMS: Final = ("worker", "executor", "cli", "gateway")
PHASES: Final = ("planning", "implementing", "testing", "documenting", "pushing", "reporting")
WITH_PROGRAMS: Final = ("planning", "implementing", "testing")
# Read here, since no test sees the settings of whoever runs it.
CHOSEN: Final = os.environ.get("PYOCO_FAULT_AGENT")
# How long each program works, so that there is something to interrupt.
WORK_SEC: Final = 0.3
ENDED: Final = ("COMPLETED", "FAILED", "CANCELLED")
_SETTINGS: Final = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "1.5",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.3",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.3",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.5",
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "2",
    "PYOCO_SWEEP_INTERVAL_SEC": "1",
    "PYOCO_MAX_DELIVER": "20",
}


@dataclass(frozen=True)
class Kill:
    """One kill: who, in which phase, and how long after it began."""

    seed: int
    victim: str
    phase: str
    after_sec: float

    @classmethod
    def of(cls, seed: int) -> "Kill":
        """24 seeds in sequence kill every victim in every phase."""
        victim, phase = VICTIMS[seed % len(VICTIMS)], PHASES[seed // len(VICTIMS) % len(PHASES)]
        return cls(seed, victim, phase, random.Random(seed).uniform(0.0, 2 * WORK_SEC))


def _seeds() -> range:
    if CHOSEN is None:
        # Each victim once, each in another phase.
        return range(0, 20, 5)
    first, _, end = ("0-50" if CHOSEN == "full" else CHOSEN).partition("-")
    return range(int(first), int(end))


class AgentStack:
    """A gateway and a worker as processes, around a repository."""

    def __init__(self, folder: Path, nats: NatsServer, repository: AgentRepository) -> None:
        settings = {**_SETTINGS, "PYOCO_NATS_URL": nats.url, "HOME": str(folder)}
        env = environment(**settings)
        port = port_to_keep()
        self.repository = repository
        self.config = NatsBackendConfig.from_env(settings)
        self.gateway = Service("gateway", SERVER, "up", "--port", str(port), folder=folder, env=env)
        self.worker = Service(
            "worker", WORKER, "--flows", str(FLOWS_FOLDER), "--tag", TAG, "--worker-id", "agent",
            folder=folder, env={**env, **worker_environment(repository.settings)},
        )  # fmt: skip
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=LIMIT_SEC, verify=False)

    async def status_of(self, run_id: str) -> dict[str, Any] | None:
        """The run; None while the gateway cannot be asked."""
        with suppress(httpx.HTTPError):
            response = await self.http.get(f"/runs/{run_id}")
            if response.status_code == httpx.codes.OK:
                found: dict[str, Any] = response.json()
                return found
        return None

    async def has_status(self, run_id: str, status: str) -> bool:
        run = await self.status_of(run_id)
        return run is not None and run["status"] == status

    async def answer(self, run_id: str, text: str) -> bool:
        """Whether the answer was accepted; the gateway may not be ready."""
        response = await self.http.post("/resume", json={"runId": run_id, "payload": text})
        return response.status_code == httpx.codes.OK

    def cli_processes(self) -> list[int]:
        """Those of the coding CLI and of the tests that have ever been started."""
        pids = []
        for name in ("calls.log", "tests.log"):
            log = self.repository.cli / name
            lines = log.read_text().splitlines() if log.exists() else []
            pids += [int(line.split(" ")[1]) for line in lines]
        return pids

    def living_programs(self) -> list[int]:
        return [pid for pid in self.cli_processes() if is_alive(pid)]

    async def kill(self, victim: str) -> int:
        """Kill it, and start it again if nobody else does; returns how many processes were killed."""
        if victim == "worker":
            self.worker.kill()
            await self.worker.start()
            return 1
        if victim == "gateway":
            self.gateway.kill()
            await self.gateway.start()
            return 1
        living = self.worker.executors() if victim == "executor" else self.living_programs()
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(living)


@asynccontextmanager
async def agent_stack(folder: Path, nats: NatsServer) -> AsyncIterator[AgentStack]:
    tests_log = folder / "agent" / "cli" / "tests.log"
    write = f"open({str(tests_log)!r}, 'a').write(f'unit {{os.getpid()}}\\n')"
    unit_test = f"import os, time; {write}; time.sleep({WORK_SEC})"
    repository = AgentRepository(folder / "agent", commands={"unitTest": [sys.executable, "-c", unit_test]})
    repository.script(**{"*": [{"pause": WORK_SEC}]})
    hook = repository.origin / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\nsleep {WORK_SEC}\n")
    hook.chmod(0o755)
    stack = AgentStack(folder, nats, repository)
    await stack.gateway.start()
    await stack.worker.start()
    try:
        yield stack
    finally:
        stack.worker.kill()
        stack.gateway.kill()
        await stack.http.aclose()


@pytest.mark.timeout(3600)
async def test_killed_request_ends_done_with_each_step_committed_once(
    tmp_path: Path, own_nats: NatsServer
) -> None:
    hits, kills = 0, [Kill.of(seed) for seed in _seeds()]
    async with agent_stack(tmp_path, own_nats) as stack:
        for kill in kills:
            killed = await _interrupted_request(stack, kill)
            hits += killed > 0
            sys.stdout.write(f"{kill}: {killed} killed\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(kills)} requests, {hits} of them with a killed process\n")
    # A phase may be over before its processes can be killed; most are not.
    assert hits >= len(kills) // 2


async def test_question_is_answered_after_everything_was_killed(tmp_path: Path, own_nats: NatsServer) -> None:
    async with agent_stack(tmp_path, own_nats) as stack:
        repository = stack.repository
        repository.script(S02=[{"question": {"text": "Which colour?"}, "write": {"begun.txt": "x"}}, {}])
        request_id, run_id, files = await _submitted(stack, "Ask me")
        await eventually(lambda: stack.has_status(run_id, "WAITING_HUMAN"), describe="the run asks")
        stack.worker.kill()
        stack.gateway.kill()
        await asyncio.to_thread(own_nats.restart)
        await stack.gateway.start()
        await stack.worker.start()
        assert repository.header(request_id)["status"] == "needs_input"
        await eventually(lambda: stack.answer(run_id, "green"), describe="the answer is accepted")
        await eventually(lambda: stack.has_status(run_id, "COMPLETED"), describe="the run has ended")
        assert repository.calls() == ["planner", "S01", "S02", "S02", "S03"]
        assert "green" in (repository.settings.paths.requests.read(request_id).want or "")
        assert git(repository.origin, "show", f"{repository.branch(request_id)}:begun.txt") == "x\n"
        assert files.stage() is not None


async def _submitted(stack: AgentStack, title: str) -> tuple[str, str, RunFiles]:
    repository = stack.repository
    request_id = repository.request(title)
    async with connected(stack.config) as connection:
        run_id = await start_run(connection, run_params(request_id, "001", repository.repo))
    return request_id, run_id, RunFiles(repository.settings.paths, request_id, "001")


async def _interrupted_request(stack: AgentStack, kill: Kill) -> int:
    request_id, run_id, files = await _submitted(stack, f"Request {kill.seed}")

    def has_begun() -> bool:
        stage = files.stage()
        return stage is not None and (stage.phase == kill.phase or stage.status == "done")

    def is_over() -> bool:
        stage = files.stage()
        return kill.phase not in WITH_PROGRAMS or stage is None or stage.phase != kill.phase

    await eventually(has_begun, describe=f"{kill}: the phase has begun")
    await asyncio.sleep(kill.after_sec)
    if kill.victim == "cli":
        # The moment between two programs is not what this kill is for. The last phases have none.
        await eventually(lambda: stack.living_programs() or is_over(), describe=f"{kill}: a program")
    killed = await stack.kill(kill.victim)

    async def ended() -> dict[str, Any] | None:
        run = await stack.status_of(run_id)
        return run if run is not None and run["status"] in ENDED else None

    run = await eventually(ended, describe=f"{kill}: the run has ended")
    log = (files.path / "runner.log").read_text()
    assert run["status"] == "COMPLETED", f"{kill}: {run['error']}\n{log}"
    _check(stack, request_id, kill, log)
    return killed


def _check(stack: AgentStack, request_id: str, kill: Kill, log: str) -> None:
    repository, branch = stack.repository, stack.repository.branch(request_id)
    keys = repository.step_keys(branch, remote=True)
    assert keys == [f"{request_id}/001/S0{number}" for number in (1, 2, 3)], f"{kill}\n{log}"
    header = repository.header(request_id)
    head = git(repository.origin, "rev-parse", branch).strip()
    assert (header["status"], header["last_commit"]) == ("done", head), f"{kill}\n{log}"
    # Whatever the branch has ever pointed to is still part of it.
    for commit in git(repository.repo, "reflog", "show", "--format=%H", branch).split():
        git(repository.repo, "merge-base", "--is-ancestor", commit, branch)
    assert stack.living_programs() == [], f"{kill}\n{log}"
