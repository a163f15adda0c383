"""A workflow event from its template to its run: the processing order, and the audit of each outcome."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.triggers.receipt_store import ReceiptKey
from pyoco_server.errors import (
    EventNotProcessed,
    NatsUnavailable,
    PyocoError,
    TemplateBusy,
    TemplateConflict,
    TemplateNotFound,
)
from pyoco_server.records.ids import uuid_of
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import Job, new_run_id
from pyoco_server.records.triggers.trigger_models import FlowBinding, TemplateOverlap, TemplateRecord
from pyoco_server.records.triggers.workflow_event_models import (
    AuditRow,
    EventActor,
    EventDetails,
    EventInput,
    EventStatus,
    Receipt,
    RetryAdvice,
    RetryJob,
)
from pyoco_server.records.waits.signal_models import digest_token
from pyoco_server.runs.lifecycle.submission import Submitter
from pyoco_server.triggers.flow_binding import job_of_binding
from pyoco_server.triggers.overlap_slots import OverlapSlots
from pyoco_server.triggers.trigger_receipts import (
    BeforeAccept,
    StartedOnce,
    StartRequest,
    TriggerReceipts,
    run_id_of,
)
from pyoco_server.triggers.workflow_events.action_service import ActionService
from pyoco_server.triggers.workflow_events.event_audit_writer import EventAuditWriter, new_row
from pyoco_server.triggers.workflow_events.event_reasons import (
    DUPLICATE,
    EXCEPTION,
    MALFORMED,
    EventFailure,
    reason_of,
)
from pyoco_server.triggers.workflow_events.event_refusals import (
    has_month,
    invalid_event_month,
    not_executable,
)
from pyoco_server.triggers.workflow_events.event_submission import (
    WorkflowEventSubmission,
    params_of,
    read_event,
    with_template_defaults,
)
from pyoco_server.triggers.workflow_events.retry_queue import NotExecutable, RetryQueue
from pyoco_server.triggers.workflow_events.template_resolution import resolve_template
from pyoco_server.triggers.workflow_events.template_service import TemplateService

log = logging.getLogger(__name__)

_ACTION: Final = "workflow_event"
_RETRY_ACTION: Final = "workflow_event_retry"


@dataclass(frozen=True, slots=True)
class Sender:
    tenant_id: str | None
    api_key_id: str | None
    actor: EventActor


@dataclass(frozen=True, slots=True)
class EventResponse:
    template: TemplateRecord
    idempotency_key: str | None
    run_id: str
    duplicate: bool


@dataclass(frozen=True, slots=True)
class EventPreview:
    """What an event would start, and the error that it would be refused with."""

    template: TemplateRecord
    binding: FlowBinding | None
    event: EventInput
    idempotency_key: str | None
    problem: PyocoError | None

    @property
    def params(self) -> dict[str, Any]:
        return params_of(self.event) | ({} if self.binding is None else self.binding.params)


@dataclass(slots=True)
class _Processing:
    """An event that is being processed, and what is known of it so far."""

    sender: Sender
    submission: WorkflowEventSubmission
    # What it has sent, with the defaults of its template once that is resolved.
    filled: EventInput
    action: str = _ACTION
    template: TemplateRecord | None = None

    @property
    def resolved_template(self) -> TemplateRecord:
        assert self.template is not None, "its template is resolved"
        return self.template

    def details(self, reason: EventFailure | None = None, why: str | None = None) -> EventDetails:
        template = self.template
        return EventDetails(
            template_id=self.submission.template_id if template is None else template.id,
            template_name=None if template is None else template.name,
            event_name=self.filled.event_name,
            source=self.filled.source,
            idempotency_key=self.submission.idempotency_key,
            reason=why,
            reason_class=None if reason is None else reason.reason_class,
            reason_code=None if reason is None else reason.code,
            retry_advice=None if reason is None else reason.advice,
            duplicate=reason is DUPLICATE,
        )


class WorkflowEvents:
    def __init__(
        self,
        connection: Connection,
        *,
        templates: TemplateService,
        actions: ActionService,
        receipts: TriggerReceipts,
        submitter: Submitter,
        audit: EventAuditWriter,
        clock: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._config = connection.config
        self._templates = templates
        self._actions = actions
        self._receipts = receipts
        self._submitter = submitter
        self._audit = audit
        self._clock = clock
        self._slots = OverlapSlots(connection)
        # Set by the services: the queue executes what this offers.
        self.retries: RetryQueue | None = None
        # What became of the events that this gateway has received.
        self.outcomes: Counter[str] = Counter(dict.fromkeys(EventStatus, 0))

    async def receive(self, submission: WorkflowEventSubmission, sender: Sender) -> EventResponse:
        """Start the run of an event, or find that of its idempotency key."""
        event = _Processing(sender, submission, submission.event)
        try:
            started = await self._process(event)
        except Exception as error:
            failure = _answerable(error)
            await self._note_failure(event, error)
            if failure is error:
                raise
            raise failure from error
        template = event.resolved_template
        if not started.is_new:
            await self._note_duplicate(event, started)
        return EventResponse(
            template, submission.idempotency_key, started.run_id, duplicate=not started.is_new
        )

    async def refuse(self, error: PyocoError, sender: Sender, body: dict[str, Any] | None = None) -> None:
        """Write an audit row for a body that cannot be read."""
        submission = read_event(body or {})
        event = _Processing(sender, submission, submission.event)
        await self._write_row(event, MALFORMED, _why(error))

    async def retry(self, job: RetryJob) -> str:
        """Execute a retry job: the id of its run. NotExecutable if its template has changed."""
        event = self._event_of(job)
        try:
            event.template = await self._template_of(job)
        except (TemplateNotFound, TemplateConflict) as error:
            reason = reason_of(error)
            await self._write_row(event, reason, error.detail)
            raise NotExecutable(error.detail, reason) from error
        try:
            started = await self._found_or_started(event)
        except Exception as error:
            await self._write_row(event, reason_of(error), _why(error))
            raise
        if not started.is_new:
            await self._note_duplicate(event, started)
        return started.run_id

    async def _template_of(self, job: RetryJob) -> TemplateRecord:
        """TemplateNotFound or TemplateConflict if it would start something else than the event."""
        template = await self._resolved(job.tenant_id, job.template_id, None)
        if template.first.action != job.action_key:
            raise TemplateConflict(f"the action of the template is {template.first.action!r} by now")
        return template

    async def test(
        self, submission: WorkflowEventSubmission, template: TemplateRecord, tenant_id: str | None
    ) -> EventPreview:
        """What an event would start by this template; nothing is started, stored or audited."""
        event = with_template_defaults(submission.event, template)
        binding = await self._actions.binding_of(tenant_id, template.first.action)
        problem: PyocoError | None = None
        try:
            resolve_template([template], template.id, None)
            if binding is None:
                raise not_executable(template)
            if not has_month(event):
                raise invalid_event_month(event)
        except PyocoError as error:
            problem = error
        return EventPreview(template, binding, event, submission.idempotency_key, problem)

    async def _process(self, event: _Processing) -> StartedOnce:
        submission, tenant_id = event.submission, event.sender.tenant_id
        template = await self._resolved(tenant_id, submission.template_id, submission.event_name)
        event.template = template
        event.filled = with_template_defaults(submission.event, template)
        return await self._found_or_started(event)

    async def _found_or_started(self, event: _Processing) -> StartedOnce:
        """The run of its key, or a new one. A duplicate is found even if the event names no month."""
        submission = event.submission
        binding = await self._binding(event)
        if submission.idempotency_key is not None:
            found = await self._receipts.find(self._key(event, submission.idempotency_key))
            if found is not None:
                return await self._receipts.finish(found, submission.fingerprint, self._note_success(event))
        if not has_month(event.filled):
            raise invalid_event_month(event.filled)
        return await self._start(event, binding)

    async def _resolved(
        self, tenant_id: str | None, template_id: str | None, event_name: str | None
    ) -> TemplateRecord:
        try:
            return resolve_template(self._templates.known(tenant_id), template_id, event_name)
        except (TemplateNotFound, TemplateConflict):
            # Another gateway may just have stored or removed one.
            current = await self._templates.current(tenant_id)
            return resolve_template(current, template_id, event_name)

    async def _binding(self, event: _Processing) -> FlowBinding:
        binding = await self._actions.binding_of(event.sender.tenant_id, event.resolved_template.first.action)
        if binding is None:
            raise not_executable(event.resolved_template)
        return binding

    async def _start(self, event: _Processing, binding: FlowBinding) -> StartedOnce:
        job = self._job(event, binding)
        key = event.submission.idempotency_key
        if key is None:
            await self._take_slot(event, job.run_id)
            owner = _owner(event.resolved_template)
            async with self._slots.freed_if_refused(event.sender.tenant_id, owner, job.run_id):
                await self._submitter.submit(job)
            started = StartedOnce(job.run_id, is_new=True)
            await self._audit.write(self._success_row(event, job.run_id, self._clock()))
        else:
            receipt_key = self._key(event, key)
            expected = run_id_of(receipt_key)
            await self._take_slot(event, expected)
            request = StartRequest(receipt_key, event.submission.fingerprint, job)
            started = await self._receipts.start_once(request, self._note_success(event))
            if started.run_id != expected and event.resolved_template.overlap is not TemplateOverlap.ALLOW:
                await self._slots.pass_on(
                    event.sender.tenant_id, _owner(event.resolved_template), expected, started.run_id
                )
        if started.is_new:
            self.outcomes[EventStatus.SUCCESS] += 1
            fields = {
                "run_id": started.run_id,
                "template_id": event.resolved_template.id,
                "source": event.filled.source,
            }
            log.info("a workflow event has started a run", extra=fields)
        return started

    async def _take_slot(self, event: _Processing, run_id: str) -> None:
        """TemplateBusy if the template forbids a second open run, and has one."""
        template = event.resolved_template
        if template.overlap is TemplateOverlap.ALLOW:
            return
        tenant_id = event.sender.tenant_id
        holder = await self._slots.take(tenant_id, _owner(template), run_id, now=self._clock())
        if holder is not None:
            raise TemplateBusy(f"A run of this workflow template is active: {holder}.")

    def _job(self, event: _Processing, binding: FlowBinding) -> Job:
        job = job_of_binding(
            binding,
            params_of(with_template_defaults(event.submission.event, event.resolved_template)),
            tenant_id=event.sender.tenant_id,
            api_key_id=event.sender.api_key_id,
            cause=Cause(kind=CauseKind.EVENT, id=_owner(event.resolved_template)),
        )
        job.run_id = new_run_id()
        return job

    def _key(self, event: _Processing, key: str) -> ReceiptKey:
        return ReceiptKey(event.sender.tenant_id, _owner(event.resolved_template), key)

    # The audit

    def _note_success(self, event: _Processing) -> BeforeAccept:
        async def publish(receipt: Receipt) -> None:
            # Its id follows from the run: a repeated event that completes the receipt writes the same row.
            await self._audit.publish(self._success_row(event, receipt.run_id, receipt.reserved_at))

        return publish

    def _success_row(self, event: _Processing, run_id: str, at: float) -> AuditRow:
        return new_row(
            at=at,
            year=event.filled.year,
            month=event.filled.month,
            action=event.action,
            status=EventStatus.SUCCESS,
            actor=event.sender.actor,
            details=event.details(),
            row_id=uuid_of("started", run_id),
            run_id=run_id,
            tenant_id=event.sender.tenant_id,
        )

    async def _note_duplicate(self, event: _Processing, started: StartedOnce) -> None:
        why = "The payload differs from that of the first event." if started.differs else None
        await self._write_row(event, DUPLICATE, why, run_id=started.run_id, differs=started.differs)

    async def _note_failure(self, event: _Processing, error: Exception) -> None:
        reason = reason_of(error)
        if reason is EXCEPTION and not isinstance(error, NatsUnavailable):
            log.error("unexpected error with a workflow event", exc_info=error)
        await self._write_row(event, reason, _why(error))
        if reason.advice is RetryAdvice.RETRY_WITH_BACKOFF:
            await self._queue(event, reason, _why(error))

    async def _write_row(
        self,
        event: _Processing,
        reason: EventFailure,
        why: str | None,
        *,
        run_id: str | None = None,
        differs: bool = False,
    ) -> None:
        self.outcomes[reason.status] += 1
        details = event.details(reason, why)
        details.payload_differs = differs
        known_month = has_month(event.filled)
        row = new_row(
            at=self._clock(),
            year=event.filled.year if known_month else 0,
            month=event.filled.month if known_month else 0,
            action=event.action,
            status=reason.status,
            actor=event.sender.actor,
            details=details,
            run_id=run_id,
            tenant_id=event.sender.tenant_id,
        )
        await self._audit.write(row)

    # Retries

    async def _queue(self, event: _Processing, reason: EventFailure, why: str) -> None:
        """Have it sent again, if that cannot start a second run and NATS can store it."""
        key = event.submission.idempotency_key
        if key is None or event.template is None or self.retries is None or not self._connection.ready:
            return
        now, config = self._clock(), self._config
        name = f"{event.template.id}\n{key}"
        job = RetryJob(
            job_id=digest_token(name),
            template_id=event.template.id,
            template_name=event.template.name,
            action_key=event.template.first.action,
            idempotency_key=key,
            fingerprint=event.submission.fingerprint,
            event=event.filled,
            max_attempts=config.workflow_event_retry_max_attempts,
            next_retry_at=now + config.workflow_event_retry_base_delay_seconds,
            last_error=why,
            last_reason_class=reason.reason_class,
            last_reason_code=reason.code,
            last_retry_advice=reason.advice,
            created_at=now,
            updated_at=now,
            tenant_id=event.sender.tenant_id,
            api_key_id=event.sender.api_key_id,
            actor=event.sender.actor,
        )
        try:
            await self.retries.add(job)
        except PyocoError as error:
            # The sender gets the error of its event.
            log.warning("a failed workflow event could not be stored for a retry: %s", error)

    def _event_of(self, job: RetryJob) -> _Processing:
        event = msgspec.structs.replace(job.event, source=f"{job.event.source}:retry")
        # Its run gets the source of the sender.
        submission = WorkflowEventSubmission(job.template_id, job.idempotency_key, job.event, job.fingerprint)
        sender = Sender(job.tenant_id, job.api_key_id, job.actor)
        return _Processing(sender, submission, event, action=_RETRY_ACTION)


def _owner(template: TemplateRecord) -> str:
    """What starts its runs, and has its receipts and its slot."""
    return f"template:{template.id}"


def _answerable(error: Exception) -> Exception:
    """An error that is not ours is a 503: the sender may repeat the event."""
    return error if isinstance(error, PyocoError) else EventNotProcessed()


def _why(error: Exception) -> str:
    if not isinstance(error, PyocoError):
        return type(error).__name__
    return error.public_detail or "; ".join(map(str, error.problems)) or error.error.en
