"""What the endpoint of statistics takes and returns."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.flow_types import FlowQuantiles, FlowSparkline
from pyoco_server.api.run_types import Text
from pyoco_server.records.value_types import Tag

Period = Literal["1h", "24h", "7d", "30d"]


class StatisticsQuery(Struct, kw_only=True):
    """Which runs are counted."""

    period: Annotated[Period, Meta(description="The time until now that ended runs are counted in.")] = "24h"
    flow: Annotated[Text | UnsetType, Meta(description="Only runs of this flow.")] = UNSET
    tag: Annotated[Tag | UnsetType, Meta(description="Only runs for workers of this tag.")] = UNSET


class RunFigures(Struct, kw_only=True):
    """The runs that ended within some time."""

    completed: int
    failed: int
    cancelled: int
    # Ended runs per hour; of a bucket that is not over, as if it were.
    per_hour: float
    # COMPLETED of those that are COMPLETED or FAILED, from 0 to 1; null: there are none.
    success_rate: float | None
    # Of runs that completed or failed, from their start to their end.
    duration_ms: FlowQuantiles
    # From the submission to the start.
    queue_ms: FlowQuantiles


class FlowComparison(Struct, kw_only=True):
    """The runs of one flow in the period, and in the one before."""

    flow_name: str
    current: RunFigures
    previous: RunFigures
    # Of the current period.
    sparkline: FlowSparkline


class SlotCounts(Struct, kw_only=True):
    """The slots of live workers, now."""

    workers: int
    slots: int
    slots_busy: int


class TagComparison(Struct, kw_only=True):
    """The runs with one tag in the period, and in the one before."""

    tag: str
    current: RunFigures
    previous: RunFigures
    sparkline: FlowSparkline
    # Of live workers that serve the tag; those may serve others too.
    slots: SlotCounts


class Statistics(Struct, kw_only=True):
    """The runs that ended in a period, beside those of the period of the same length before."""

    period: Period
    at: float
    # When the period begins, in unix seconds: with a whole bucket, so that it is longer by a part of one.
    since: int
    # When the period before begins; it ends at `since`.
    previous_since: int
    bucket_sec: int
    current: RunFigures
    previous: RunFigures
    # By bucket, the oldest first; the last one of the current period is not over.
    buckets: list[RunFigures]
    previous_buckets: list[RunFigures]
    # Those with the most runs, and how many there are.
    flows: list[FlowComparison]
    flow_count: int
    tags: list[TagComparison]
    tag_count: int
    slots: SlotCounts
