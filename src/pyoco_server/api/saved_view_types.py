"""Saved views of the list of runs, in requests and responses."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.run_types import RunOrder, Text, UnixTime
from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.runs.saved_view_models import VIEW_NAME_CHARS
from pyoco_server.records.value_types import RunId
from pyoco_server.runs.index.pagination import SortField

Since = Literal["1h", "24h", "7d", "30d"]
# Those of the dashboard.
Column = Literal[
    "status",
    "flow_name",
    "run_id",
    "params",
    "labels",
    "cause",
    "tasks",
    "tag",
    "worker_id",
    "attempt",
    "submitted_at",
    "start_time",
    "duration",
    "updated_at",
    "question",
    "error",
]
MAX_COLUMNS: Final = 30
_CAUSES: Final = "|".join(CauseKind)

ViewName = Annotated[str, Meta(min_length=1, max_length=VIEW_NAME_CHARS)]


class ViewFilterInput(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The filters of `GET /runs`, and `since`."""

    status: Annotated[list[RunStatus], Meta(max_length=len(RunStatus), description="Any of these.")] = []
    flow: Text | None = None
    tag: Annotated[Text | None, Meta(description="The tag of a run, or one of its labels.")] = None
    worker: Text | None = None
    origin: Annotated[RunId | None, Meta(description="The run that it repeats.")] = None
    cause: Annotated[str, Meta(pattern=f"^({_CAUSES})(:.{{1,180}})?$")] | None = None
    workflow_yaml_sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None
    since: Annotated[Since | None, Meta(description="Updated within this time before the list is read.")] = (
        None
    )
    updated_after: UnixTime | None = None
    updated_before: UnixTime | None = None
    submitted_after: UnixTime | None = None
    submitted_before: UnixTime | None = None
    q: Text | None = None


class ViewRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A view to create or to replace."""

    filter: ViewFilterInput = ViewFilterInput()
    sort: SortField = SortField.UPDATED_AT
    order: RunOrder = "desc"
    columns: Annotated[
        list[Column],
        Meta(max_length=MAX_COLUMNS, description="Of the table in the dashboard; empty: the usual ones."),
    ] = []
    name: Annotated[ViewName | UnsetType, Meta(description="Another name for the view.")] = UNSET
    revision: Annotated[
        Annotated[int, Meta(ge=0)] | UnsetType,
        Meta(description="Of the view that it replaces; 0: there must be none. Default: whatever there is."),
    ] = UNSET


class ViewFilterView(Struct, kw_only=True):
    """The filters of a view. A version that knows others may have saved it."""

    status: list[str]
    flow: str | None
    tag: str | None
    worker: str | None
    origin: str | None
    cause: str | None
    workflow_yaml_sha256: str | None
    since: str | None
    updated_after: float | None
    updated_before: float | None
    submitted_after: float | None
    submitted_before: float | None
    q: str | None


class ViewView(Struct, kw_only=True):
    """A named list of runs, which all keys of a tenant share."""

    name: str
    filter: ViewFilterView
    sort: str
    order: str
    # Of the table in the dashboard; empty: the usual ones.
    columns: list[str]
    # Changes with each change of the view.
    revision: int
    created_at: float
    updated_at: float
    # The names of the API keys; null where no API keys are required.
    created_by: str | None
    updated_by: str | None


class ViewList(Struct, kw_only=True):
    """All views of the tenant, by name."""

    views: list[ViewView]


class ViewDeleted(Struct, kw_only=True):
    name: str
    deleted: bool = True


class DeleteViewQuery(Struct, kw_only=True):
    revision: Annotated[
        Annotated[int, Meta(ge=1)] | UnsetType, Meta(description="Delete it only if it has this revision.")
    ] = UNSET
