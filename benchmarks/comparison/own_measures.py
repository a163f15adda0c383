"""The measurements of the product alone: how soon a cancel takes effect, and a run continues after a kill."""

import asyncio
import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.comparison.measures import Figures, Session, centiles
from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.http_load import HttpConnection
from benchmarks.peers.http_stack import BUCKET, ENDED, HttpStack
from benchmarks.peers.ours import OURS
from benchmarks.peers.peer import Peer

CANCELS = 50
RESUME_TASKS = 100
KILLED_AFTER_TASKS = 30
RESUME_ACK_WAIT_SEC = 2.0

_POLL_SEC = 0.002
_STEP_LIMIT_SEC = 10.0


async def cancels(peer: Peer, folder: Path) -> Figures:
    """From the request to the stored CANCELLED, for a task that looks at `ctx.is_cancelled` every 5 ms."""
    async with OURS.start(folder, workers=True) as stack, asyncio.timeout(CANCEL.limit_sec):
        connection = await HttpConnection.open(stack.port)
        seconds = [await _cancel_one(stack, connection, folder / f"stamps_{n}") for n in range(CANCELS)]
        connection.close()
    return centiles("cancel", seconds)


async def resume(peer: Peer, folder: Path) -> Figures:
    """A worker is killed in the middle of a run, and another one continues it."""
    settings = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": str(RESUME_ACK_WAIT_SEC),
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": str(RESUME_ACK_WAIT_SEC / 4),
    }
    stamps = folder / "stamps"
    async with (
        OURS.start(folder, workers=True, worker_count=2, **settings) as stack,
        asyncio.timeout(RESUME.limit_sec),
    ):
        connection = await HttpConnection.open(stack.port)
        run_id = await stack.submit_flow(connection, "resumed", stamps=str(stamps))
        await _until_stamped(stamps, KILLED_AFTER_TASKS)
        owner = (await stack.snapshot(connection, run_id))["worker_id"]
        os.kill(stack.workers[owner], signal.SIGKILL)
        killed_at = time.time()
        await stack.until_ended(connection, run_id)
        connection.close()
    started = sorted(float(line.split()[1]) for line in stamps.read_text().splitlines())
    if started[-1] < killed_at:
        raise NotMeasured("the run had ended before its worker was killed")
    # The executor of a dead worker may still begin a task before it notices: the gap is the longest pause.
    return {
        "resume_gap_s": max(later - earlier for earlier, later in pairwise(started)),
        "resume_repeated_tasks": len(started) - RESUME_TASKS,
    }


CANCEL = Session("cancel", cancels, limit_sec=60)
RESUME = Session("resume", resume, limit_sec=60)
OWN_SESSIONS = (CANCEL, RESUME)


async def _cancel_one(stack: HttpStack, connection: HttpConnection, stamps: Path) -> float:
    params = {"sent_at": time.time(), "stamps": str(stamps)}
    run = await connection.post("/runs", {"flow_name": "cancellable", "params": params})
    await _until_stamped(stamps, 1)
    bucket = await stack.nats_client.jetstream().key_value(BUCKET)
    watcher: Any = await bucket.watch(run["run_id"])
    asked_at = time.perf_counter()
    await connection.post(f"/runs/{run['run_id']}/cancel", {})
    status = ""
    while status not in ENDED:
        status = _status(await watcher.updates(timeout=_STEP_LIMIT_SEC))
    seconds = time.perf_counter() - asked_at
    await watcher.stop()
    if status != "CANCELLED":
        raise NotMeasured(f"a cancelled run ended as {status}")
    return seconds


def _status(entry: Any) -> str:
    """Of a snapshot; the watcher also says, with None, that it has shown what was there before."""
    return str(msgspec.json.decode(entry.value)["status"]) if entry is not None and entry.value else ""


async def _until_stamped(stamps: Path, lines: int) -> None:
    async with asyncio.timeout(_STEP_LIMIT_SEC):
        while not stamps.exists() or len(stamps.read_bytes().splitlines()) < lines:
            await asyncio.sleep(_POLL_SEC)
