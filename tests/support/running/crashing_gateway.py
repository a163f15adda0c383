"""A gateway that kills itself in the middle of its work: a kill from outside may come too late.

`python -m tests.support.running.crashing_gateway <crash point> <count> <arguments of pyoco-server>`: at the
call of this number of the method that `CRASH_POINTS` names, such as after the first job that is published.
"""

import itertools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from pyoco_server.alerts.alert_deliverer import AlertDeliverer
from pyoco_server.alerts.alert_evaluator import AlertEvaluator
from pyoco_server.broker.jetstream.object_store import ObjectStore
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.monitoring.alert_store import AlertStore
from pyoco_server.broker.stores.runs.bulk_records import BulkRecords
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.idempotency_keys import IdempotencyKeys
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.triggers.event_audit_store import EventAuditStore
from pyoco_server.broker.stores.triggers.receipt_store import ReceiptStore
from pyoco_server.broker.stores.waits.mailbox_store import MailboxStore
from pyoco_server.broker.stores.waits.sent_event_store import SentEventStore
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.cli.server.server_command import main
from pyoco_server.records.monitoring.alert_models import AlertRecord
from pyoco_server.records.waits.wait_models import WaitEventKind, WaitState
from pyoco_server.runs.bulk.bulk_runner import BulkSteps
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from pyoco_server.triggers.overlap_slots import OverlapSlots
from pyoco_server.waits.human.answers.answering import AnswerHandler


@dataclass(frozen=True)
class CrashPoint:
    """A step of the gateway's work: it dies behind it, or in its place."""

    owner: type
    name: str
    # The same method is used for other things, too.
    counts: Callable[..., bool] = lambda *_: True
    before: bool = False

    def die(self, at: int) -> None:
        """Have the call of this number, of those that count, be the last thing that this process does."""
        step: Callable[..., Awaitable[Any]] = getattr(self.owner, self.name)
        numbers = itertools.count(1)

        @wraps(step)
        async def last(*args: Any, **options: Any) -> Any:
            is_last = self.counts(*args) and next(numbers) == at
            if is_last and self.before:
                os.kill(os.getpid(), signal.SIGKILL)
            done = await step(*args, **options)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        setattr(self.owner, self.name, last)


def _has_claim(alert: AlertRecord) -> bool:
    return any(message.attempts for each in alert.history for message in each.fired)


CRASH_POINTS: dict[str, CrashPoint] = {
    "chunk": CrashPoint(ObjectStore, "_store_chunk"),
    "item": CrashPoint(BulkSteps, "take"),
    "key held": CrashPoint(IdempotencyKeys, "create"),
    "key accepted": CrashPoint(IdempotencyKeys, "replace"),
    "part of a bulk operation": CrashPoint(BulkRecords, "_create_part"),
    "bulk operation": CrashPoint(BulkRecords, "create"),
    "progress of a bulk operation": CrashPoint(BulkRecords, "replace"),
    "run created": CrashPoint(RunStore, "create"),
    "run replaced": CrashPoint(RunStore, "replace"),
    "job": CrashPoint(WorkQueue, "publish"),
    "letter deleted": CrashPoint(DeadLetters, "delete"),
    "wait event": CrashPoint(WaitEventLog, "publish"),
    "wait": CrashPoint(WaitStore, "create"),
    "answer checked": CrashPoint(AnswerHandler, "_decide", before=True),
    "answer stored": CrashPoint(
        WaitStore, "replace", lambda _, record, *rest: record.state is WaitState.ANSWERED
    ),
    "answer reported": CrashPoint(
        WaitEventLog, "publish", lambda _, event: event.kind is WaitEventKind.ANSWERED
    ),
    "event stored": CrashPoint(SentEventStore, "publish"),
    "signal stored": CrashPoint(MailboxStore, "replace"),
    "signal taken": CrashPoint(
        MailboxStore, "replace", lambda _, mailbox: any(signal.taken_by for signal in mailbox.signals)
    ),
    "run queued": CrashPoint(WorkQueue, "publish_continuation"),
    "audit row": CrashPoint(EventAuditStore, "publish"),
    "receipt reserved": CrashPoint(ReceiptStore, "create"),
    "receipt accepted": CrashPoint(ReceiptStore, "replace"),
    "slot taken": CrashPoint(OverlapSlots, "take"),
    "run of a hook": CrashPoint(DurableStarter, "ensure_run"),
    "alert fired": CrashPoint(AlertEvaluator, "_decide"),
    "alert message claimed": CrashPoint(
        AlertStore, "replace", lambda _, stored, record: _has_claim(record) and not _has_claim(stored.record)
    ),
    "alert message sent": CrashPoint(AlertDeliverer, "_send"),
    "repeated": CrashPoint(AnswerHandler, "_continue_run", before=True),
}


if __name__ == "__main__":
    CRASH_POINTS[sys.argv.pop(1)].die(at=int(sys.argv.pop(1)))
    main()
