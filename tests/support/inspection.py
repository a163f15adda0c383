"""The queue, record, dead letters and claimed runs of a worker."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.records.runs.run_models import decode_job
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.runs.lifecycle.ownership import OwnedRun, claim
from pyoco_server.worker import PyocoNatsWorker
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import LIMIT_SEC, eventually


async def dead_letters(gateway: RunningGateway) -> list[dict[str, Any]]:
    context = gateway.inside.connection.client.jetstream()
    stream = gateway.inside.config.dlq_stream
    count = (await context.stream_info(stream)).state.messages
    letters = [await context.get_msg(stream, seq) for seq in range(1, count + 1)]
    return [
        {"subject_of_letter": letter.subject, **msgspec.json.decode(letter.data or b"")} for letter in letters
    ]


async def queue_is_empty(gateway: RunningGateway) -> bool:
    context = gateway.inside.connection.client.jetstream()
    return bool((await context.stream_info(gateway.inside.config.work_stream)).state.messages == 0)


async def no_run_exists(gateway: RunningGateway) -> bool:
    context = gateway.inside.connection.client.jetstream()
    runs = await context.stream_info(f"KV_{gateway.inside.config.runs_kv_bucket}")
    return runs.state.messages == 0 and await queue_is_empty(gateway)


async def stored_run_ids(gateway: RunningGateway) -> set[str]:
    """Every run in the bucket; the subjects tell also of deleted ones, which the store does not find."""
    context = gateway.inside.connection.client.jetstream()
    info = await context.stream_info("KV_pyoco_runs", subjects_filter=">")
    run_ids = {subject.rpartition(".")[2] for subject in info.state.subjects or {}}
    return {run_id for run_id in run_ids if await gateway.inside.runs.store.get(run_id) is not None}


async def worker_record(gateway: RunningGateway, worker_id: str = "worker") -> WorkerRecord:
    record = await gateway.inside.workers.get(worker_id)
    assert record is not None
    return record


async def started_pid(marker: Path) -> int:
    text = await eventually(lambda: marker.read_text() if marker.exists() else "", describe="the task began")
    return int(text)


async def claimed_by(worker: PyocoNatsWorker) -> tuple[Delivery, OwnedRun]:
    """A run that the worker has claimed and does not execute."""
    async with asyncio.timeout(LIMIT_SEC):
        delivery = await worker._intake.take()
    services = worker._services
    owned = await claim(
        services.store,
        services.queue,
        decode_job(delivery.payload),
        delivery=delivery.id,
        expected_revision=delivery.revision,
        worker_id=services.worker_id,
        worker_instance=services.instance_id,
        max_bytes=services.max_snapshot_bytes,
    )
    return delivery, owned
