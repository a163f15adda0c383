"""The run of a worker that dies or stops resumes after its last finished task."""

import signal
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.records.runs.journal_models import JournalEntry
from tests.integration.worker.conftest import OwnQueue
from tests.support.places import FLOWS
from tests.support.programs import WORKER, Program, running
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import NEVER_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


# Short enough to wait for, and longer than a worker may be held up: or it is given its own run again.
ACK_WAIT_SEC = 2.0


class InterruptedRun:
    """A run that is held in its middle by a worker process, which then goes away."""

    def __init__(self, queue: OwnQueue, folder: Path) -> None:
        self._queue = queue
        self._folder = folder
        self._book = folder / "book"
        self._release = folder / "release"
        self.run_id = ""
        self.ack_wait_sec = ACK_WAIT_SEC

    @property
    def book(self) -> list[str]:
        """Which tasks were executed, in order."""
        return self._book.read_text().splitlines() if self._book.exists() else []

    async def journal(self) -> list[JournalEntry]:
        return await Journal(self._queue.gateway.inside.connection).entries(self._queue.tag, self.run_id)

    async def begin(
        self, flow: str, *, held: str, journalled: int, end: signal.Signals, **params: Any
    ) -> None:
        """Run the flow until the task `held` executes and what went before is journalled; end its worker."""
        settings = {
            "PYOCO_NATS_URL": self._queue.gateway.inside.config.nats_url,
            "PYOCO_CONSUMER_ACK_WAIT_SEC": str(self.ack_wait_sec),
            "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.3",
            "PYOCO_DRAIN_TIMEOUT_SEC": "0.2",
        }
        arguments = ("--flows", str(FLOWS), "--tag", self._queue.tag)
        with running(WORKER, *arguments, cwd=self._folder, **settings) as (worker, _):
            everything = {"book": str(self._book), "release": str(self._release), **params}
            self.run_id = await self._queue.submit(flow, params=everything)
            await eventually(lambda: held in self.book, describe=f"{held} is executed")

            async def known() -> bool:
                return len(await self.journal()) >= journalled

            await eventually(known, describe=f"{journalled} entries are in the journal")
            await _end(worker, end)

    async def goes_on(self) -> dict[str, Any]:
        """The end of the run, once another worker has taken it over."""
        self._release.touch()
        async with self._queue.worker(
            "second", consumer_ack_wait_sec=self.ack_wait_sec, ack_progress_interval_sec=0.3
        ):
            return await self._queue.gateway.ends(self.run_id)


async def _end(worker: Program, how: signal.Signals) -> None:
    worker.send(how)
    await eventually(lambda: worker.process.poll() is not None, describe="the worker has ended")


@pytest.fixture
def interrupted(own_queue: OwnQueue, tmp_path: Path) -> InterruptedRun:
    return InterruptedRun(own_queue, tmp_path)


@pytest.mark.parametrize(
    ("end", "ack_wait_sec"),
    # A worker that stops returns its run; nobody waits for AckWait.
    [(signal.SIGKILL, ACK_WAIT_SEC), (signal.SIGTERM, NEVER_SEC)],
    ids=["killed", "stopped"],
)
async def test_a_chain_resumes_after_its_last_finished_task(
    interrupted: InterruptedRun, end: signal.Signals, ack_wait_sec: float
) -> None:
    interrupted.ack_wait_sec = ack_wait_sec
    await interrupted.begin("interrupted-chain", held="two", journalled=1, end=end)
    run = await interrupted.goes_on()
    assert (run["status"], run["attempt"], run["worker_id"]) == ("COMPLETED", 2, "second")
    assert interrupted.book == ["one", "two", "two", "three"]
    assert run["task_records"]["one"]["replayed"] is True
    assert run["task_records"]["three"]["output"] == "three"


async def test_parallel_branches_resume(interrupted: InterruptedRun) -> None:
    await interrupted.begin("interrupted-branches", held="left", journalled=2, end=signal.SIGKILL)
    assert (await interrupted.goes_on())["status"] == "COMPLETED"
    assert sorted(interrupted.book) == ["end", "left", "left", "right", "start"]


async def test_loops_resume_in_the_right_iteration(interrupted: InterruptedRun) -> None:
    items = ["p", "q"]
    await interrupted.begin("interrupted-loop", held="middle", journalled=4, end=signal.SIGKILL, items=items)
    assert (await interrupted.goes_on())["status"] == "COMPLETED"
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


async def test_the_only_task_of_a_run_leaves_no_journal(served: RunningGateway) -> None:
    run = await served.run("noop")
    assert await Journal(served.inside.connection).entries(run["tag"], run["run_id"]) == []
