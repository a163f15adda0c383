"""The caller of a request, and what it may see.

What belongs to another tenant is not found, with the same error and the same lookups as what does not exist.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.errors import PyocoError, RunNotFound, UnreadableRecord
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.value_types import is_run_id, is_tag
from pyoco_server.telemetry.run_fields import remember_run


def visible_to(tenant: str | None, owner: str | None) -> bool:
    """Whether a caller restricted to `tenant` (None: not restricted) may see what `owner` has.

    What was created without an API key has no owner, and only unrestricted callers see it.
    """
    return tenant is None or owner == tenant


@dataclass(frozen=True, slots=True)
class Caller:
    # Stored with what it submits; None without authentication.
    tenant_id: str | None
    api_key_id: str | None
    # Of the operator's tenant, or without authentication.
    sees_all: bool
    # Of its API key.
    groups: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        assert self.sees_all or self.tenant_id, "a non-operator caller needs a tenant"

    @property
    def confined_to(self) -> str | None:
        """The tenant that it is restricted to; None: it may see everything."""
        return None if self.sees_all else self.tenant_id

    def sees(self, owner: str | None) -> bool:
        return visible_to(self.confined_to, owner)

    def key_of(self, tenant: str | None, key: Callable[[str | None], str]) -> str | None:
        """The key of an object that is its own, or of the tenant that an operator names.

        None: it cannot be the caller's, or the tenant cannot exist; it must not reach a NATS subject.
        """
        owner = self.tenant_id if tenant is None else tenant
        # What was created without an API key.
        if owner == NO_TENANT:
            owner = None
        may_exist = owner is None or is_tag(owner)
        return key(owner) if may_exist and self.sees(owner) else None


# Without authentication.
ANYBODY = Caller(None, None, sees_all=True)


@contextmanager
def hidden_from_others(caller: Caller, not_found: PyocoError) -> Iterator[None]:
    """Raise `not_found` in place of UnreadableRecord, if the record is perhaps not the caller's."""
    try:
        yield
    except UnreadableRecord as error:
        if caller.sees(error.owner):
            raise
        raise not_found from None


async def find_run(store: RunStore, run_id: str, caller: Caller, *, from_leader: bool = True) -> StoredRun:
    """The stored run; RunNotFound when there is none that the caller may see.

    UnreadableRecord when it exists and cannot be read. Without `from_leader` it is read from any replica,
    which is faster and may lag.
    """
    with hidden_from_others(caller, RunNotFound(f"there is no run {run_id!r}")):
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
    run = stored.snapshot
    remember_run(run_id, flow_name=run.flow_name, tag=run.tag, worker_id=run.worker_id)
    return stored
