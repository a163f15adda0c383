"""What the endpoints of signals and events take and return."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from pyoco_server.records.waits.signal_models import EventId, Topic
from pyoco_server.records.waits.wait_models import Actor


class SignalState(StrEnum):
    # No wait has received it yet.
    PENDING = "pending"
    RECEIVED = "received"


class SignalAccepted(Struct, kw_only=True):
    signal_id: str


class SignalView(Struct, kw_only=True):
    """One signal that was sent to a run."""

    signal_id: str
    name: str
    # When it was sent, in unix seconds.
    at: float
    data: Any
    state: SignalState
    by: Actor | None
    # The wait that has received it, and its task.
    wait_id: str | None
    task: str | None


class SignalList(Struct, kw_only=True):
    """The signals of a run in the order in which they were sent."""

    items: list[SignalView]
    # How many of the oldest received ones are not listed any more.
    removed: int


class EventRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """An event for all runs that wait for it."""

    name: Topic
    data: Any = None
    # The same id of the same name is one event, as long as events are kept.
    id: EventId | None = None


class EventAccepted(Struct, kw_only=True):
    event_id: str
    # Whether an event of this name and id was sent before; this one is then not stored.
    duplicate: bool
