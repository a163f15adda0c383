"""Worker records as a caller may see them: without the runs of other tenants."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec import structs

from pyoco_server.errors import IndexNotReady
from pyoco_server.records.value_types import is_run_id
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.runs.index.run_lists import RunLists
from pyoco_server.runs.lifecycle.tenancy import Caller


async def workers_seen_by(
    caller: Caller, workers: Iterable[WorkerRecord], lists: RunLists, *, known: frozenset[str] = frozenset()
) -> list[WorkerRecord]:
    """The workers with the runs of the caller's tenant; those in `known` are known to be."""
    workers = list(workers)
    tenant = caller.confined_to
    if tenant is None:
        return workers
    with suppress(IndexNotReady):  # then the tenant of the other runs is not known
        known |= await lists.of_tenant({run_id for each in workers for run_id in _runs_of(each)}, tenant)
    return [_seen(worker, known, tenant) for worker in workers]


def _runs_of(worker: WorkerRecord) -> Iterator[str]:
    for run_id in (*worker.current_run_ids, worker.current_run_id, worker.last_run_id):
        if run_id is not None and is_run_id(run_id):
            yield run_id


def _seen(worker: WorkerRecord, own: frozenset[str], tenant: str) -> WorkerRecord:
    current = [run_id for run_id in worker.current_run_ids if run_id in own]
    seen = structs.replace(
        worker,
        current_run_ids=current,
        current_run_id=worker.current_run_id if worker.current_run_id in own else next(iter(current), None),
        history=[
            event if event.tenant_id == tenant else structs.replace(event, by=None, tenant_id=None)
            for event in worker.history
        ],
    )
    if worker.last_run_id in own:
        return seen
    return structs.replace(
        seen, last_run_id=None, last_run_status=None, last_run_started_at=None, last_run_finished_at=None
    )
