"""What the endpoints of dead letters take and return."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from pyoco_server.api.run_types import RerunAccepted
from pyoco_server.records.runs.run_models import RerunMode, RunStatus
from pyoco_server.records.value_types import LAST_SEQUENCE, RunId, Tag

# One that is empty would match every letter, which is hardly intended.
_Reasons = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_-]+( *, *[A-Za-z0-9_-]+)*$(?!\n)",
        max_length=500,
        description="Any of these words, separated by commas.",
    ),
]
_Time = Annotated[float, Meta(ge=0, le=1e12)]
_Sequences = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,19}( *, *[0-9]{1,19}){0,499}$(?!\n)",
        description="The letters with these numbers, separated by commas.",
    ),
]
_LetterState = Annotated[
    Literal["open", "closed"],
    Meta(description="`closed`: a rerun of their run has completed; `open`: the others."),
]


class LetterQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The filters of dead letters."""

    reason: _Reasons | None = None
    tag: Tag | None = None
    flow: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    run_id: RunId | None = None
    worker: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    since: _Time | None = None
    until: _Time | None = None
    q: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    seq: _Sequences | None = None
    state: _LetterState | None = None


class LetterPageQuery(LetterQuery, kw_only=True, forbid_unknown_fields=True):
    """The filters, and which page."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Annotated[int, Meta(ge=1, le=LAST_SEQUENCE, description="From `next_cursor`.")] | None = None


class LetterRerun(Struct, kw_only=True):
    """The rerun of a letter's run that has completed; if there is none, the one that changed last."""

    run_id: RunId
    status: RunStatus


class LetterView(Struct, kw_only=True):
    """A dead letter: a run or a message that ended badly."""

    seq: int
    timestamp: float
    reason: str
    error: str | None
    run_id: str | None
    flow_name: str | None
    tag: str | None
    tags: list[str] | None
    worker_id: str | None
    num_delivered: int | None
    subject: str | None
    tenant_id: str | None
    # Whether it names a run that could be repeated.
    replayable: bool
    # None: its run was not rerun, or the index of runs is being filled.
    rerun: LetterRerun | None
    # Whether that rerun has completed: there is nothing left to do.
    closed: bool


class LettersView(Struct, kw_only=True):
    """A page of dead letters, newest first; an empty one is not the last one if it has a `next_cursor`."""

    items: list[LetterView]
    next_cursor: str | None


class LetterDeleted(Struct, kw_only=True):
    """The dead letter is deleted."""

    seq: int
    deleted: bool = True


class ReplayRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """From where the run is repeated, and whether the letter is removed then."""

    mode: RerunMode = RerunMode.START
    delete: bool = False


class ReplayAccepted(RerunAccepted, kw_only=True):
    """The new run is stored and queued."""

    seq: int
    # Whether the letter was removed; false also where NATS failed to remove it.
    deleted: bool
