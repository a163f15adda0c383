"""Facts for the rules of explain."""

from typing import Any

from msgspec import structs

from pyoco_server.broker.queue.queue_position import JobLocation, JobState, TagQueue
from pyoco_server.broker.queue.tag_consumers import DeliveryLimits
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import DeliveryId, OpenWait, RunSnapshot, RunStatus, WaitKind
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.runs.explain.explain_facts import Facts, TimingSettings
from pyoco_server.runs.explain.explain_rules import explain

NOW = 1_000_000.0


RUN_ID = "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"


MANNERS = TimingSettings.of(NatsBackendConfig(load_dotenv=False))


def run(status: RunStatus = RunStatus.PENDING, **fields: Any) -> RunSnapshot:
    return RunSnapshot(
        run_id=RUN_ID,
        flow_name="etl",
        status=status,
        params={},
        tasks=fields.pop("tasks", {}),
        heartbeat_at=fields.pop("heartbeat_at", NOW - 0.5),
        updated_at=NOW,
        tag="gpu",
        submitted_at=NOW - 20,
        **fields,
    )


def running(**fields: Any) -> RunSnapshot:
    given = {"worker_id": "w1", "attempt": 1, "delivery": DeliveryId(7, 1), "start_time": NOW - 15, **fields}
    return run(RunStatus.RUNNING, **given)


def cancelling(**fields: Any) -> RunSnapshot:
    return structs.replace(running(**fields), status=RunStatus.CANCELLING)


def waiting(*left_sec: float, asked_again: str | None = None) -> RunSnapshot:
    """A run that waits for people, each for so long yet."""
    waits = [
        OpenWait(
            wait_id=f"{RUN_ID}.{number}",
            task=f"ask{number}",
            name="human",
            message=f"question {number}?",
            deadline_at=NOW + left,
            asked_again=asked_again,
        )
        for number, left in enumerate(left_sec)
    ]
    return run(
        RunStatus.WAITING_HUMAN,
        open_waits=waits,
        wait_message=waits[0].message,
        wait_deadline_at=waits[0].deadline_at,
        waiting_since=NOW - 600,
    )


def parked(kind: str, *, left_sec: float | None = 100.0) -> RunSnapshot:
    """A run that sleeps, or waits for a signal or an event, since ten minutes."""
    wait = OpenWait(
        wait_id=f"{RUN_ID}.0",
        task="pause",
        name=kind,
        message=kind,
        deadline_at=None if left_sec is None else NOW + left_sec,
        kind=WaitKind(kind),
        topic=None if kind == "sleep" else "paid",
        since=NOW - 600,
    )
    return run(RunStatus.WAITING, open_waits=[wait], waiting_since=NOW - 600)


def answered(*left_sec: float) -> RunSnapshot:
    """A run that is in the queue again for 5 s, with so many questions open."""
    before = waiting(*left_sec, 1.0)
    return structs.replace(
        before,
        status=RunStatus.PENDING,
        generation=1,
        start_time=NOW - 700,
        heartbeat_at=NOW - 5,
        open_waits=(before.open_waits or [])[:-1],
        wait_message=before.wait_message if left_sec else None,
        waiting_since=None,
    )


def worker(worker_id: str = "w1", **fields: Any) -> WorkerRecord:
    seen = fields.pop("last_seen_at", NOW - 1)
    return WorkerRecord(
        worker_id=worker_id,
        instance_id=worker_id,
        state=fields.pop("state", WorkerState.IDLE),
        last_seen_at=seen,
        last_heartbeat_at=seen,
        tags=fields.pop("tags", ["gpu"]),
        **fields,
    )


def busy(worker_id: str = "w1", *run_ids: str, **fields: Any) -> WorkerRecord:
    ids = list(run_ids) or [RUN_ID]
    return worker(
        worker_id,
        state=WorkerState.RUNNING,
        slots=len(ids),
        slots_busy=len(ids),
        current_run_ids=ids,
        **fields,
    )


def queue(**fields: Any) -> TagQueue:
    given = {"waiting": 1, "in_work": 0, "in_work_limit": 200, **fields}
    return TagQueue(limits=DeliveryLimits(30.0, 20), **given)


def facts(snapshot: RunSnapshot, *workers: WorkerRecord, **fields: Any) -> Facts:
    given = {"queue": queue(), "location": JobLocation(JobState.WAITING, 1), **fields}
    return Facts(now=NOW, snapshot=snapshot, timing=MANNERS, workers=workers, **given)


def codes(found: Facts) -> list[str]:
    return [finding.code for finding in explain(found)]


def only(found: Facts, code: str) -> dict[str, Any]:
    """The evidence of the finding."""
    [finding] = [each for each in explain(found) if each.code == code]
    return finding.evidence
