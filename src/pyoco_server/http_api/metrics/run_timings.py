"""How runs fared, counted as the feed of this gateway sees them change: a scrape reads no run at all."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pyoco_server.http_api.metrics.metric_page import Distribution, MetricPage
from pyoco_server.records.models import TERMINAL
from pyoco_server.runs.index.run_summary import RunItem, RunSummary
from pyoco_server.runs.watch.run_hub import RunChange

# Anybody may submit runs under any name, and each name is some kilobytes of every scrape.
MOST_FLOWS = 30
OTHER_FLOWS = "_other"

_WAIT = "pyoco_run_schedule_to_start_seconds"
_DURATION = "pyoco_run_duration_seconds"


class RunTimings:
    """Of all runs together, and of each tenant's."""

    def __init__(self) -> None:
        self._all = _FlowTimings()
        self._of_tenant: dict[str, _FlowTimings] = {}
        # Runs that have begun and may change again: their start was counted, or was before our time.
        self._begun: set[str] = set()

    def begin(self, begun: Iterable[str]) -> None:
        """Changes are counted from here on; these runs had begun before, which was counted then."""
        self._begun = set(begun)

    def take(self, batch: Sequence[RunChange]) -> None:
        """Learn from what was stored; a run that changed several times since may be told only once."""
        for change in batch:
            if change.summary is None:
                self._begun.discard(change.run_id)
            else:
                self._count(change.summary)

    def tell(self, page: MetricPage, tenant: str | None = None) -> None:
        """How the runs of a tenant fared, or all of them."""
        timings = self._all if tenant is None else self._of_tenant.get(tenant, _FlowTimings())
        timings.tell(page)

    def _count(self, summary: RunSummary) -> None:
        run = summary.item
        counted = [self._all]
        if run.tenant_id is not None:
            counted.append(self._of_tenant.setdefault(run.tenant_id, _FlowTimings()))
        if run.start_time is not None and run.run_id not in self._begun:
            self._begun.add(run.run_id)
            # One that has waited before and is new here was retried after human_timeout: its start was
            # counted before it failed.
            if not summary.has_waited:
                for timings in counted:
                    timings.began(run)
        if run.status in TERMINAL:
            self._begun.discard(run.run_id)
            for timings in counted:
                timings.ended(run)


class _FlowTimings:
    """Of the flows that were seen first each by its name, of all others together."""

    def __init__(self) -> None:
        self._waits: dict[str, Distribution] = {}
        self._durations: dict[str, Distribution] = {}
        self._ended: Counter[tuple[str, str]] = Counter()
        self._redeliveries = 0
        self._flows: set[str] = set()

    def began(self, run: RunItem) -> None:
        if run.start_time is not None and run.submitted_at is not None:
            self._add(self._waits, _WAIT, run.flow_name, run.start_time - run.submitted_at)

    def ended(self, run: RunItem) -> None:
        self._ended[self._label(run.flow_name), run.status] += 1
        self._redeliveries += max(0, run.attempt - 1)
        if run.start_time is not None and run.end_time is not None:
            self._add(self._durations, _DURATION, run.flow_name, run.end_time - run.start_time)

    def _add(self, where: dict[str, Distribution], metric: str, flow_name: str, seconds: float) -> None:
        label = self._label(flow_name)
        if label not in where:
            where[label] = Distribution(metric)
        # The clocks of two machines may make it seem that a run began before it was submitted.
        where[label].add(max(0.0, seconds))

    def _label(self, flow_name: str) -> str:
        if flow_name not in self._flows:
            if len(self._flows) >= MOST_FLOWS:
                return OTHER_FLOWS
            self._flows.add(flow_name)
        return flow_name

    def tell(self, page: MetricPage) -> None:
        for metric, found in ((_WAIT, self._waits), (_DURATION, self._durations)):
            for flow_name, values in found.items():
                page.put_distribution(metric, values, flow_name)
        for (flow_name, status), count in self._ended.items():
            page.put("pyoco_runs_ended_total", count, flow_name, status)
        page.put("pyoco_redeliveries_total", self._redeliveries)
