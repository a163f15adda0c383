"""What the gateway answers about waits for people; as answers.py, for type checkers and editors."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class OpenWait(TypedDict):
    """A wait that its run has not got an answer to, as the run's snapshot has it."""

    wait_id: str
    task: str
    name: str
    message: str
    deadline_at: float


class Actor(TypedDict, total=False):
    """Who did something, as far as the gateway can tell."""

    tenant_id: str | None
    api_key_id: str | None
    name: str | None
    ip: str | None
    user_agent: str | None


class WaitEvent(TypedDict):
    """Something that happened to a wait."""

    event_id: str
    kind: str
    wait_id: str
    run_id: str
    at: float
    actor: NotRequired[Actor | None]
    decision: NotRequired[str | None]
    decision_id: NotRequired[str | None]
    # Why an attempt to answer was refused.
    why: NotRequired[str | None]


class WaitItem(TypedDict):
    """One wait in a list."""

    wait_id: str
    run_id: str
    flow_name: str
    tag: str
    task: str
    node: str
    name: str
    message: str
    state: str
    created_at: float
    deadline_at: float
    # Which asking of the same question this is.
    arming: int
    tenant_id: str | None
    assignees: list[str]
    # None: there is no proposal, and the answer is free.
    proposal_digest: str | None
    decided_at: float | None
    decided_by: Actor | None
    decision: str | None


class Wait(WaitItem):
    """A question to a person, and what became of it."""

    # The JSON Schema of an answer.
    schema: NotRequired[dict[str, Any] | bool | None]
    # What is to be approved, edited or rejected.
    proposal: NotRequired[Any]
    # The answer when nobody has given one until the deadline.
    default: NotRequired[Any]
    payload: NotRequired[Any]
    note: NotRequired[str | None]
    decision_id: NotRequired[str | None]
    events: list[WaitEvent]


class WaitPage(TypedDict):
    """A part of a list of waits."""

    items: list[WaitItem]
    next_cursor: str | None
    total: int


class InboxEvent(TypedDict):
    """What changed among the open waits: `open` has all of them, the others have one."""

    event: Literal["open", "opened", "closed"]
    id: str | None
    waits: NotRequired[list[WaitItem]]
    wait: NotRequired[WaitItem]


class Receipt(TypedDict):
    """An answer that counts."""

    success: Literal[True]
    wait_id: str
    run_id: str
    decided_at: float
    decision: NotRequired[str | None]
    decision_id: NotRequired[str | None]
    # Whether the same answer had been given before, under the same `decision_id`.
    repeated: NotRequired[bool]


class Resumed(TypedDict):
    """An answer that counts, to the only question of a run."""

    runId: str
    success: Literal[True]
