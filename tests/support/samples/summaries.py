"""Run changes as the feed publishes them."""

from typing import Any

import msgspec

from pyoco_server.records.runs.run_models import Job, RunStatus, new_run_id, pending_snapshot
from pyoco_server.runs.index.run_summary import RunSummary, summary_of
from pyoco_server.runs.watch.recent_changes import UNKNOWN, Before
from pyoco_server.runs.watch.run_hub import RunChange


def data_of(
    run_id: str,
    status: RunStatus = RunStatus.PENDING,
    flow: str = "etl",
    tenant: str | None = None,
    params: dict[str, Any] | None = None,
) -> bytes:
    job = Job(
        run_id=run_id, flow_name=flow, tag="default", submitted_at=1.0, tenant_id=tenant, params=params or {}
    )
    snapshot = pending_snapshot(job)
    snapshot.status = status
    return msgspec.json.encode(snapshot)


def summary(status: RunStatus = RunStatus.PENDING, flow: str = "etl") -> RunSummary:
    return summary_of(data_of(new_run_id(), status, flow))


def changed(
    run_id: str,
    revision: int,
    status: RunStatus = RunStatus.PENDING,
    *,
    flow: str = "etl",
    tenant: str | None = None,
    params: dict[str, Any] | None = None,
    before: Before = UNKNOWN,
) -> RunChange:
    data = data_of(run_id, status, flow, tenant, params)
    return RunChange(run_id, revision, data, summary_of(data), before)


def removed(run_id: str, revision: int, *, before: Before = UNKNOWN) -> RunChange:
    return RunChange(run_id, revision, None, None, before)
