"""Sends a message of an alert to a channel: a signed webhook, Slack, Google Chat or mail.

The URL of a channel is a secret: it is in no log, error or result.
"""

import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from pyoco_server.alerts.alert_texts import message_lines, message_title
from pyoco_server.alerts.alert_transitions import Phase, event_id
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import SecretUnreadable
from pyoco_server.notify.chat_webhook import without_markup
from pyoco_server.notify.mail_sender import MailSender
from pyoco_server.notify.webhook_target import Target
from pyoco_server.records.monitoring.alert_models import (
    AlertChannel,
    AlertOccurrence,
    AlertRecord,
    ChannelKind,
)
from pyoco_server.triggers.secrets_at_rest import SecretBox

if TYPE_CHECKING:
    from pyoco_server.notify.webhook_client import WebhookClient


@dataclass(frozen=True, slots=True)
class SendAttempt:
    """What became of one attempt."""

    ok: bool
    error: str = ""
    # It is not repeated: the receiver is gone for good (410).
    is_final: bool = False


class AlertSender:
    def __init__(self, config: NatsBackendConfig, box: SecretBox) -> None:
        self._config = config
        self._box = box
        self.mail = MailSender(config)

    async def start(self) -> None:
        """There is nothing to start: clients are made when they are needed."""

    async def close(self) -> None:
        for name in ("_guarded", "_direct"):
            if name in self.__dict__:
                await self.__dict__.pop(name).close()

    @cached_property
    def _guarded(self) -> "WebhookClient":
        """For URLs of tenants."""
        # httpx takes 5 MB.
        from pyoco_server.notify.public_addresses import PublicTransport, allowed_networks  # noqa: PLC0415
        from pyoco_server.notify.webhook_client import WebhookClient  # noqa: PLC0415

        transport = PublicTransport(allowed_networks(self._config.alert_networks))
        return WebhookClient(self._config, transport)

    @cached_property
    def _direct(self) -> "WebhookClient":
        """For Google Chat, whose host is fixed."""
        from pyoco_server.notify.webhook_client import WebhookClient  # noqa: PLC0415 - see above

        return WebhookClient(self._config)

    async def send(
        self, record: AlertRecord, channel: AlertChannel, occurrence: AlertOccurrence | None, phase: Phase
    ) -> SendAttempt:
        """`occurrence` is None for a test."""
        # Each test is another message.
        number = secrets.token_hex(4) if occurrence is None else str(occurrence.number)
        id_ = event_id(record, number, phase)
        title = message_title(record, occurrence, phase)
        lines = message_lines(record, occurrence, phase, self._config.public_url)
        if channel.kind is ChannelKind.MAIL:
            error = await self.mail.send(channel.to, id_, title, lines)
            return SendAttempt(ok=not error, error=error)
        try:
            url = self._box.decrypt(channel.url or "")
            secret = "" if channel.secret is None else self._box.decrypt(channel.secret)
        except SecretUnreadable as error:
            return SendAttempt(ok=False, error=error.sentence())
        if channel.kind is ChannelKind.WEBHOOK:
            body: dict[str, Any] = webhook_body(record, occurrence, phase, [title, *lines], id_)
        else:
            body = {"text": chat_text(channel.kind, title, [*lines])}
        client = self._direct if channel.kind is ChannelKind.GOOGLE_CHAT else self._guarded
        result, why = await client.post(Target(url, secret), id_, msgspec.json.encode(body))
        return SendAttempt(ok=result == "delivered", error=why, is_final=result == "gone")


def chat_text(kind: ChannelKind, title: str, lines: list[str]) -> str:
    """For Slack or Google Chat: nothing in it mentions people or hides a link."""
    if kind is ChannelKind.SLACK:
        title, *lines = (_for_slack(text) for text in (title, *lines))
    else:
        title, *lines = (without_markup(text) for text in (title, *lines))
    return "\n".join([f"*{title}*", *lines])


def _for_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def webhook_body(
    record: AlertRecord, occurrence: AlertOccurrence | None, phase: Phase, text: list[str], id_: str
) -> dict[str, Any]:
    rule = record.rule if occurrence is None else occurrence.rule
    found = None
    if occurrence is not None:
        found = {
            "number": occurrence.number,
            "fired_at": occurrence.fired_at,
            "resolved_at": occurrence.resolved_at,
            "value": occurrence.facts.value,
            "flows": occurrence.facts.flows,
            "run_ids": occurrence.facts.run_ids,
        }
    return {
        "event": {"id": id_, "kind": phase},
        "alert": {
            "alert_id": record.alert_id,
            "tenant_id": record.tenant_id,
            "note": record.note,
            "rule": msgspec.to_builtins(rule),
        },
        "occurrence": found,
        "text": "\n".join(text),
    }
