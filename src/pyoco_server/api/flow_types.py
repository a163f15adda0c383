"""What the endpoints of flows take and return."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.run_types import Cursor, Text
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.value_types import RunId, Tag
from pyoco_server.records.workers.worker_models import WorkerState

FLOW_LIMIT_MAX: Final = 1000
FLOW_LIMIT_DEFAULT: Final = 100

FlowWindow = Literal["24h", "7d", "30d"]
GraphSource = Literal["run", "flow_yaml", "tag", "other_tags"]
JsonSchema = Annotated[
    dict[str, Any], Meta(description="A JSON Schema (draft 2020-12) of the params of a run: an object.")
]
OfTag = Annotated[Tag | UnsetType, Meta(description="Only as workers of this tag have it.")]


class FlowListQuery(Struct, kw_only=True):
    """Which flows are listed."""

    tag: OfTag = UNSET
    search: Annotated[
        Text | UnsetType, Meta(description="Anywhere in name or description; the case does not matter.")
    ] = UNSET
    limit: Annotated[int, Meta(ge=1, le=FLOW_LIMIT_MAX, description="How many flows at most.")] = (
        FLOW_LIMIT_DEFAULT
    )
    cursor: Annotated[
        Cursor | UnsetType, Meta(description="The `next_cursor` of the page before; with the same filters.")
    ] = UNSET


class FlowQuery(Struct, kw_only=True):
    """Whose version of a flow is returned."""

    tag: OfTag = UNSET


class FlowQuantiles(Struct, kw_only=True):
    """The median and the 95th percentile, in milliseconds; null: there is no such run."""

    p50: float | None
    p95: float | None


class FlowSparkline(Struct, kw_only=True):
    """How runs ended in each part of the window, the oldest part first; the last one is not over."""

    completed: list[int]
    failed: list[int]
    cancelled: list[int]


class FlowStatistics(Struct, kw_only=True):
    """The runs of a flow within a window of time that ends now."""

    # When the window begins, in unix seconds, and how long each part of it is.
    since: int
    bucket_sec: int
    # By status: those that ended within the window, and all that have not ended.
    statuses: dict[RunStatus, int]
    # COMPLETED of those that are COMPLETED or FAILED, from 0 to 1; null: there are none.
    success_rate: float | None
    duration_ms: FlowQuantiles
    # From the submission to the start.
    queue_ms: FlowQuantiles
    sparkline: FlowSparkline


class FlowItem(Struct, kw_only=True):
    """A flow that live workers have, or that has runs."""

    name: str
    description: str
    # Of the live workers that have it.
    tags: list[str]
    # How many live workers have it.
    workers: int
    # The digests of the code of these workers, each once; none where a worker does not say.
    versions: list[str]
    versions_differ: bool
    # Null: not known. `problem` says why, where a worker has the flow.
    parameters: JsonSchema | None
    problem: str | None
    # Of the last day; absent: it has no runs, or the index of runs is being filled.
    statistics: dict[FlowWindow, FlowStatistics] | UnsetType = UNSET


class FlowPage(Struct, kw_only=True):
    """One page of a list of flows, in the order of their names."""

    flows: list[FlowItem]
    next_cursor: str | None


class FlowTask(Struct, kw_only=True):
    """A task of a flow."""

    name: str
    description: str
    # The tasks directly before it, as in `task_records` of a run.
    after: list[str]


class RunGraph(Struct, kw_only=True):
    """The tasks that a run has, or will have when a worker takes it."""

    run_id: RunId
    # From the run itself, from its flow.yaml, from the workers with its tag, or from other live workers;
    # null: nobody knows the flow.
    source: GraphSource | None
    tasks: list[FlowTask]


class FlowEdge(Struct, kw_only=True):
    source: str
    target: str


class FlowGraph(Struct, kw_only=True):
    """The tasks of a flow and the order between them; of a loop one iteration, of a switch all branches."""

    nodes: list[str]
    edges: list[FlowEdge]


class FlowWorker(Struct, kw_only=True):
    """A live worker that has the flow."""

    worker_id: str
    state: WorkerState
    tags: list[str]
    # The digest of its code; null: it does not say.
    version: str | None


class FlowFailure(Struct, kw_only=True):
    """A run of the flow that failed."""

    run_id: RunId
    ended_at: float
    error: str | None


class FlowView(Struct, kw_only=True):
    """A flow with its tasks, the workers that have it, and how its runs ended."""

    name: str
    description: str
    tags: list[str]
    versions: list[str]
    versions_differ: bool
    parameters: JsonSchema | None
    problem: str | None
    # The file in the worker's folder of flows; null: not known.
    file: str | None
    tasks: list[FlowTask]
    graph: FlowGraph
    workers: list[FlowWorker]
    # Of each window; absent: it has no runs, or the index of runs is being filled.
    statistics: dict[FlowWindow, FlowStatistics] | UnsetType = UNSET
    # The newest first.
    last_failures: list[FlowFailure]
