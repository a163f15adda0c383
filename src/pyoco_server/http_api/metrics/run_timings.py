"""Counts and durations of runs, from the feed of this gateway: a scrape reads no run."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pyoco_server.http_api.metrics.metric_page import Distribution, MetricPage
from pyoco_server.records.runs.run_models import TERMINAL
from pyoco_server.runs.index.run_summary import RunItem, RunSummary
from pyoco_server.runs.watch.run_hub import RunChange
from pyoco_server.telemetry.key_redaction import redact_keys

# Flow names are unbounded, and each is some kilobytes of every scrape.
MAX_FLOWS = 30
OTHER_FLOWS = "_other"

_WAIT = "pyoco_run_schedule_to_start_seconds"
_DURATION = "pyoco_run_duration_seconds"


class RunTimings:
    """Of all runs, and of each tenant."""

    def __init__(self) -> None:
        self._all = _FlowTimings()
        self._of_tenant: dict[str, _FlowTimings] = {}
        # Runs whose start was counted, or happened before this gateway followed the feed.
        self._started: set[str] = set()

    def begin(self, started: Iterable[str]) -> None:
        """Count changes from here on; these runs have started before."""
        self._started = set(started)

    def take(self, batch: Sequence[RunChange]) -> None:
        """Count a batch. Of several changes of a run it may have only the last."""
        for change in batch:
            if change.summary is None:
                self._started.discard(change.run_id)
            else:
                self._count(change.summary)

    def report_to(self, page: MetricPage, tenant: str | None = None) -> None:
        """The metrics of one tenant (None: of all)."""
        timings = self._all if tenant is None else self._of_tenant.get(tenant, _FlowTimings())
        timings.report_to(page)

    def _count(self, summary: RunSummary) -> None:
        run = summary.item
        counted = [self._all]
        if run.tenant_id is not None:
            counted.append(self._of_tenant.setdefault(run.tenant_id, _FlowTimings()))
        if run.start_time is not None and run.run_id not in self._started:
            self._started.add(run.run_id)
            # A run that has waited before was retried after human_timeout: its start was counted then.
            if not summary.has_waited:
                for timings in counted:
                    timings.add_start(run)
        if run.status in TERMINAL:
            self._started.discard(run.run_id)
            for timings in counted:
                timings.add_end(run)


class _FlowTimings:
    """By flow for the first ones, together for the others."""

    def __init__(self) -> None:
        self._waits: dict[str, Distribution] = {}
        self._durations: dict[str, Distribution] = {}
        self._ended: Counter[tuple[str, str]] = Counter()
        self._redeliveries = 0
        self._flows: set[str] = set()

    def add_start(self, run: RunItem) -> None:
        if (queue_sec := run.queue_sec) is not None:
            self._add(self._waits, _WAIT, run.flow_name, queue_sec)

    def add_end(self, run: RunItem) -> None:
        self._ended[self._label(run.flow_name), run.status] += 1
        self._redeliveries += max(0, run.attempt - 1)
        if run.start_time is not None and run.end_time is not None:
            self._add(self._durations, _DURATION, run.flow_name, run.end_time - run.start_time)

    def _add(self, where: dict[str, Distribution], metric: str, flow_name: str, seconds: float) -> None:
        label = self._label(flow_name)
        if label not in where:
            where[label] = Distribution(metric)
        # Negative when the clocks of two machines differ.
        where[label].add(max(0.0, seconds))

    def _label(self, flow_name: str) -> str:
        flow_name = redact_keys(flow_name)
        if flow_name not in self._flows:
            if len(self._flows) >= MAX_FLOWS:
                return OTHER_FLOWS
            self._flows.add(flow_name)
        return flow_name

    def report_to(self, page: MetricPage) -> None:
        for metric, found in ((_WAIT, self._waits), (_DURATION, self._durations)):
            for flow_name, values in found.items():
                page.put_distribution(metric, values, flow_name)
        for (flow_name, status), count in self._ended.items():
            page.put("pyoco_runs_ended_total", count, flow_name, status)
        page.put("pyoco_redeliveries_total", self._redeliveries)
