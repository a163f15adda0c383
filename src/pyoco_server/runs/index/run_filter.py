"""Which runs are meant: every filter of `GET /runs`, with one meaning everywhere.

The index answers the same question in SQL (`index/conditions.py`); a test holds the two together.
"""

from dataclasses import dataclass
from functools import cached_property

from pyoco_server.runs.index.run_summary import RunSummary, searched
from pyoco_server.runs.lifecycle.tenancy import visible_to

_ROUNDING_SEC = 0.001


@dataclass(frozen=True, kw_only=True)
class TimeRange:
    """Both ends are outside of it: `after` < time < `before`. A run without the time is in no range."""

    after: float | None = None
    before: float | None = None

    def __bool__(self) -> bool:
        return self.after is not None or self.before is not None

    def widened(self, least: float, most: float) -> "TimeRange":
        """Where another time is that is at least `least` and at most `most` behind this one.

        A little wider, because sums of floating-point numbers are rounded.
        """
        return TimeRange(
            after=None if self.after is None else self.after + least - _ROUNDING_SEC,
            before=None if self.before is None else self.before + most + _ROUNDING_SEC,
        )

    def holds(self, at: float | None) -> bool:
        if not self:
            return True
        if at is None:
            return False
        return (self.after is None or at > self.after) and (self.before is None or at < self.before)


EVER = TimeRange()


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """A run matches when all that is given here holds for it."""

    # Of whoever asks: it is never taken from what is asked.
    tenant: str | None = None
    # Any of these; none given: every status.
    statuses: frozenset[str] = frozenset()
    flow: str | None = None
    # The run's tag, or one of its tags.
    tag: str | None = None
    worker: str | None = None
    # The run that it repeats.
    origin: str | None = None
    workflow_yaml_sha256: str | None = None
    updated: TimeRange = EVER
    submitted: TimeRange = EVER
    # Somewhere in its flow name, tags, error or params, in upper or lower case.
    q: str | None = None

    @cached_property
    def needle(self) -> str | None:
        """What is looked for in `RunSummary.text`."""
        return None if self.q is None else searched(self.q)

    def matches(self, run: RunSummary) -> bool:
        item = run.item
        return (
            visible_to(self.tenant, item.tenant_id)
            and (not self.statuses or item.status in self.statuses)
            and self.flow in (None, item.flow_name)
            and (self.tag is None or self.tag == item.tag or self.tag in item.tags)
            and self.worker in (None, item.worker_id)
            and self.origin in (None, item.origin_run_id)
            and self.workflow_yaml_sha256 in (None, item.workflow_yaml_sha256)
            and self.updated.holds(item.updated_at)
            and self.submitted.holds(item.submitted_at)
            and (self.needle is None or self.needle in run.text)
        )
