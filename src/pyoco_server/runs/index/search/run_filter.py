"""The filters of `GET /runs`; `filter_sql.py` has the same in SQL."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyoco_server.records.runs.causes import Cause, cause_of
from pyoco_server.records.value_types import is_run_id
from pyoco_server.runs.index.run_summary import RunSummary, searched
from pyoco_server.runs.lifecycle.tenancy import visible_to

_ROUNDING_SEC = 0.001
# The first digits of an id, which the dashboard shows.
_ID_START: Final = 8
_FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, kw_only=True)
class TimeRange:
    """Both ends are outside of it: `after` < time < `before`. A run without the time is in no range."""

    after: float | None = None
    before: float | None = None

    def __bool__(self) -> bool:
        return self.after is not None or self.before is not None

    def widened(self, least: float, most: float) -> "TimeRange":
        """The range of another time that is at least `least` and at most `most` later than this one.

        A little wider, because sums of floating-point numbers are rounded.
        """
        return TimeRange(
            after=None if self.after is None else self.after + least - _ROUNDING_SEC,
            before=None if self.before is None else self.before + most + _ROUNDING_SEC,
        )

    def contains(self, at: float | None) -> bool:
        if not self:
            return True
        if at is None:
            return False
        return (self.after is None or at > self.after) and (self.before is None or at < self.before)


EVER = TimeRange()


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """A run matches when all given conditions hold."""

    # Of the caller, never of the request.
    tenant: str | None = None
    # Empty: every status.
    statuses: frozenset[str] = frozenset()
    flow: str | None = None
    # The run's tag, or one of its tags.
    tag: str | None = None
    worker: str | None = None
    # The run that it reruns.
    origin: str | None = None
    # The kind, or the kind and the id: `schedule` or `schedule:nightly`.
    cause: str | None = None
    workflow_yaml_sha256: str | None = None
    updated: TimeRange = EVER
    submitted: TimeRange = EVER
    # A text in its flow name, tags, error or params, or the start of its id, ignoring case.
    q: str | None = None

    @cached_property
    def needle(self) -> str | None:
        """The text to find in `RunSummary.text`."""
        return None if self.q is None else searched(self.q)

    @cached_property
    def id_range(self) -> tuple[str, str] | None:
        """The first and the last id that start with the text, if an id can."""
        start = self.needle or ""
        if len(start) < _ID_START:
            return None
        rest = _FIRST_ID[len(start) :]
        first, last = start + rest, start + rest.replace("0", "f")
        return (first, last) if is_run_id(first) else None

    def matches(self, run: RunSummary) -> bool:
        item = run.item
        return (
            visible_to(self.tenant, item.tenant_id)
            and (not self.statuses or item.status in self.statuses)
            and self.flow in (None, item.flow_name)
            and (self.tag is None or self.tag == item.tag or self.tag in item.tags)
            and self.worker in (None, item.worker_id)
            and self.origin in (None, item.origin_run_id)
            and (self.cause is None or self.cause in _names(cause_of(item.cause, item.origin_run_id)))
            and self.workflow_yaml_sha256 in (None, item.workflow_yaml_sha256)
            and self.updated.contains(item.updated_at)
            and self.submitted.contains(item.submitted_at)
            and self._has_text(run)
        )

    def _has_text(self, run: RunSummary) -> bool:
        if self.needle is None or self.needle in run.text:
            return True
        return self.id_range is not None and self.id_range[0] <= run.item.run_id <= self.id_range[1]


def _names(cause: Cause) -> tuple[str, str]:
    return cause.kind, str(cause)
