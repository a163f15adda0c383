"""The services of a gateway for workflow events and hooks."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from pyoco_server.aio.timekeeper import Timekeeper
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.record_directory import RecordDirectory
from pyoco_server.http_api.requests.body_budget import BodyBudget
from pyoco_server.http_api.services import ServiceGroup
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.runs.lifecycle.submission import Submitter
from pyoco_server.triggers.hooks.delivery_recorder import DeliveryRecorder
from pyoco_server.triggers.hooks.hook_directory import HookDirectory
from pyoco_server.triggers.hooks.hook_intake import HookIntake
from pyoco_server.triggers.hooks.hook_receiver import HookReceiver
from pyoco_server.triggers.hooks.hook_service import HookService
from pyoco_server.triggers.secret_keys import box_of
from pyoco_server.triggers.trigger_receipts import TriggerReceipts
from pyoco_server.triggers.workflow_events.action_service import ActionService
from pyoco_server.triggers.workflow_events.chat_notifications import ChatNotifications
from pyoco_server.triggers.workflow_events.event_audit_feed import EventAuditFeedReader, EventAuditSummaries
from pyoco_server.triggers.workflow_events.event_audit_file import EventAuditFile
from pyoco_server.triggers.workflow_events.event_audit_index import EventAuditIndex
from pyoco_server.triggers.workflow_events.event_audit_writer import EventAuditWriter
from pyoco_server.triggers.workflow_events.event_service import WorkflowEvents
from pyoco_server.triggers.workflow_events.retry_queue import RetryQueue
from pyoco_server.triggers.workflow_events.template_service import TemplateService

_DAY_SEC: Final = 86_400.0


class Triggers(ServiceGroup):
    """What starts runs from outside: the followed copy of hooks, templates and actions."""

    def __init__(self, connection: Connection) -> None:
        bucket = connection.config.triggers_kv_bucket
        self.directory = RecordDirectory(connection, bucket=bucket, of="hooks and templates")
        self.parts = (self.directory,)


class Hooks(ServiceGroup):
    """Deliveries of other systems, over HTTP and over NATS, and what is kept of them."""

    def __init__(self, connection: Connection, timekeeper: Timekeeper, directory: RecordDirectory) -> None:
        config, clock, box = connection.config, timekeeper.now, box_of(connection.config)
        self.directory = HookDirectory(directory, box, clock=clock)
        receipts = TriggerReceipts(connection, ttl_sec=config.hook_idempotency_ttl_sec, clock=clock)
        self.recorder = DeliveryRecorder(connection, clock=clock)
        counter = self.recorder.counter
        timekeeper.add(counter)
        counter.on_counted(lambda: timekeeper.wake(counter.name))
        self.receiver = HookReceiver(connection, self.directory, receipts, self.recorder, clock=clock)
        self.service = HookService(connection, self.directory, self.receiver, box, clock=clock)
        intake = HookIntake(connection, self.directory, self.receiver)
        self.bodies = BodyBudget(config.hook_body_max_bytes)
        self.parts = (receipts, self.recorder, intake)


class WorkflowEventParts(ServiceGroup):
    """Workflow events: templates, actions, receipts, the audit, retries and notifications."""

    def __init__(
        self,
        connection: Connection,
        timekeeper: Timekeeper,
        directory: RecordDirectory,
        submitter: Submitter,
        *,
        live_workers: Callable[[], Awaitable[Iterable[WorkerRecord]]],
    ) -> None:
        config, clock = connection.config, timekeeper.now
        self.templates = TemplateService(connection, directory, clock=clock)
        self.actions = ActionService(connection, directory, clock=clock, live_workers=live_workers)
        self.receipts = TriggerReceipts(
            connection,
            ttl_sec=config.workflow_event_receipt_ttl_days * _DAY_SEC,
            most=config.workflow_event_max_receipts,
            clock=clock,
        )
        self.audit = EventAuditWriter(connection, clock=clock)
        timekeeper.add(self.audit)
        self.audit.on_refused(lambda: timekeeper.wake(self.audit.name))
        self.notifications = ChatNotifications(connection, box_of(config), self.audit, clock=clock)
        self.service = WorkflowEvents(
            connection,
            templates=self.templates,
            actions=self.actions,
            receipts=self.receipts,
            submitter=submitter,
            audit=self.audit,
            clock=clock,
        )
        self.retries = RetryQueue(
            connection,
            clock=clock,
            execute=self.service.retry,
            on_escalated=self.notifications.escalated,
        )
        self.service.retries = self.retries
        timekeeper.add(self.retries)
        self.retries.on_changes(lambda: timekeeper.wake(self.retries.name))

        index = EventAuditIndex(Path(config.index_dir))
        self.audit_file = EventAuditFile(connection)
        reader = EventAuditFeedReader(connection, index, self.audit_file.wake)
        self.summaries = EventAuditSummaries(index, reader.feed)
        self.parts = (self.audit, index, reader.feed, self.audit_file, self.receipts, self.retries)
