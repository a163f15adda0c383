"""A delivery that has passed AckWait is not handed back: its message may be with another worker by now."""

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.queue import intake as intake_module
from pyoco_server.broker.queue import work_queue
from pyoco_server.broker.queue.intake import Intake
from pyoco_server.broker.queue.work_queue import Delivery, WorkQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.worker import PyocoNatsWorker
from tests.support.clocks import ShiftedMonotonic, shifted_monotonic
from tests.support.inspection import started_pid
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import NEVER_SEC, eventually


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ShiftedMonotonic:
    """That of the queue."""
    return shifted_monotonic(monkeypatch, work_queue, intake_module)


async def queue_job(connection: Connection) -> None:
    await WorkQueue(connection).publish(new_job(flow_name="f", tag="default"), run_revision=1)


async def give_to_the_next(delivery: Delivery) -> None:
    """As the server does after AckWait."""
    await delivery._reply(b"-NAK")


async def test_an_expired_delivery_is_not_nakked(
    connection: Connection, intake: Intake, clock: ShiftedMonotonic
) -> None:
    await queue_job(connection)
    first = await intake.take()
    await give_to_the_next(first)
    second = await intake.take()
    assert (first.id, second.id) == ((1, 1), (1, 2))
    # The first one was kept for a slot when its worker was paused.
    clock.ahead_sec = NEVER_SEC
    intake._buffer(first)
    await intake.hand_back_buffered()
    await queue_job(connection)
    # What was handed back would come before this one.
    assert (await intake.take()).id == (2, 1)


async def test_a_delivery_in_progress_can_be_nakked(
    connection: Connection, intake: Intake, clock: ShiftedMonotonic
) -> None:
    await queue_job(connection)
    delivery = await intake.take()
    for _ in range(5):
        clock.ahead_sec += NEVER_SEC / 2
        await delivery.in_progress()
    await delivery.nak()
    assert (await intake.take()).id == (1, 2)


async def test_in_progress_after_ack_wait_does_not_renew_a_delivery(
    connection: Connection, intake: Intake, clock: ShiftedMonotonic
) -> None:
    await queue_job(connection)
    delivery = await intake.take()
    clock.ahead_sec = NEVER_SEC
    await delivery.in_progress()
    assert delivery.has_expired


async def test_a_delivery_that_waited_in_the_socket_of_a_paused_process_has_expired(
    intake: Intake, clock: ShiftedMonotonic, monkeypatch: pytest.MonkeyPatch
) -> None:
    [tag] = intake._tags
    received: list[Delivery] = []
    monkeypatch.setattr(intake, "deliver", received.append)

    def read() -> bool:
        reply = "$JS.ACK.PYOCO_WORK.pyoco_worker_default.1.1.1.1700000000000000000.0"
        tag._on_message(Message("pyoco.work.default", reply, b"", b""))
        return received[-1].has_expired

    tag.tick()
    assert not read()
    clock.ahead_sec += NEVER_SEC
    # Whichever the loop does first after the pause.
    assert read()
    tag.tick()
    assert read()
    tag.tick()
    assert not read()


async def test_a_stopping_worker_does_not_return_a_run_that_another_worker_has(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    """It does not know that before it stops: there was no heartbeat in between."""
    config = replace(config, run_heartbeat_interval_sec=60.0, drain_timeout_sec=0.2)
    release, started = tmp_path / "release", tmp_path / "started"
    async with AsyncExitStack() as leaving:
        first = await leaving.enter_async_context(serving_worker(config, worker_id="first"))
        deliveries = noted_deliveries(first)
        run_id = await gateway.submit("waiting", params={"path": str(release), "started": str(started)})
        await started_pid(started)
        # So that its slot does not take it again.
        await first._intake.pause()
        async with serving_worker(config, worker_id="second", concurrency=2) as second:
            await give_to_the_next(deliveries[0])

            async def is_taken() -> bool:
                return bool((await gateway.get(run_id))["worker_id"] == "second")

            await eventually(is_taken, describe="the second worker has it")
            taken = noted_deliveries(second)
            await leaving.aclose()
            # What the first one had handed back would come before this one.
            other = await gateway.submit("noop")
            assert (await gateway.ends(other))["status"] == "COMPLETED"
            assert [delivery.stream_seq for delivery in taken] == [2]
            release.touch()
            run = await gateway.ends(run_id)
            assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "second", 2)


def noted_deliveries(worker: PyocoNatsWorker) -> list[Delivery]:
    """What comes to the worker from now on."""
    noted: list[Delivery] = []
    deliver = worker._intake.deliver

    def note(delivery: Delivery) -> None:
        noted.append(delivery)
        deliver(delivery)

    worker._intake.deliver = note  # type: ignore[method-assign]
    return noted
