"""The services of a gateway, one per area; `gateway.py` creates them and starts them in order."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pyoco_server.agent.requests.repository_files import RepositoryFiles
from pyoco_server.agent.requests.request_service import RequestService
from pyoco_server.aio.timekeeper import Timekeeper
from pyoco_server.alerts.alert_deliverer import AlertDeliverer
from pyoco_server.alerts.alert_directory import AlertDirectory
from pyoco_server.alerts.alert_evaluator import AlertEvaluator
from pyoco_server.alerts.alert_sender import AlertSender
from pyoco_server.alerts.alert_service import AlertService
from pyoco_server.alerts.condition_reader import ConditionReader
from pyoco_server.audit.audit_entry_feed import AuditEntryFeedReader, AuditLists
from pyoco_server.audit.audit_entry_index import AuditEntryIndex
from pyoco_server.audit.audit_log import AuditLog
from pyoco_server.auth.api_key_cache import ApiKeyCache
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.server_clock import ServerClock
from pyoco_server.broker.stores.monitoring.alert_store import AlertStore
from pyoco_server.broker.stores.runs.bulk_records import BulkRecords
from pyoco_server.broker.stores.runs.run_hints import RunWatches
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.schedules.schedule_store import ScheduleStore
from pyoco_server.broker.stores.shared_secret import shared_secret
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.broker.stores.workers.wheel_history import WheelHistory
from pyoco_server.broker.stores.workers.worker_registry import WorkerRegistry
from pyoco_server.catalogue.flow_directory import FlowDirectory
from pyoco_server.catalogue.submit_checks import SubmitChecks
from pyoco_server.http_api.metrics.run_timings import RunTimings
from pyoco_server.http_api.responses.not_found_delay import NotFoundDelay
from pyoco_server.records.runs.run_models import Job, RunStatus, WaitKind
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.runs.bulk.bulk_operations import BulkSubmitter
from pyoco_server.runs.bulk.bulk_runner import BulkRunner
from pyoco_server.runs.explain.explainer import Explainer
from pyoco_server.runs.index.pagination import Cursors
from pyoco_server.runs.index.run_feed_reader import RunFeedReader
from pyoco_server.runs.index.run_index import RunIndex
from pyoco_server.runs.index.run_lists import RunLists
from pyoco_server.runs.index.statistics.flow_statistics import FlowStatistics
from pyoco_server.runs.lifecycle.submission import Submitter
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.watch.run_hub import RunHub
from pyoco_server.schedules.schedule_directory import ScheduleDirectory
from pyoco_server.schedules.schedule_lists import ScheduleLists
from pyoco_server.schedules.schedule_runner import ScheduleRunner
from pyoco_server.schedules.schedule_service import ScheduleService
from pyoco_server.signals.event_sending import EventSender
from pyoco_server.signals.signal_sending import SignalSender
from pyoco_server.signals.wait_matching import WaitMatching
from pyoco_server.triggers.secret_keys import box_of
from pyoco_server.waits.human.answers.answering import AnswerHandler
from pyoco_server.waits.human.inbox_hub import InboxHub
from pyoco_server.waits.human.wait_changes import WaitChanges
from pyoco_server.waits.index.wait_feed import DecidedCounts, WaitFeedReader, feed_of
from pyoco_server.waits.index.wait_index import WaitIndex, WaitLists
from pyoco_server.waits.wait_maintenance import WaitMaintenance
from pyoco_server.wheels.wheel_registry import WheelRegistry

# Each upload needs a temporary file.
_MOST_UPLOADS = 4
_SHARED_SEC = 1.0
# Above this, results that nobody shares any more are removed.
_MOST_SHARED = 100

T = TypeVar("T")


class Service(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None:
        """Also called when `start` failed or was never called."""
        ...


class ServiceGroup:
    """Starts its parts in their order, and closes them in reverse."""

    parts: tuple[Service, ...]

    async def start(self) -> None:
        for part in self.parts:
            await part.start()

    async def close(self) -> None:
        for part in reversed(self.parts):
            await part.close()


class Authentication:
    """API keys, and responses that do not reveal what other tenants have."""

    def __init__(self, connection: Connection) -> None:
        self._enabled = connection.config.http_auth_mode == "api_key"
        self.keys = ApiKeyCache(connection)
        self.not_found_delay = NotFoundDelay()

    async def start(self) -> None:
        if self._enabled:
            await self.keys.start()

    async def close(self) -> None:
        await self.keys.close()
        self.not_found_delay.close()


class Runs(ServiceGroup):
    """Submitting a run, and reading one."""

    def __init__(
        self,
        connection: Connection,
        lists: RunLists,
        *,
        is_lost: Callable[[WorkerRecord], bool],
        clock: Callable[[], float],
    ) -> None:
        self.store = RunStore(connection)
        self.logs = RunLogs(connection)
        self.hints = RunWatches(connection)
        self.submitter = Submitter(connection, clock=clock)
        self.explainer = Explainer(connection, lists, is_lost)
        self.parts = (self.submitter,)
        self._clock = clock

    async def accepted_status(self, job: Job | None, run_id: str) -> RunStatus:
        """SCHEDULED while the run is held for its start; otherwise PENDING, as in every other response.

        `job` is None, or of another run, if an earlier request with the same key has made the run.
        """
        if job is not None and job.run_id == run_id:
            is_held = (job.start_at or 0.0) > self._clock()
        else:
            stored = await self.store.get(run_id)
            is_held = stored is not None and stored.snapshot.status is RunStatus.SCHEDULED
        return RunStatus.SCHEDULED if is_held else RunStatus.PENDING


class RunReadModel(ServiceGroup):
    """The read model of runs: lists, changes, and how long runs took, all from one feed."""

    def __init__(self, connection: Connection) -> None:
        config = connection.config
        self.index = RunIndex(Path(config.index_dir))
        self.open_runs = OpenRuns()
        self.run_hub = RunHub()
        self.timings = RunTimings()
        self.run_hub.on_begin(lambda: self.timings.begin(self.open_runs.started))
        self.run_hub.on_changes(self.timings.take)
        reader = RunFeedReader(connection, self.index, self.open_runs, self.run_hub)
        self.feed = BucketFeed(connection, reader, bucket=config.runs_kv_bucket, label="runs")
        self.run_hub.on_followed(self.feed.set_live)
        self.lists = RunLists(self.index, self.feed)
        self.parts = (self.index, self.feed)


class Bulk(ServiceGroup):
    """Operations on many runs or dead letters."""

    def __init__(self, connection: Connection, submitter: Submitter) -> None:
        self.runner = BulkRunner(connection, submitter)
        self.records = BulkRecords(connection)
        self.starter = BulkSubmitter(connection, self.records, submitter.withdrawer)
        self.parts = (self.runner,)


class Flows(ServiceGroup):
    """The flows of live workers, and checks of new runs against them."""

    def __init__(self, connection: Connection, *, state_of: Callable[[WorkerRecord], WorkerState]) -> None:
        self.directory = FlowDirectory(connection, state_of)
        self.checks = SubmitChecks(self.directory)
        # Of the last day, by tenant and tag.
        self.statistics: SharedResults[dict[str, FlowStatistics]] = SharedResults()
        self.parts = (self.directory, self.checks)


class Wheels(ServiceGroup):
    def __init__(self, connection: Connection) -> None:
        self.registry = WheelRegistry(connection)
        self.history = WheelHistory(connection)
        self.uploads = asyncio.Semaphore(_MOST_UPLOADS)
        self.parts = (self.registry,)


class Waits(ServiceGroup):
    """Waits of all kinds: records, index and expiry; of those for people also lists, inbox and answers."""

    def __init__(
        self, connection: Connection, open_runs: OpenRuns, *, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` decides when a wait is due."""
        config = connection.config
        self.store = WaitStore(connection)
        self.events = WaitEventLog(connection)
        self.index = WaitIndex(Path(config.index_dir))
        self.inbox = InboxHub()
        self.decided = DecidedCounts()
        reader = WaitFeedReader(connection, self.index, self.inbox, self.decided)
        self.feed = feed_of(connection, reader)
        self.lists = WaitLists(self.index, self.feed)
        self.answers = AnswerHandler(connection, clock=clock)
        self.wait_actions = WaitChanges(connection, clock=clock)
        self.maintenance = WaitMaintenance(connection, self.index, open_runs, clock=clock)
        reader.on_writes(self.maintenance.take)
        reader.on_changes(self.maintenance.wake)
        reader.on_filled(self.maintenance.check_everything)
        reader.on_disappeared(self.maintenance.check_runs)
        self.on_writes = reader.on_writes
        self.parts = (self.index, self.feed, self.maintenance)

    async def close(self) -> None:
        await self.answers.close()
        await super().close()


class Schedules(ServiceGroup):
    """Runs that start by themselves."""

    def __init__(
        self, connection: Connection, timekeeper: Timekeeper, clock: ServerClock, open_runs: OpenRuns
    ) -> None:
        self.store = ScheduleStore(connection)
        self.directory = ScheduleDirectory(connection, clock=timekeeper.now)
        self.runner = ScheduleRunner(
            connection,
            self.directory,
            clock=timekeeper.now,
            knows_time=lambda: clock.offset_sec is not None,
        )
        timekeeper.add(self.runner)
        self.directory.on_changes(lambda: timekeeper.wake(self.runner.name))
        open_runs.on_ended(self.directory.run_ended)
        self.lists = ScheduleLists(self.directory)
        self.service = ScheduleService(self.store, self.runner, clock=timekeeper.now)
        self.parts = (self.directory,)


class Signals(ServiceGroup):
    """Signals to runs and events for all runs, and the waits that they answer."""

    def __init__(self, connection: Connection, waits: Waits, *, clock: Callable[[], float]) -> None:
        """`clock` is that of the NATS server: of signals, events, and the waits that they answer."""
        self.signal_sender = SignalSender(connection, clock=clock)
        self.event_sender = EventSender(connection, clock=clock)
        self.matching = WaitMatching(connection, waits.index, clock=clock)
        waits.on_writes(self.matching.take)
        self.parts = (self.matching,)

    @property
    def sent(self) -> dict[WaitKind, int]:
        """How many were accepted here."""
        return {WaitKind.SIGNAL: self.signal_sender.sent, WaitKind.EVENT: self.event_sender.sent}


class Alerts(ServiceGroup):
    """Conditions of runs, queues and workers that are reported to people."""

    def __init__(self, connection: Connection, timekeeper: Timekeeper, lists: RunLists) -> None:
        config, clock, box = connection.config, timekeeper.now, box_of(connection.config)
        store = AlertStore(connection)
        self.directory = AlertDirectory(connection)
        conditions = ConditionReader(config, lists, WorkerRegistry(connection).all)
        sender = AlertSender(config, box)
        self.evaluator = AlertEvaluator(
            store, self.directory, conditions, clock=clock, interval_sec=config.alert_interval_sec
        )
        wake = partial(timekeeper.wake, AlertDeliverer.name)
        self.deliverer = AlertDeliverer(config, store, self.directory, sender, clock=clock, wake=wake)
        for source in (self.evaluator, self.deliverer):
            timekeeper.add(source)
            self.directory.on_changes(partial(timekeeper.wake, source.name))
        self.service = AlertService(
            config, store, self.directory, conditions=conditions, sender=sender, box=box, clock=clock
        )
        self.parts = (self.directory, sender, self.deliverer)


class AgentRequests(ServiceGroup):
    """The requests of the repository that this gateway serves."""

    def __init__(
        self,
        connection: Connection,
        repository: RepositoryFiles,
        timekeeper: Timekeeper,
        changes: RunHub,
        answers: AnswerHandler,
    ) -> None:
        self.service = RequestService(connection, repository, answers, clock=timekeeper.now)
        queue = self.service.queue
        timekeeper.add(queue)
        queue.on_changes(lambda: timekeeper.wake(queue.name))
        changes.on_changes(queue.runs_changed)
        self.parts = (queue,)


class Audit(ServiceGroup):
    """The audit log: writing and listing it."""

    def __init__(self, connection: Connection, runs: RunStore) -> None:
        self.log = AuditLog(connection, runs)
        index = AuditEntryIndex(Path(connection.config.index_dir))
        feed = AuditEntryFeedReader(connection, index).feed
        self.lists = AuditLists(index, feed)
        self.parts = (index, feed)


class SharedCursors:
    """List cursors, signed with the key that all gateways share."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._cursors: Cursors | None = None
        connection.on_connect(self._forget)

    async def get(self) -> Cursors:
        """The key is read once per connection; NatsUnavailable when that fails."""
        if self._cursors is None:
            self._cursors = Cursors(await shared_secret(self._connection, "cursors"))
        return self._cursors

    async def _forget(self) -> None:
        # A server that lost its data has another key.
        self._cursors = None


@dataclass(slots=True)
class _SharedResult(Generic[T]):
    value: T | None = None
    expires_at: float = 0.0
    # Held while the result is computed.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SharedResults(Generic[T]):
    """Results that all requests within one second share: one per key."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _SharedResult[T]] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        if len(self._entries) >= _MOST_SHARED:
            self._remove_expired()
        entry = self._entries.setdefault(key, _SharedResult())
        async with entry.lock:
            if entry.value is None or time.monotonic() >= entry.expires_at:
                entry.value = await compute()
                entry.expires_at = time.monotonic() + _SHARED_SEC
            return entry.value

    def _remove_expired(self) -> None:
        now = time.monotonic()
        for key, entry in list(self._entries.items()):
            if now >= entry.expires_at and not entry.lock.locked():
                del self._entries[key]
