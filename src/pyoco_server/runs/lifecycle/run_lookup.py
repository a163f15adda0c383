"""Finding one run in somebody's name: every route and every act on a run begins here."""

from pyoco_server.broker.stores.run_store import RunStore, StoredRun
from pyoco_server.errors import RunNotFound
from pyoco_server.records.models import is_run_id
from pyoco_server.runs.lifecycle.tenancy import Caller


async def find_run(store: RunStore, run_id: str, caller: Caller, *, from_leader: bool = True) -> StoredRun:
    """The run as it is stored; RunNotFound when there is none, or when it is not the caller's to know of.

    A replica, which may be asked to only show a run, is faster and may be a moment behind.
    """
    # An id that is no UUID cannot exist, and must not reach a NATS subject.
    if not is_run_id(run_id):
        stored = None
    elif from_leader:
        stored = await store.get_from_leader(run_id)
    else:
        stored = await store.get(run_id)
    if stored is None or not caller.sees(stored.snapshot.tenant_id):
        if stored is not None and not from_leader:
            # As for one that the replica does not have: who counts our steps by the clock learns nothing.
            await store.get_from_leader(run_id)
        raise RunNotFound(f"there is no run {run_id!r}")
    return stored
