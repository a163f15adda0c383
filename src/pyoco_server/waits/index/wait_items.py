"""A wait in a list, and the filter of a list."""

from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from pyoco_server.records.models import RunId, WaitKind
from pyoco_server.records.wait_models import Actor, Decision, WaitId, WaitRecord, WaitState


class WaitItem(Struct, kw_only=True, gc=False):
    """One wait in a list: `GET /waits/{wait_id}` has its schema, its proposal and its answer."""

    wait_id: WaitId
    run_id: RunId
    flow_name: str
    tag: str
    task: str
    node: str
    name: str
    message: str
    state: WaitState
    created_at: float
    # None: it has no deadline.
    deadline_at: float | None
    arming: int
    tenant_id: str | None
    assignees: list[str]
    # None: no proposal.
    proposal_digest: str | None
    # How many approvals it needs, and has.
    required: int
    approvals: int
    decided_at: float | None
    decided_by: Actor | None
    decision: Decision | None
    kind: WaitKind
    # The name of the signal or event that it waits for.
    topic: str | None


def item_of(record: WaitRecord) -> WaitItem:
    fields = {name: getattr(record, name) for name in WaitItem.__struct_fields__}
    return WaitItem(**fields | {"deadline_at": record.shown_deadline})


OPEN: Final = frozenset({WaitState.OPEN})
HUMAN: Final = frozenset({WaitKind.HUMAN})


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitFilter:
    # Of the caller, never from the query.
    tenant: str | None = None
    # Any of these; empty: every kind.
    kinds: frozenset[WaitKind] = HUMAN
    # Any of these; empty: every state.
    states: frozenset[WaitState] = frozenset()
    run_id: str | None = None
    flow: str | None = None
    tag: str | None = None
    task: str | None = None
    assignee: str | None = None

    @property
    def only_open(self) -> bool:
        return self.states == OPEN
