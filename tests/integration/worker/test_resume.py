"""The run of a worker that dies or stops resumes after its last finished task."""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import JournalEntry
from tests.support.places import FLOWS
from tests.support.programs import WORKER, Program, running
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import NEVER_SEC, eventually


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """Short enough to wait for, and longer than a worker may be held up: or it is given its own run again."""
    return replace(config, consumer_ack_wait_sec=2.0, ack_progress_interval_sec=0.3)


class InterruptedRun:
    """A run that is held in its middle by a worker process, which then goes away."""

    def __init__(self, config: NatsBackendConfig, gateway: RunningGateway, folder: Path) -> None:
        self._config = config
        self._gateway = gateway
        self._folder = folder
        self._book = folder / "book"
        self._release = folder / "release"
        self.run_id = ""

    @property
    def book(self) -> list[str]:
        """Which tasks were executed, in order."""
        return self._book.read_text().splitlines() if self._book.exists() else []

    async def journal(self) -> list[JournalEntry]:
        return await Journal(self._gateway.inside.connection).entries(self.run_id)

    async def begin(
        self, flow: str, *, held: str, journalled: int, end: signal.Signals, **params: Any
    ) -> None:
        """Run the flow until the task `held` executes and what went before is journalled; end its worker."""
        settings = {
            "PYOCO_NATS_URL": self._config.nats_url,
            "PYOCO_CONSUMER_ACK_WAIT_SEC": str(self._config.consumer_ack_wait_sec),
            "PYOCO_ACK_PROGRESS_INTERVAL_SEC": str(self._config.ack_progress_interval_sec),
            "PYOCO_DRAIN_TIMEOUT_SEC": "0.2",
        }
        with running(WORKER, "--flows", str(FLOWS), cwd=self._folder, **settings) as (worker, _):
            everything = {"book": str(self._book), "release": str(self._release), **params}
            self.run_id = await self._gateway.submit(flow, params=everything)
            await eventually(lambda: held in self.book, describe=f"{held} is executed")

            async def known() -> bool:
                return len(await self.journal()) >= journalled

            await eventually(known, describe=f"{journalled} entries are in the journal")
            await _end(worker, end)

    async def goes_on(self) -> dict[str, Any]:
        """The end of the run, once another worker has taken it over."""
        self._release.touch()
        async with serving_worker(self._config, worker_id="second"):
            return await self._gateway.ends(self.run_id)


async def _end(worker: Program, how: signal.Signals) -> None:
    worker.send(how)
    await eventually(lambda: worker.process.poll() is not None, describe="the worker has ended")


@pytest.fixture
def interrupted(config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path) -> InterruptedRun:
    return InterruptedRun(config, gateway, tmp_path)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_chain_resumes_after_its_last_finished_task(
    interrupted: InterruptedRun, end: signal.Signals
) -> None:
    await interrupted.begin("interrupted-chain", held="two", journalled=1, end=end)
    run = await interrupted.goes_on()
    assert (run["status"], run["attempt"], run["worker_id"]) == ("COMPLETED", 2, "second")
    assert interrupted.book == ["one", "two", "two", "three"]
    assert run["task_records"]["one"]["replayed"] is True
    assert run["task_records"]["three"]["output"] == "three"


async def test_parallel_branches_resume(interrupted: InterruptedRun) -> None:
    await interrupted.begin("interrupted-branches", held="left", journalled=2, end=signal.SIGKILL)
    run = await interrupted.goes_on()
    assert run["status"] == "COMPLETED"
    assert sorted(interrupted.book) == ["end", "left", "left", "right", "start"]


async def test_loops_resume_in_the_right_iteration(interrupted: InterruptedRun) -> None:
    await interrupted.begin(
        "interrupted-loop", held="middle", journalled=4, end=signal.SIGKILL, items=["p", "q"]
    )
    run = await interrupted.goes_on()
    assert run["status"] == "COMPLETED", run["error"]
    turns = [f"turn@repeat[{number}]" for number in range(3)]
    assert interrupted.book[:6] == ["begin", *turns, "middle", "middle"]
    assert [line.partition("@")[0] for line in interrupted.book[6:]] == ["turn_again"] * 2


async def test_a_step_of_the_task_in_flight_is_not_executed_again(interrupted: InterruptedRun) -> None:
    await interrupted.begin("stepping", held="charge", journalled=1, end=signal.SIGKILL)
    run = await interrupted.goes_on()
    assert run["task_records"]["charge_twice"]["output"] == ["charged", "charged"]
    assert interrupted.book == ["charge", "charge"]


async def test_a_result_larger_than_a_message_is_replayed(interrupted: InterruptedRun) -> None:
    size = 3_000_000
    await interrupted.begin("large-result", held="hold", journalled=1, end=signal.SIGKILL, size=size)
    run = await interrupted.goes_on()
    assert run["task_records"]["measure"]["output"] == size
    assert interrupted.book == ["make", "hold", "hold"]


async def test_an_unstorable_result_is_computed_again(
    interrupted: InterruptedRun,
) -> None:
    await interrupted.begin("unstorable-result", held="hold", journalled=0, end=signal.SIGKILL)
    run = await interrupted.goes_on()
    assert interrupted.book == ["make", "hold", "make", "hold"]
    assert "cannot be stored" in run["task_records"]["make"]["not_journalled"]


async def test_a_stopping_worker_returns_its_run_without_waiting_for_ack_wait(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    patient = replace(config, consumer_ack_wait_sec=NEVER_SEC)
    interrupted = InterruptedRun(patient, gateway, tmp_path)
    await interrupted.begin("interrupted-chain", held="two", journalled=1, end=signal.SIGTERM)
    run = await interrupted.goes_on()
    assert (run["status"], run["attempt"]) == ("COMPLETED", 2)
    assert interrupted.book == ["one", "two", "two", "three"]


async def test_the_only_task_of_a_run_leaves_no_journal(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run_id = await gateway.submit("noop")
        await gateway.ends(run_id)
        assert await Journal(gateway.inside.connection).entries(run_id) == []
