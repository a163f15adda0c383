"""Where escalations are sent: the stored Google Chat webhook, or that of the environment."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.keyed_records import KeyedRecords
from pyoco_server.config.setting import is_chat_webhook
from pyoco_server.errors import ChatWebhookInvalid
from pyoco_server.notify.chat_webhook import ChatResult, ChatSender, masked, without_markup
from pyoco_server.records.triggers.trigger_models import ChatSettings, chat_settings_key, decode_chat_settings
from pyoco_server.records.triggers.workflow_event_models import (
    NOTIFICATION_EVENT,
    EventActor,
    EventDetails,
    EventStatus,
    RetryJob,
)
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.triggers.secrets_at_rest import SecretBox
from pyoco_server.triggers.workflow_events.event_audit_writer import EventAuditWriter, new_row

log = logging.getLogger(__name__)

NOT_CONFIGURED: Final = "Google Chat webhook is not configured."
NOT_VALID: Final = "webhook_url must be https://chat.googleapis.com/v1/spaces/.../messages?key=...&token=..."
TEST_TEXT: Final = "pyoco-server: this is a test of the notifications of workflow events."
_TEST_ACTION: Final = "notification_settings_test"
_ESCALATION_ACTION: Final = "retry_escalated"


@dataclass(frozen=True, slots=True)
class Webhook:
    # None: not configured.
    url: str | None
    # The names of the contract; `file`: it is stored in NATS.
    source: Literal["file", "env", "none"]
    updated_at: float | None = None
    # Whether it is that of the installation, and the tenant has none of its own.
    inherited: bool = False

    @property
    def masked(self) -> str:
        return "" if self.url is None else masked(self.url)


class ChatNotifications:
    def __init__(
        self, connection: Connection, box: SecretBox, audit: EventAuditWriter, *, clock: Callable[[], float]
    ) -> None:
        config = connection.config
        self._from_env = config.google_chat_webhook_url or None
        self._public_url = config.public_url.rstrip("/")
        self._store = KeyedRecords(
            connection, config.triggers_kv_bucket, RecordKind.CHAT_SETTINGS, decode_chat_settings
        )
        self._box = box
        self._audit = audit
        self._clock = clock
        self.sender = ChatSender()
        # Of this gateway's messages, by outcome.
        self.outcomes: Counter[str] = Counter(success=0, failed=0, skipped=0)

    async def webhook(self, tenant_id: str | None) -> Webhook:
        """The tenant's own, that of the installation, or that of the environment."""
        for tenant in dict.fromkeys((tenant_id, None)):
            stored = await self._store.get_from_leader(chat_settings_key(tenant))
            if stored is not None and stored.record.webhook is not None:
                url = self._box.decrypt(stored.record.webhook)
                return Webhook(url, "file", stored.record.updated_at, inherited=tenant != tenant_id)
        if self._from_env is None:
            return Webhook(None, "none")
        return Webhook(self._from_env, "env", inherited=tenant_id is not None)

    async def save(self, tenant_id: str | None, url: str, *, api_key_id: str | None) -> Webhook:
        """An empty one clears what is stored. ChatWebhookInvalid, NoSecretsKey: nothing is changed."""
        url = url.strip()
        if url and not is_chat_webhook(url):
            raise ChatWebhookInvalid(NOT_VALID)
        record = ChatSettings(
            webhook=self._box.encrypt(url) if url else None,
            updated_at=self._clock(),
            tenant_id=tenant_id,
            api_key_id=api_key_id,
        )
        await self._store.change(record.key, lambda _: record)
        log.info("the Google Chat webhook was %s", "changed" if url else "cleared")
        return await self.webhook(tenant_id)

    async def send_test(self, tenant_id: str | None, actor: EventActor) -> ChatResult:
        """ChatWebhookInvalid if there is no webhook, or only that of the installation."""
        webhook = await self.webhook(tenant_id)
        if webhook.url is None or webhook.inherited:
            await self._note(
                _TEST_ACTION, EventStatus.SKIPPED, NOT_CONFIGURED, actor=actor, tenant_id=tenant_id
            )
            raise ChatWebhookInvalid(NOT_CONFIGURED)
        sent = await self.sender.send(webhook.url, TEST_TEXT)
        status = EventStatus.SUCCESS if sent.ok else EventStatus.FAILED
        await self._note(_TEST_ACTION, status, sent.message, actor=actor, tenant_id=tenant_id)
        return sent

    async def escalated(self, job: RetryJob) -> None:
        """Notify people of a job whose attempts have all failed. Whatever fails is noted, and not raised."""
        try:
            webhook = await self.webhook(job.tenant_id)
            if webhook.url is None:
                status, why = EventStatus.SKIPPED, NOT_CONFIGURED
            else:
                sent = await self.sender.send(webhook.url, self._text(job))
                status, why = (EventStatus.SUCCESS if sent.ok else EventStatus.FAILED), sent.message
        except Exception as error:  # noqa: BLE001 - a notification never stops an escalation
            status, why = EventStatus.FAILED, f"{type(error).__name__}: {error}"
        if status is EventStatus.FAILED:
            log.warning("the notification of an escalated event has failed: %s", why)
        await self._note(_ESCALATION_ACTION, status, why, actor=job.actor, tenant_id=job.tenant_id, job=job)

    def _text(self, job: RetryJob) -> str:
        lines = [
            f"Workflow event escalated: {without_markup(job.template_name)} ({job.template_id})",
            f"event: {without_markup(job.event.event_name or '-')}, "
            f"source: {without_markup(job.event.source)}",
            f"idempotency_key: {job.idempotency_key}",
            f"attempts: {job.attempts} of {job.max_attempts}",
            f"last error: {without_markup(job.last_error or '-')}",
        ]
        if self._public_url:
            lines.append(f"{self._public_url}/#/events")
        return "\n".join(lines)

    async def _note(
        self,
        action: str,
        status: EventStatus,
        why: str,
        *,
        actor: EventActor,
        tenant_id: str | None,
        job: RetryJob | None = None,
    ) -> None:
        self.outcomes[status] += 1
        details = EventDetails(reason=why)
        if job is not None:
            details.template_id, details.template_name = job.template_id, job.template_name
            details.event_name, details.source = job.event.event_name, job.event.source
            details.idempotency_key = job.idempotency_key
        row = new_row(
            at=self._clock(),
            year=0 if job is None else job.event.year,
            month=0 if job is None else job.event.month,
            action=action,
            status=status,
            actor=actor,
            details=details,
            event_type=NOTIFICATION_EVENT,
            tenant_id=tenant_id,
        )
        await self._audit.write(row)
