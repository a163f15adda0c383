"""Finds a wait to answer or to change; the errors say why that is not possible."""

from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.errors import WaitConflict, WaitNotFound
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.waits.wait_models import Actor, WaitRecord, is_wait_id
from pyoco_server.runs.lifecycle.tenancy import Caller, hidden_from_others


async def find_wait(waits: WaitStore, wait_id: str, caller: Caller) -> StoredWait:
    """As the leader knows it; WaitNotFound when there is none that the caller may see."""
    with hidden_from_others(caller, WaitNotFound(f"there is no wait {wait_id!r}")):
        # An invalid id must not reach a NATS subject.
        wait = await waits.get_from_leader(wait_id) if is_wait_id(wait_id) else None
    if wait is None or not caller.sees(wait.record.tenant_id):
        raise WaitNotFound(f"there is no wait {wait_id!r}")
    return wait


async def check_run_continues(runs: RunStore, run_id: str) -> None:
    """WaitConflict when the run has ended or is being cancelled."""
    stored = await runs.get_from_leader(run_id)
    status = None if stored is None else stored.snapshot.status
    if status is None or status.terminal or status is RunStatus.CANCELLING:
        raise WaitConflict("invalid_state", f"the run is {status or 'gone'}: no answer is expected")


def check_asks_person(wait: WaitRecord) -> None:
    """WaitConflict when it waits for something else: nobody can answer or change it."""
    if not wait.is_human:
        raise WaitConflict("invalid_state", f"this is a wait of kind {wait.kind}, which asks nobody")


def withdrawn_error(wait: WaitRecord) -> WaitConflict:
    by = wait.decided_by or Actor()
    return WaitConflict("invalid_state", f"the wait was withdrawn by {by.label}: {wait.note}")
