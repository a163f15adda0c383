"""Reads whether the conditions of alerts are met: from the index of runs, and from the records of workers.

All gateways read the same and so agree: a worker counts as live by its heartbeats alone.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from pyoco_server.alerts.alert_transitions import AlertFinding
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.monitoring.alert_models import AlertCondition, AlertFacts, AlertRecord, AlertRule
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.runs.index.run_lists import RunLists
from pyoco_server.runs.index.statistics.activity import FailedRuns

# Failures beyond this are not counted.
MOST_FAILURES: Final = 1000
# So many flows and runs are named in a message.
_NAMED: Final = 5
# A run may end with an earlier time than one that was reported before: clocks of workers differ.
_CLOCK_DIFFERENCE_SEC: Final = 3600.0

Workers = Callable[[], Awaitable[list[WorkerRecord]]]


class ConditionReader:
    def __init__(self, config: NatsBackendConfig, lists: RunLists, workers: Workers) -> None:
        self._operator_tenant = config.http_operator_tenant
        self._disconnect_timeout_sec = config.worker_disconnect_timeout_sec
        self._lists = lists
        self._workers = workers

    def begin(self) -> "ConditionReading":
        """To read several alerts."""
        return ConditionReading(
            self._lists, self._workers, self._disconnect_timeout_sec, self._operator_tenant
        )


class ConditionReading:
    """What is read for several alerts at once: the workers are read once."""

    def __init__(
        self, lists: RunLists, workers: Workers, disconnect_timeout_sec: float, operator_tenant: str
    ) -> None:
        self._lists = lists
        self._read_workers = workers
        self._workers: list[WorkerRecord] | None = None
        self._disconnect_timeout_sec = disconnect_timeout_sec
        self._operator_tenant = operator_tenant

    async def find(self, record: AlertRecord, now: float) -> AlertFinding:
        """NatsUnavailable, IndexNotReady: the condition cannot be evaluated at present."""
        rule, tenant = record.rule, self._tenant(record)
        upto = 0
        match rule.condition:
            case AlertCondition.RUN_FAILED:
                is_met, facts, upto = await self._new_failures(record, tenant)
            case AlertCondition.FAILURES:
                is_met, facts = await self._failures(rule, tenant, now)
            case AlertCondition.FAILURE_RATE:
                is_met, facts = await self._failure_rate(rule, tenant, now)
            case AlertCondition.QUEUE_AGE:
                is_met, facts = await self._queue_age(rule, tenant, now)
            case AlertCondition.NO_WORKER:
                is_met, facts = await self._no_worker(record, tenant, now)
        return AlertFinding(record.revision, record.cursor, is_met, facts, upto)

    def _tenant(self, record: AlertRecord) -> str | None:
        """Whose runs it watches; None: all, as its owner sees all."""
        return None if record.tenant_id in (None, self._operator_tenant) else record.tenant_id

    async def _new_failures(self, record: AlertRecord, tenant: str | None) -> tuple[bool, AlertFacts, int]:
        """Since the last occurrence."""
        assert record.rule.flow_name is not None
        found = await self._lists.failed_since(
            tenant,
            record.rule.flow_name,
            since=record.seen_at - (_CLOCK_DIFFERENCE_SEC if record.cursor else 0.0),
            after=record.cursor,
            most=MOST_FAILURES,
            named=_NAMED,
        )
        return found.count > 0, _facts_of(found), found.upto

    async def _failures(self, rule: AlertRule, tenant: str | None, now: float) -> tuple[bool, AlertFacts]:
        assert rule.flow_name is not None
        assert rule.window_sec is not None
        assert rule.count is not None
        found = await self._lists.failed_since(
            tenant, rule.flow_name, since=now - rule.window_sec, most=MOST_FAILURES, named=_NAMED
        )
        return found.count >= rule.count, _facts_of(found)

    async def _failure_rate(self, rule: AlertRule, tenant: str | None, now: float) -> tuple[bool, AlertFacts]:
        assert rule.flow_name is not None
        assert rule.window_sec is not None
        assert rule.percent is not None
        ended = await self._lists.ended_since(tenant, rule.flow_name, now - rule.window_sec)
        runs, failed = ended.total(), ended[RunStatus.FAILED]
        percent = 100.0 * failed / runs if runs else 0.0
        is_met = failed > 0 and runs >= (rule.min_runs or 1) and percent >= rule.percent
        return is_met, AlertFacts(value=percent, runs=runs)

    async def _queue_age(self, rule: AlertRule, tenant: str | None, now: float) -> tuple[bool, AlertFacts]:
        assert rule.tag is not None
        assert rule.after_sec is not None
        queued = await self._lists.queued_runs(tenant, rule.tag)
        age_sec = 0.0 if queued.oldest_at is None else max(0.0, now - queued.oldest_at)
        return age_sec >= rule.after_sec and queued.count > 0, AlertFacts(value=age_sec, queued=queued.count)

    async def _no_worker(
        self, record: AlertRecord, tenant: str | None, now: float
    ) -> tuple[bool, AlertFacts]:
        rule = record.rule
        assert rule.tag is not None
        assert rule.after_sec is not None
        if self._workers is None:
            self._workers = await self._read_workers()
        serving = [worker for worker in self._workers if rule.tag in worker.tags]
        timeout = self._disconnect_timeout_sec
        if any(each.observed_state(disconnect_timeout_sec=timeout, now=now).alive for each in serving):
            return False, AlertFacts()
        queued = await self._lists.queued_runs(tenant, rule.tag)
        # An operator hides a worker that is not to come back.
        seen = [worker.last_seen_at for worker in serving if not worker.hidden]
        since = max(seen, default=queued.oldest_at)
        if since is None:
            return _keeps_firing(record, serving), AlertFacts()
        silent_sec = max(0.0, now - since)
        facts = AlertFacts(value=silent_sec, queued=queued.count, only_queued=not seen)
        # `after_sec` is when it begins: that a newer run is the oldest in the queue now does not end it.
        goes_on = record.current is not None and not seen
        return goes_on or silent_sec >= rule.after_sec, facts


def _keeps_firing(record: AlertRecord, serving: list[WorkerRecord]) -> bool:
    """Whether an alert stays firing while its tag has no queued run and no worker that is expected back.

    It does if it fired because of a silent worker whose record has been removed since: that worker has not
    come back. It is resolved if it fired for queued runs only, since none is queued any more, or if its
    workers are hidden.
    """
    current = record.current
    return current is not None and not current.facts.only_queued and not serving


def _facts_of(found: FailedRuns) -> AlertFacts:
    return AlertFacts(
        value=found.count,
        or_more=found.count == MOST_FAILURES,
        flows=found.flows,
        run_ids=found.run_ids,
    )
