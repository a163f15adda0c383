"""kill -9 of a worker at each point of the way of a run that waits: nothing is lost, asked or done twice."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState
from tests.support.broker.stored_waits import let_expire
from tests.support.places import FLOWS, ROOT
from tests.support.programs import Program, announcing
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """A message comes again soon after its worker has died."""
    return replace(config, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.3)


@contextmanager
def crashing_worker(config: NatsBackendConfig, point: str) -> Iterator[Program]:
    arguments = (point, "--flows", str(FLOWS), "--worker-id", "dying", "--nats-url", config.nats_url)
    settings = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": str(config.consumer_ack_wait_sec),
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": str(config.ack_progress_interval_sec),
    }
    # It may kill itself before it is ready.
    with announcing("tests.support.running.crashing_worker", *arguments, cwd=ROOT, **settings) as (
        program,
        _,
    ):
        yield program


class Approval:
    """A run that asks, and what it has done so far."""

    flow = "approval"
    parked = "WAITING_HUMAN"

    def __init__(self, gateway: RunningGateway, folder: Path) -> None:
        self._gateway = gateway
        self._notes = folder / "notes"
        self.run_id = ""

    @property
    def notes(self) -> list[str]:
        return self._notes.read_text().split() if self._notes.exists() else []

    async def begin(self) -> None:
        self.run_id = await self._gateway.submit(self.flow, params={"notes": str(self._notes)})

    async def now(self) -> dict[str, Any]:
        return await self._gateway.get(self.run_id)

    async def waits(self) -> list[WaitRecord]:
        stored = await WaitStore(self._gateway.inside.connection).of_run_from_leader(self.run_id)
        return [each.record for each in stored]

    async def comes_to_wait(self) -> dict[str, Any]:
        return await self._gateway.reaches(self.run_id, self.parked)

    async def is_answered(self) -> None:
        answer = await self._gateway.http.post("/resume", json={"runId": self.run_id, "payload": {"ok": 1}})
        assert answer.status_code == 200, answer.text

    async def ends_well(self) -> dict[str, Any]:
        """Its end; the one wait is over once."""
        ended = await self._gateway.ends(self.run_id)
        assert (ended["status"], ended["worker_id"]) == ("COMPLETED", "heir")
        [wait] = await self.waits()
        self.check_over(wait)
        return ended

    def check_over(self, wait: WaitRecord) -> None:
        assert (wait.state, wait.payload) == (WaitState.ANSWERED, {"ok": 1})


class Nap(Approval):
    """A run that sleeps for an hour, or less."""

    flow = "nap"
    parked = "WAITING"

    async def is_answered(self) -> None:
        """Its time has come."""
        [wait] = await self.waits()
        await let_expire(WaitStore(self._gateway.inside.connection), wait.wait_id)

    def check_over(self, wait: WaitRecord) -> None:
        assert (wait.state, wait.payload) == (WaitState.EXPIRED, UNSET)


@pytest.fixture(params=[Approval, Nap], ids=["question", "sleep"])
def run(request: pytest.FixtureRequest, gateway: RunningGateway, tmp_path: Path) -> Approval:
    made: Approval = request.param(gateway, tmp_path)
    return made


async def dies(program: Program) -> None:
    await eventually(lambda: program.process.poll() is not None, describe="the worker has died")
    assert program.process.returncode == -signal.SIGKILL, program.stderr


@pytest.mark.parametrize(
    ("point", "done_again"),
    [
        # Of the step an entry got through, but it was made from the result that is missing.
        ("task done", ["prepare", "tell"]),
        ("step done", ["tell"]),
    ],
)
async def test_what_was_done_and_not_journalled_is_done_again_before_anybody_is_asked(
    config: NatsBackendConfig, run: Approval, point: str, done_again: list[str]
) -> None:
    """A question must not be about something that is made anew behind the back of who answers it."""
    with crashing_worker(config, point) as worker:
        await run.begin()
        await dies(worker)
    left = await run.now()
    assert (left["status"], left["generation"], run.notes) == ("RUNNING", 0, ["prepare", "tell"])
    assert await run.waits() == []
    async with serving_worker(config, worker_id="heir"):
        await run.comes_to_wait()
        assert run.notes == ["prepare", "tell", *done_again]
        await run.is_answered()
        await run.ends_well()
    assert run.notes == ["prepare", "tell", *done_again, "pay"]


async def test_a_question_that_was_asked_by_a_worker_that_died_is_not_asked_again(
    config: NatsBackendConfig, run: Approval
) -> None:
    with crashing_worker(config, "asked") as worker:
        await run.begin()
        await dies(worker)
    asked = await run.waits()
    assert ((await run.now())["status"], len(asked)) == ("RUNNING", 1)
    async with serving_worker(config, worker_id="heir"):
        await run.comes_to_wait()
        assert await run.waits() == asked
        await run.is_answered()
        await run.ends_well()
    assert run.notes == ["prepare", "tell", "pay"]


@pytest.mark.parametrize("answered_at_once", [True, False])
async def test_a_run_that_waits_is_not_woken_by_the_message_that_its_worker_had_no_time_to_acknowledge(
    config: NatsBackendConfig, gateway: RunningGateway, run: Approval, answered_at_once: bool
) -> None:
    with crashing_worker(config, "suspended") as worker:
        await run.begin()
        await dies(worker)
    left = await run.now()
    assert (left["status"], left["generation"], left["delivery"]) == (run.parked, 1, None)
    asked = await run.waits()
    queue = gateway.inside.connection, config.work_stream
    assert (await stream_state(*queue)).messages == 1, "the message is still there"
    if answered_at_once:
        await run.is_answered()

    async def queue_is_empty() -> bool:
        return (await stream_state(*queue)).messages == 0

    async with serving_worker(config, worker_id="heir"):
        await eventually(queue_is_empty, describe="the message is dropped")
        if not answered_at_once:
            assert await run.now() == left
            assert await run.waits() == asked
            await run.is_answered()
        ended = await run.ends_well()
    assert (ended["attempt"], ended["generation"]) == (1, 1)
    assert run.notes == ["prepare", "tell", "pay"]


@pytest.mark.parametrize(("point", "attempts"), [("delivered", 1), ("claimed", 2)])
async def test_an_answer_survives_the_worker_that_was_to_go_on_with_it(
    config: NatsBackendConfig, run: Approval, point: str, attempts: int
) -> None:
    async with serving_worker(config):
        await run.begin()
        await run.comes_to_wait()
    with crashing_worker(config, point) as worker:
        await run.is_answered()
        await dies(worker)
    left = await run.now()
    assert (left["status"], left["attempt"]) == (("PENDING", 1) if point == "delivered" else ("RUNNING", 1))
    async with serving_worker(config, worker_id="heir"):
        ended = await run.ends_well()
    assert ended["attempt"] == attempts
    assert run.notes == ["prepare", "tell", "pay"]
