"""Encrypts the stored secrets again, with the first of the keys."""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.keyed_records import KeyedRecords, R
from pyoco_server.broker.stores.monitoring.alert_store import AlertStore
from pyoco_server.errors import SecretUnreadable, UnreadableRecord
from pyoco_server.records.monitoring.alert_models import ALERT_PREFIX, AlertChannel, AlertRecord
from pyoco_server.records.triggers.hook_models import HOOK_PREFIX, HookRecord, decode_hook
from pyoco_server.records.triggers.trigger_models import CHAT_PREFIX, ChatSettings, decode_chat_settings
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.triggers.secrets_at_rest import SecretBox


@dataclass(slots=True)
class RotationResult:
    # Secrets that were encrypted again, and those that were under the first key already.
    changed: int = 0
    current: int = 0
    # By key of the record: why its secret stays as it is.
    failed: dict[str, str] = field(default_factory=dict)


# What a record is with its secrets under the first key; the record itself if they are.
Renew = Callable[[R, RotationResult], R]


class _Gone(Exception):
    """The record was deleted meanwhile."""


class SecretRotation:
    def __init__(self, connection: Connection, box: SecretBox) -> None:
        bucket = connection.config.triggers_kv_bucket
        self._box = box
        self._hooks = KeyedRecords(connection, bucket, RecordKind.HOOK, decode_hook)
        self._alerts = AlertStore(connection)
        self._chat = KeyedRecords(connection, bucket, RecordKind.CHAT_SETTINGS, decode_chat_settings)

    async def run(self) -> RotationResult:
        """NoSecretsKey if there is no key; a secret that cannot be decrypted stops no other."""
        self._box.require_key()
        done = RotationResult()
        for key in await self._hooks.keys(HOOK_PREFIX):
            await self._rotate(self._hooks, key, self._renewed_hook, done)
        for key in await self._chat.keys(CHAT_PREFIX):
            await self._rotate(self._chat, key, self._renewed_settings, done)
        for key in await self._alerts.keys(ALERT_PREFIX):
            await self._rotate(self._alerts, key, self._renewed_alert, done)
        return done

    async def _rotate(self, store: KeyedRecords[R], key: str, renew: Renew[R], done: RotationResult) -> None:
        counts = RotationResult()

        def make(record: R | None) -> R:
            nonlocal counts
            if record is None:
                raise _Gone
            counts = RotationResult()
            return renew(record, counts)

        try:
            await store.change(key, make)
        except _Gone:
            return
        except (SecretUnreadable, UnreadableRecord) as error:
            done.failed[key] = error.sentence()
            return
        done.changed += counts.changed
        done.current += counts.current

    def _renewed_settings(self, record: ChatSettings, counts: RotationResult) -> ChatSettings:
        if record.webhook is None:
            return record
        webhook = self._renewed(record.webhook, counts)
        return record if webhook == record.webhook else structs.replace(record, webhook=webhook)

    def _renewed_hook(self, record: HookRecord, counts: RotationResult) -> HookRecord:
        secrets = [
            structs.replace(each, encrypted=self._renewed(each.encrypted, counts)) for each in record.secrets
        ]
        return record if secrets == record.secrets else structs.replace(record, secrets=secrets)

    def _renewed_alert(self, record: AlertRecord, counts: RotationResult) -> AlertRecord:
        def renewed(channel: AlertChannel) -> AlertChannel:
            url, secret = (
                None if each is None else self._renewed(each, counts)
                for each in (channel.url, channel.secret)
            )
            return structs.replace(channel, url=url, secret=secret)

        channels = [renewed(each) for each in record.channels]
        return record if channels == record.channels else structs.replace(record, channels=channels)

    def _renewed(self, encrypted: str, counts: RotationResult) -> str:
        """Under the first key."""
        if self._box.is_current(encrypted):
            counts.current += 1
            return encrypted
        counts.changed += 1
        return self._box.encrypt(self._box.decrypt(encrypted))
