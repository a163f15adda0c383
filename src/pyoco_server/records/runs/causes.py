"""What has started a run."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.records.moments import Timestamp
from pyoco_server.records.open_enum import OpenStrEnum


class CauseKind(OpenStrEnum):
    """What has started a run."""

    API = "api"
    SCHEDULE = "schedule"
    EVENT = "event"
    REQUEST = "request"
    RERUN = "rerun"
    # A task of another run.
    PARENT = "parent"


class Cause(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Why a run exists: the kind of its cause, and which one."""

    kind: CauseKind
    # Of the schedule, the event, the request or the run.
    id: Annotated[str, Meta(max_length=200)] | None = None
    # The time that a schedule has started it for.
    at: Timestamp | None = None

    def __str__(self) -> str:
        return self.kind if self.id is None else f"{self.kind}:{self.id}"


BY_API: Final = Cause(kind=CauseKind.API)


def cause_of(cause: Cause | UnsetType, origin_run_id: str | None) -> Cause:
    """The cause of a run; one without a stored cause was submitted, or is a rerun."""
    if cause is not UNSET:
        return cause
    return BY_API if origin_run_id is None else Cause(kind=CauseKind.RERUN, id=origin_run_id)
