"""The arguments of the tools. Those of an endpoint are the fields of its records."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from pyoco_server.api.flow_types import FLOW_LIMIT_MAX, FlowListQuery, FlowQuery
from pyoco_server.api.run_types import (
    RUN_LIMIT_MAX,
    CancelRequest,
    Cursor,
    LogStream,
    RerunRequest,
    RunFilterQuery,
    RunOrder,
    RunSubmitRequest,
    Text,
)
from pyoco_server.api.schedule_types import ScheduleListQuery
from pyoco_server.api.wait_types import RespondRequest, WaitListQuery
from pyoco_server.records.value_types import FlowName, NewFlowName, RunId
from pyoco_server.records.waits.wait_models import WaitId
from pyoco_server.runs.index.pagination import SortField

LOG_LIMIT_DEFAULT: Final = 200
LOG_LIMIT_MAX: Final = 1000

LineCount = Annotated[int, Meta(ge=1, le=LOG_LIMIT_MAX)]
Params = Annotated[dict[str, Any], Meta(description="The parameters of the flow, by their names.")]
IdempotencyKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        description="Choose a new UUID for each run that you want, and repeat it when you repeat the call "
        "after a failure or a timeout: then the call returns the run of the first one.",
    ),
]


class SubmitRunArguments(RunSubmitRequest, kw_only=True, forbid_unknown_fields=True):
    """A run of a flow."""

    flow_name: Annotated[NewFlowName, Meta(description="The name of the flow.")]
    params: Params = field(default_factory=dict)
    strict: Annotated[
        bool,
        Meta(
            description="Refuse a flow that no live worker has, and params that do not match its schema. "
            "With `false` such a run is accepted, with `warnings`, and waits for a worker."
        ),
    ] = True
    idempotency_key: IdempotencyKey | None = None


class ListFlowsArguments(FlowListQuery, kw_only=True, forbid_unknown_fields=True):
    """Which flows are listed."""

    limit: Annotated[int, Meta(ge=1, le=FLOW_LIMIT_MAX, description="How many flows at most.")] = 20


class GetFlowArguments(FlowQuery, kw_only=True, forbid_unknown_fields=True):
    """One flow."""

    flow_name: Annotated[FlowName, Meta(description="The name of the flow.")]


class ListRunsArguments(RunFilterQuery, kw_only=True, forbid_unknown_fields=True):
    """Which runs, in which order."""

    sort: Annotated[SortField, Meta(description="What the list is sorted by.")] = SortField.UPDATED_AT
    order: Annotated[RunOrder, Meta(description="`desc`: the newest or largest first.")] = "desc"
    limit: Annotated[int, Meta(ge=1, le=RUN_LIMIT_MAX, description="How many runs at most.")] = 20
    cursor: Annotated[
        Cursor | UnsetType,
        Meta(description="The `next_cursor` of the page before; with the same filters, sort and order."),
    ] = UNSET


class RunArguments(Struct, kw_only=True, forbid_unknown_fields=True):
    """One run."""

    run_id: RunId


class GetRunArguments(RunArguments, kw_only=True, forbid_unknown_fields=True):
    """One run, and how much of it."""

    include: Annotated[
        Literal["records"] | UnsetType,
        Meta(description="`records`: with what each task returned, its attempts and its error."),
    ] = UNSET


class GetLogsArguments(RunArguments, kw_only=True, forbid_unknown_fields=True):
    """Which lines of a run's log."""

    task: Annotated[list[str] | UnsetType, Meta(description="Only lines of these tasks.")] = UNSET
    stream: Annotated[list[LogStream] | UnsetType, Meta(description="Only lines of these streams.")] = UNSET
    search: Annotated[Text | UnsetType, Meta(description="Only lines with this text, in any case.")] = UNSET
    after: Annotated[
        str | UnsetType,
        Meta(description="Only lines after the one with this id: the `next_after` of the page before."),
    ] = UNSET
    limit: Annotated[
        LineCount | UnsetType, Meta(description=f"How many lines at most; {LOG_LIMIT_DEFAULT} by default.")
    ] = UNSET
    tail: Annotated[
        LineCount | UnsetType, Meta(description="Only the last lines; without `after` and `limit`.")
    ] = UNSET


class CancelRunArguments(CancelRequest, kw_only=True, forbid_unknown_fields=True):
    """The run to cancel."""

    run_id: RunId
    reason: Annotated[str, Meta(max_length=1000, description="Why, for people.")] | None = None


class RerunArguments(RerunRequest, kw_only=True, forbid_unknown_fields=True):
    """The run to repeat, and from where."""

    run_id: RunId
    idempotency_key: IdempotencyKey | None = None


class ListWaitsArguments(WaitListQuery, kw_only=True, forbid_unknown_fields=True):
    """Which waits are listed."""


class WaitArguments(Struct, kw_only=True, forbid_unknown_fields=True):
    """One wait."""

    wait_id: WaitId


class AnswerWaitArguments(RespondRequest, kw_only=True, forbid_unknown_fields=True):
    """The answer to a wait."""

    wait_id: WaitId
    payload: Annotated[
        Any, Meta(description="The answer to a question, as its `schema` says; not with `decision`.")
    ] = UNSET


class ListSchedulesArguments(ScheduleListQuery, kw_only=True, forbid_unknown_fields=True):
    """Which schedules are listed."""
