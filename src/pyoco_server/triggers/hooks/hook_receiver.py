"""From a delivery to its run: the proof, the mapping, the idempotency key, overlapping runs, the start.

A delivery with a key is started through a receipt (triggers/trigger_receipts.py): repeated by its sender, or
at two gateways at once, it starts one run.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.triggers.receipt_store import ReceiptKey
from pyoco_server.errors import (
    HookBusy,
    HookRefused,
    InvalidRequest,
    NatsUnavailable,
    PyocoError,
    SecretUnreadable,
    shortened,
)
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import Job
from pyoco_server.records.triggers.hook_models import (
    DeliveryContent,
    DeliveryStatus,
    DeliverySummary,
    HookOverlap,
    HookRecord,
)
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from pyoco_server.runs.lifecycle.input_limits import check_params
from pyoco_server.telemetry import tracing
from pyoco_server.triggers.flow_binding import job_of_binding
from pyoco_server.triggers.hooks.delivery_mapping import MappedDelivery, mapped
from pyoco_server.triggers.hooks.delivery_recorder import DeliveryRecorder
from pyoco_server.triggers.hooks.hook_directory import HookDirectory
from pyoco_server.triggers.hooks.signatures import Incoming
from pyoco_server.triggers.overlap_slots import OverlapSlots
from pyoco_server.triggers.trigger_receipts import StartRequest, TriggerReceipts, run_id_of

log = logging.getLogger(__name__)

_FINGERPRINT_CHARS: Final = 32
_SHOWN_KEY_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """What became of a delivery."""

    status: DeliveryStatus
    run_id: str | None = None
    # Why no run was started.
    reason: str | None = None

    @property
    def is_duplicate(self) -> bool:
        return self.status is DeliveryStatus.DUPLICATE

    @property
    def http_status(self) -> int:
        return HTTPStatus.OK if self.run_id is None else HTTPStatus.ACCEPTED


@dataclass(frozen=True, slots=True)
class Repetition:
    """A kept delivery that is processed again."""

    delivery_id: int
    # In place of the key of the delivery: it starts another run.
    key: str | None = None


class HookReceiver:
    def __init__(
        self,
        connection: Connection,
        directory: HookDirectory,
        receipts: TriggerReceipts,
        recorder: DeliveryRecorder,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._config = connection.config
        self._directory = directory
        self._receipts = receipts
        self._starter = DurableStarter(connection)
        self._slots = OverlapSlots(connection)
        self._recorder = recorder
        self._clock = clock
        # By status.
        self.counts: Counter[str] = Counter(dict.fromkeys(DeliveryStatus, 0))

    async def receive(self, hook_id: str, delivery: Incoming) -> DeliveryOutcome:
        """HookRefused without a valid proof, also if there is no such hook."""
        return await self.process(await self._proven(hook_id, delivery), delivery)

    async def process(
        self, hook: HookRecord, delivery: Incoming, *, again: Repetition | None = None, default_key: str = ""
    ) -> DeliveryOutcome:
        """Start the run of a delivery whose proof is valid, and keep the delivery.

        `default_key` is used where the sender names no key. HookBusy and InvalidRequest are recorded as well.
        """
        work = _Work(hook, delivery, again, default_key)
        try:
            work.found = mapped(hook, delivery)
            work.params = work.found.params | hook.params
            key = (again.key if again else None) or work.found.key or default_key or None
            outcome = await self._start_run(work, work.found, key)
        except PyocoError as error:
            self._record_error(work, error)
            raise
        self._record(work, outcome)
        return outcome

    async def _proven(self, hook_id: str, delivery: Incoming) -> HookRecord:
        checked = self._directory.check(hook_id, delivery)
        if checked.hook is None:
            # Perhaps another gateway has just created it, or changed its secret.
            await self._directory.caught_up()
            checked = self._directory.check(hook_id, delivery)
        if checked.hook is not None:
            return checked.hook
        if checked.is_locked:
            raise SecretUnreadable
        self.counts[DeliveryStatus.REFUSED] += 1
        for hook, why in checked.refusals:
            self._recorder.count_refused(hook, why, delivery.client_ip)
        raise HookRefused

    async def _start_run(self, work: "_Work", found: MappedDelivery, key: str | None) -> DeliveryOutcome:
        if found.ignored is not None:
            return DeliveryOutcome(DeliveryStatus.IGNORED, reason=found.ignored)
        hook = work.hook
        check_params(self._config, work.params)
        job = job_of_binding(
            hook,
            found.params,
            tenant_id=hook.tenant_id,
            api_key_id=hook.api_key_id,
            cause=Cause(kind=CauseKind.EVENT, id=hook.cause_id),
        )
        receipt = None if key is None else ReceiptKey(hook.tenant_id, hook.owner, key)
        fingerprint = sha256(work.delivery.body).hexdigest()[:_FINGERPRINT_CHARS]
        with tracing.submitting(job, lambda: work.delivery.headers):
            if hook.overlap is not HookOverlap.ALLOW:
                if receipt is not None and (earlier := await self._receipts.find(receipt)) is not None:
                    started = await self._receipts.finish(earlier, fingerprint)
                    return DeliveryOutcome(DeliveryStatus.DUPLICATE, started.run_id)
                if (open_run := await self._take_slot(hook, receipt, job)) is not None:
                    return _overlapping(hook, open_run)
            if receipt is None:
                async with self._slots.freed_if_refused(hook.tenant_id, hook.owner, job.run_id):
                    await self._starter.ensure_run(job)
                return DeliveryOutcome(DeliveryStatus.STARTED, job.run_id)
            started = await self._receipts.start_once(StartRequest(receipt, fingerprint, job))
            expected = run_id_of(receipt)
            if started.run_id != expected and hook.overlap is not HookOverlap.ALLOW:
                await self._slots.pass_on(hook.tenant_id, hook.owner, expected, started.run_id)
        status = DeliveryStatus.STARTED if started.is_new else DeliveryStatus.DUPLICATE
        return DeliveryOutcome(status, started.run_id)

    async def _take_slot(self, hook: HookRecord, receipt: ReceiptKey | None, job: Job) -> str | None:
        """Take the hook's slot for the run of this delivery; returns the open run that has it, if any."""
        run_id = job.run_id if receipt is None else run_id_of(receipt)
        return await self._slots.take(hook.tenant_id, hook.owner, run_id, now=self._clock())

    def _record(self, work: "_Work", outcome: DeliveryOutcome) -> None:
        self.counts[outcome.status] += 1
        fields = {"hook_id": work.hook.hook_id, "run_id": outcome.run_id}
        log.debug("delivery %s", outcome.status, extra=fields)
        summary = self._summary(work, outcome.status, outcome.http_status)
        summary.run_id, summary.reason = outcome.run_id, outcome.reason
        answer = {"run_id": outcome.run_id, "duplicate": outcome.is_duplicate}
        content = DeliveryContent(
            params=work.params,
            answer=msgspec.json.encode(answer).decode(),
            default_key=work.default_key,
        )
        self._recorder.keep(work.hook, summary, work.delivery, content)

    def _record_error(self, work: "_Work", error: PyocoError) -> None:
        status, reason = _status_of(error)
        self.counts[status] += 1
        summary = self._summary(work, status, error.error.status)
        summary.reason = reason
        summary.detail = error.sentence(public=True)
        if status is DeliveryStatus.REJECTED and work.delivery.over_nats:
            # It waits in NATS, and is delivered again.
            if not work.delivery.is_repeated:
                self._recorder.count(work.hook, summary)
            return
        content = DeliveryContent(answer=error.error.err_id, default_key=work.default_key)
        self._recorder.keep(work.hook, summary, work.delivery, content)

    def _summary(self, work: "_Work", status: DeliveryStatus, http_status: int | None) -> DeliverySummary:
        found = work.found
        return DeliverySummary(
            at=self._clock(),
            status=status,
            http_status=None if work.delivery.over_nats else http_status,
            idempotency_key=None if found is None or found.key is None else found.key[:_SHOWN_KEY_CHARS],
            body_bytes=len(work.delivery.body),
            client_ip=work.delivery.client_ip,
            redelivery_of=None if work.again is None else work.again.delivery_id,
            missing=[] if found is None else found.missing,
        )


@dataclass(slots=True)
class _Work:
    """A delivery that is being processed, and what is known of it so far."""

    hook: HookRecord
    delivery: Incoming
    again: Repetition | None
    default_key: str
    found: MappedDelivery | None = None
    # Params of the run: the mapped ones, overridden by the fixed ones of the hook.
    params: dict[str, Any] = field(default_factory=dict)


def _status_of(error: PyocoError) -> tuple[DeliveryStatus, str]:
    if isinstance(error, HookBusy):
        return DeliveryStatus.REJECTED, "overlap"
    if isinstance(error, NatsUnavailable):
        return DeliveryStatus.FAILED, "nats_unavailable"
    if isinstance(error, InvalidRequest):
        return DeliveryStatus.REFUSED, "invalid"
    return DeliveryStatus.FAILED, error.error.err_id


def _overlapping(hook: HookRecord, open_run: str) -> DeliveryOutcome:
    if hook.overlap is HookOverlap.REJECT:
        raise HookBusy(f"the run {open_run} of the hook {shortened(hook.hook_id)} is open")
    return DeliveryOutcome(DeliveryStatus.SKIPPED, reason="overlap")
