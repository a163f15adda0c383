"""What a worker draws from the queue: no more than its slots take, and of a backlog a little ahead."""

import asyncio

import pytest
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.queue import intake as intake_module
from pyoco_server.broker.queue.intake import Intake, TagPulls
from pyoco_server.broker.queue.work_queue import Delivery, WorkQueue
from pyoco_server.runs.lifecycle.submission import new_job
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

SLOTS = 4


@pytest.fixture
def pulls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many deliveries each pull asked for."""
    batches: list[int] = []
    pull = TagPulls.pull

    async def noting(self: TagPulls, batch: int, *, wait: bool) -> None:
        batches.append(batch)
        await pull(self, batch, wait=wait)

    monkeypatch.setattr(TagPulls, "pull", noting)
    return batches


async def _queue_jobs(connection: Connection, count: int, tag: str = "default") -> None:
    queue = WorkQueue(connection)
    for _ in range(count):
        await queue.publish(new_job(flow_name="f", tag=tag), run_revision=1)


async def _unacknowledged(connection: Connection) -> int:
    info = await connection.client.jetstream().consumer_info("PYOCO_WORK", "pyoco_worker_default")
    return info.num_ack_pending or 0


async def _slot(intake: Intake, taken: list[Delivery], most_held: list[int]) -> None:
    while True:
        delivery = await intake.take(ahead=True)
        taken.append(delivery)
        most_held.append(sum(len(tag.buffer) for tag in intake._tags))
        await asyncio.sleep(0)
        await delivery.ack()


async def test_slots_with_short_runs_need_few_pulls_and_get_every_job_once(
    connection: Connection, intake: Intake, pulls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is: these are short runs, and nothing is handed back.
    monkeypatch.setattr(intake_module, "_SHORT_RUN_SEC", 600.0)
    monkeypatch.setattr(intake_module, "_BUFFERED_SEC", 600.0)
    await _queue_jobs(connection, 200)
    taken: list[Delivery] = []
    held: list[int] = []
    slots = [asyncio.create_task(_slot(intake, taken, held)) for _ in range(SLOTS)]
    await eventually(lambda: len(taken) == 200, describe="every job was taken")
    # The queue is empty now, and a pull waits for the next job.
    await _queue_jobs(connection, 1)
    await eventually(lambda: len(taken) == 201, describe="a job that comes later is taken, too")
    for slot in slots:
        slot.cancel()
    await asyncio.wait(slots)
    assert len({delivery.stream_seq for delivery in taken}) == 201
    assert {delivery.number for delivery in taken} == {1}
    assert max(held) <= SLOTS
    assert len(pulls) < 150


@pytest.mark.parametrize("ahead", [False, True], ids=["single takes", "long runs"])
async def test_nothing_is_prefetched(
    connection: Connection, intake: Intake, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "_SHORT_RUN_SEC", 0.0 if ahead else NEVER_SEC)
    await _queue_jobs(connection, 10)
    for number in range(1, 6):
        await intake.take(ahead=ahead)
        assert await _unacknowledged(connection) == number


async def test_a_slot_that_takes_repeatedly_does_not_starve_another(
    connection: Connection, intake: Intake
) -> None:
    """As one does whose waiting is interrupted by a look at the wheels."""
    slots = {asyncio.create_task(intake.take()) for _ in range(2)}
    await eventually(lambda: len(intake._takers) == 2, describe="both wait")
    await _queue_jobs(connection, 1)
    _, waiting = await asyncio.wait(slots, return_when=asyncio.FIRST_COMPLETED)
    for _ in range(3):
        [slot] = waiting
        slot.cancel()
        await asyncio.wait(waiting)
        waiting = {asyncio.create_task(intake.take())}
        await eventually(lambda: len(intake._takers) == 1, describe="it waits again")
        assert intake._busy == 1, "the one that has a run"
    waiting.pop().cancel()


async def test_prefetched_deliveries_go_to_another_worker_when_no_slot_takes_them(
    connection: Connection, intake: Intake
) -> None:
    await _queue_jobs(connection, 4)
    mine = [await intake.take(ahead=True) for _ in range(2)]
    await eventually(lambda: sum(len(tag.buffer) for tag in intake._tags) > 0, describe="some is held")
    other = Intake(connection, ["default"])
    await other.start()
    async with asyncio.timeout(LIMIT_SEC):
        theirs = [await other.take() for _ in range(2)]
    assert {delivery.stream_seq for delivery in mine + theirs} == {1, 2, 3, 4}
    await other.close()


async def test_an_idle_worker_gets_a_new_job_while_another_one_is_busy(
    connection: Connection, intake: Intake
) -> None:
    """A prefetch takes what is in the queue now, and leaves no waiting pull."""
    await _queue_jobs(connection, 6)
    for _ in range(6):
        await intake.take(ahead=True)
    await _queue_jobs(connection, 1)
    other = Intake(connection, ["default"])
    await other.start()
    async with asyncio.timeout(LIMIT_SEC):
        delivery = await other.take()
    # One that went to the busy worker first would come here as well, when it is handed back.
    assert delivery.number == 1
    await other.close()


async def test_a_delivery_has_the_limits_of_the_consumer_that_exists(connection: Connection) -> None:
    assert connection.config.consumer_max_deliver > 2
    existing = ConsumerConfig(
        durable_name="of_an_administrator",
        filter_subject="pyoco.work.default",
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=30.0,
        max_deliver=2,
    )
    await connection.client.jetstream().add_consumer("PYOCO_WORK", existing)
    await _queue_jobs(connection, 1)
    intake = Intake(connection, ["default"])
    await intake.start()
    first = await intake.take()
    assert (first.number, first.is_last) == (1, False)
    await first.nak()
    second = await intake.take()
    assert (second.number, second.is_last) == (2, True)
    await second.ack()
    await intake.close()


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.ACK.PYOCO_WORK.pyoco_worker_default.3.41.57.1700000000000000000.12",
        "$JS.ACK._.hash.PYOCO_WORK.pyoco_worker_default.3.41.57.1700000000000000000.12.random",
        "$JS.ACK.hub.hash.PYOCO_WORK.pyoco_worker_default.3.41.57.1700000000000000000.12.random",
    ],
)
async def test_the_metadata_of_a_delivery_is_that_of_nats_py(connection: Connection, reply: str) -> None:
    delivery = Delivery(connection, Message("s", reply, b"", b""), "default")
    metadata = Msg(connection.client, reply=reply).metadata
    assert delivery.id == (metadata.sequence.stream, metadata.num_delivered) == (41, 3)
    assert delivery.waiting == metadata.num_pending == 12
