"""Claims and fenced writes on a real bucket: one owner, no lost cancel, no change after the end."""

from collections.abc import Collection
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.records.runs.run_models import (
    DeliveryId,
    Job,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    encode,
    pending_snapshot,
)
from pyoco_server.runs.lifecycle.ownership import DuplicateJob, OwnedRun, RunEnded, RunGone, RunTaken, claim
from pyoco_server.runs.lifecycle.submission import new_job

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Store(RunStore):
    """The runs, and the queue of their jobs."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.connection = connection
        self.queue = WorkQueue(connection)

    async def queued(self, job: Job) -> int:
        """Publish a message of the job; its sequence."""
        return await publish_acked(self.connection, f"pyoco.work.{job.tag}", encode(job))


@pytest.fixture
def store(shared_connection: Connection) -> Store:
    return Store(shared_connection)


async def stored_job(store: Store) -> tuple[Job, int]:
    job = new_job(flow_name="flow", tag="default")
    return job, await store.create(pending_snapshot(job))


async def claimed(
    store: Store,
    job: Job,
    delivery: tuple[int, int],
    *,
    revision: int | None = None,
    worker: str = "w",
    in_progress: Collection[tuple[int, int]] = (),
) -> OwnedRun:
    return await claim(
        store,
        store.queue,
        job,
        delivery=DeliveryId(*delivery),
        expected_revision=revision,
        worker_id=worker,
        worker_instance=f"process of {worker}",
        in_progress={DeliveryId(*each) for each in in_progress},
        max_bytes=100_000,
    )


def running(snapshot: RunSnapshot) -> RunSnapshot:
    return structs.replace(snapshot, tasks={"a": TaskStatus.RUNNING})


def completed(snapshot: RunSnapshot) -> RunSnapshot:
    return structs.replace(snapshot, status=RunStatus.COMPLETED)


async def request_cancel(store: RunStore, run_id: str) -> None:
    stored = await store.get_from_leader(run_id)
    assert stored is not None
    await store.replace(
        structs.replace(
            stored.snapshot, status=RunStatus.CANCELLING, cancel_requested_at=5.0, cancel_requested_by="me"
        ),
        revision=stored.revision,
    )


@pytest.mark.parametrize("told", [True, False], ids=["revision told", "revision read"])
async def test_a_pending_run_is_claimed(store: Store, told: bool) -> None:
    job, revision = await stored_job(store)
    owned = await claimed(store, job, (1, 1), revision=revision if told else None)
    stored = await store.get_from_leader(job.run_id)
    assert stored is not None
    assert stored.snapshot == owned.snapshot
    assert (stored.snapshot.status, stored.snapshot.attempt) == (RunStatus.RUNNING, 1)


@pytest.mark.parametrize(
    "changes",
    [{"tenant_id": "mallory"}, {"timeout_sec": 0.001}, {"params": {"x": 666}}, {"tag": "cpu"}],
    ids=str,
)
@pytest.mark.parametrize("delivery", [(1, 1), (1, 2)], ids=["first delivery", "redelivery"])
async def test_a_changed_snapshot_does_not_change_what_is_executed(
    store: Store, delivery: tuple[int, int], changes: dict[str, Any]
) -> None:
    """Any worker may write any snapshot, and only gateways publish jobs."""
    job, revision = await stored_job(store)
    await store.replace(structs.replace(pending_snapshot(job), **changes), revision=revision)
    owned = await claimed(store, job, delivery, revision=revision)
    accepted = pending_snapshot(job)
    assert {name: getattr(owned.snapshot, name) for name in changes} == {
        name: getattr(accepted, name) for name in changes
    }
    stored = await store.get_from_leader(job.run_id)
    assert stored is not None
    assert stored.snapshot == owned.snapshot


async def test_a_later_delivery_takes_over_and_fences_the_earlier_owner(store: Store) -> None:
    job, revision = await stored_job(store)
    stale = await claimed(store, job, (1, 1), revision=revision, worker="paused")
    current = await claimed(store, job, (1, 2), worker="successor")
    assert current.snapshot.attempt == 2
    [earlier] = current.snapshot.earlier_attempts or []
    assert (earlier.number, earlier.worker_id, earlier.handed_back) == (1, "paused", False)
    assert earlier.started_at == stale.snapshot.attempt_started_at
    assert earlier.last_heartbeat_at == stale.snapshot.heartbeat_at
    with pytest.raises(RunTaken, match="successor"):
        await stale.write(completed)
    await current.write(running)
    with pytest.raises(RunTaken):
        await stale.write(running)
    await current.write(completed)


async def test_an_earlier_delivery_that_wakes_up_late_cannot_claim(store: Store) -> None:
    job, revision = await stored_job(store)
    await claimed(store, job, (7, 2))
    for stale in ((7, 1), (7, 2)):
        with pytest.raises(RunTaken):
            await claimed(store, job, stale, revision=revision)


async def test_a_redelivery_does_not_take_a_run_from_the_worker_that_still_executes_it(store: Store) -> None:
    """AckWait has passed while it was slow, and the message came to it again."""
    job, revision = await stored_job(store)
    owned = await claimed(store, job, (7, 1), revision=revision)
    with pytest.raises(RunTaken, match=r"this worker still executes delivery \(7, 1\)"):
        await claimed(store, job, (7, 2), in_progress={(7, 1), (7, 2)})
    await owned.write(running)
    # Another process with a delivery of the same number, from a stream that was created again.
    taken = await claimed(store, job, (7, 2), worker="other", in_progress={(7, 1), (7, 2)})
    assert taken.snapshot.attempt == 2


async def test_an_answer_that_came_during_the_execution_begins_no_other_attempt(store: Store) -> None:
    job, revision = await stored_job(store)
    owned = await claimed(store, job, (7, 1), revision=revision)
    await owned.hand_back(continues=True)
    again = await claimed(store, job, (7, 2))
    assert (again.snapshot.attempt, again.snapshot.shown_attempt) == (2, 1)
    # It could not be started there.
    assert await again.unclaim()
    later = await claimed(store, job, (7, 3), worker="next")
    assert (later.snapshot.attempt, later.snapshot.shown_attempt) == (3, 1)
    # That worker stops: the next one begins another attempt.
    await later.hand_back()
    assert (await claimed(store, job, (7, 4), worker="last")).snapshot.shown_attempt == 2


async def test_a_second_message_cannot_claim_while_the_first_is_in_the_queue(store: Store) -> None:
    job, revision = await stored_job(store)
    first, second, third = [await store.queued(job) for _ in range(3)]
    await claimed(store, job, (second, 1), revision=revision)
    for beside in (first, third):
        with pytest.raises(DuplicateJob):
            await claimed(store, job, (beside, 1), revision=revision)
    # Somebody purged it: then another message is the run's job, wherever it stands.
    await store.queue.remove(second)
    owned = await claimed(store, job, (first, 1))
    assert (owned.snapshot.attempt, owned.snapshot.delivery) == (2, (first, 1))


async def test_a_message_of_another_run_with_the_same_sequence_cannot_claim(store: Store) -> None:
    job, revision = await stored_job(store)
    another, _ = await stored_job(store)
    sequence = await store.queued(another)
    await claimed(store, job, (sequence, 1), revision=revision)
    assert (await claimed(store, job, (sequence + 1, 1))).snapshot.attempt == 2


async def test_an_ended_run_is_never_claimed_nor_written(store: Store) -> None:
    job, revision = await stored_job(store)
    owned = await claimed(store, job, (1, 1), revision=revision)
    await owned.write(completed)
    with pytest.raises(RunEnded):
        await owned.write(running)
    with pytest.raises(RunEnded):
        await claimed(store, job, (1, 2))
    stored = await store.get(job.run_id)
    assert stored is not None
    assert stored.snapshot.status is RunStatus.COMPLETED


async def test_a_withdrawn_run_is_not_claimed(store: Store) -> None:
    job, revision = await stored_job(store)
    await store.delete(job.run_id, revision=revision)
    with pytest.raises(RunGone):
        await claimed(store, job, (1, 1), revision=revision)
    assert await store.get(job.run_id) is None


async def test_a_cancel_request_survives_progress_writes(store: Store) -> None:
    job, revision = await stored_job(store)
    owned = await claimed(store, job, (1, 1), revision=revision)
    await request_cancel(store, job.run_id)
    written = await owned.write(running)
    assert written.status is RunStatus.CANCELLING
    assert written.cancel_requested_by == "me"
    assert written.tasks == {"a": TaskStatus.RUNNING}
    assert (await owned.write(completed)).status is RunStatus.CANCELLED


async def test_a_run_cancelled_before_its_start_is_claimed_as_cancelling(store: Store) -> None:
    job, revision = await stored_job(store)
    await request_cancel(store, job.run_id)
    owned = await claimed(store, job, (1, 1), revision=revision)
    assert owned.snapshot.status is RunStatus.CANCELLING


async def test_a_run_that_was_not_started_is_restored(store: Store) -> None:
    job, revision = await stored_job(store)
    owned = await claimed(store, job, (7, 1), revision=revision)
    assert await owned.unclaim()
    stored = await store.get(job.run_id)
    assert stored is not None
    assert structs.replace(stored.snapshot, updated_at=job.submitted_at) == pending_snapshot(job)
    again = await claimed(store, job, (7, 2), worker="next")
    assert (again.snapshot.attempt, again.snapshot.status) == (1, RunStatus.RUNNING)


async def test_a_run_that_was_not_started_keeps_a_cancel(store: Store) -> None:
    job, revision = await stored_job(store)
    owned = await claimed(store, job, (7, 1), revision=revision)
    stored = await store.get(job.run_id)
    assert stored is not None
    wished = structs.replace(stored.snapshot, status=RunStatus.CANCELLING, cancel_requested_at=1.0)
    await store.replace(wished, revision=stored.revision)
    assert not await owned.unclaim()
    assert (owned.snapshot.status, owned.snapshot.delivery) == (RunStatus.CANCELLING, (7, 1))


async def test_an_earlier_owner_is_not_restored(store: Store) -> None:
    job, revision = await stored_job(store)
    earlier = await claimed(store, job, (7, 1), revision=revision, worker="paused")
    owned = await claimed(store, job, (7, 2), worker="next")
    assert await owned.unclaim()
    with pytest.raises(RunTaken):
        await earlier.refresh()


async def test_an_owner_that_knows_its_successor_cannot_write(store: Store) -> None:
    """The recorder of a run learns of it first, and only stops."""
    job, revision = await stored_job(store)
    earlier = await claimed(store, job, (7, 1), revision=revision, worker="paused")
    await claimed(store, job, (7, 2), worker="next")
    with pytest.raises(RunTaken):
        await earlier.refresh()
    with pytest.raises(RunTaken):
        await earlier.write(lambda snapshot: snapshot)
    stored = await store.get(job.run_id)
    assert stored is not None
    assert (stored.snapshot.attempt, stored.snapshot.worker_id) == (2, "next")
