"""Reading one run on behalf of a caller."""

from pyoco_server.broker.stores.run_store import RunStore, StoredRun
from pyoco_server.errors import RunNotFound
from pyoco_server.records.models import is_run_id
from pyoco_server.runs.lifecycle.tenancy import Caller


async def find_run(store: RunStore, run_id: str, caller: Caller, *, from_leader: bool = True) -> StoredRun:
    """The stored run; RunNotFound when there is none that the caller may see.

    Without `from_leader` it is read from any replica, which is faster and may lag.
    """
    # An invalid id must not reach a NATS subject.
    if not is_run_id(run_id):
        stored = None
    elif from_leader:
        stored = await store.get_from_leader(run_id)
    else:
        stored = await store.get(run_id)
    if stored is None or not caller.sees(stored.snapshot.tenant_id):
        if stored is not None and not from_leader:
            # The same requests as for a run that does not exist, so that the timing reveals nothing.
            await store.get_from_leader(run_id)
        raise RunNotFound(f"there is no run {run_id!r}")
    return stored
