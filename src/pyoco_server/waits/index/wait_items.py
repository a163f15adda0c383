"""A wait in a list, and the filter of a list."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.value_types import RunId
from pyoco_server.records.waits.wait_models import Actor, Decision, WaitId, WaitRecord, WaitState

# Of the beginning of an answer in a list.
_ANSWER_CHARS: Final = 200


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
    # The beginning of the answer, as JSON; a text as it is. None: it has none.
    answer: str | None


def item_of(record: WaitRecord) -> WaitItem:
    fields: dict[str, Any] = {name: getattr(record, name, None) for name in WaitItem.__struct_fields__}
    return WaitItem(**fields | {"deadline_at": record.shown_deadline, "answer": _answer_of(record)})


def _answer_of(record: WaitRecord) -> str | None:
    answer = record.payload
    # What a run received as a signal or an event is no answer of a person.
    if answer is UNSET or record.kind is not WaitKind.HUMAN:
        return None
    text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    return text if len(text) <= _ANSWER_CHARS else f"{text[: _ANSWER_CHARS - 1]}…"


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

    @property
    def only_closed(self) -> bool:
        return bool(self.states) and WaitState.OPEN not in self.states
