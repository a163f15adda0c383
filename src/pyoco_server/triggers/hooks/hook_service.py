"""What people do with hooks: create, read, change and delete them, change their secrets, test a delivery,
and process a kept one again.

Each change is a compare-and-set on the record; one that lost the race is made again on the newer record.
"""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.keyed_records import KeyedRecords, Stored
from pyoco_server.broker.stores.triggers.delivery_store import DeliveryStore, KeptDelivery
from pyoco_server.errors import DeliveryNotFound, HookConflict, HookNotFound, NotRedeliverable
from pyoco_server.records.triggers.hook_models import (
    DeliveryContent,
    DeliveryStatus,
    HookKind,
    HookRecord,
    HookSecret,
    decode_hook,
    hook_key,
    is_hook_id,
)
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.lifecycle.tenancy import Caller, hidden_from_others
from pyoco_server.triggers.hooks.delivery_mapping import sources_of
from pyoco_server.triggers.hooks.delivery_recorder import REDACTED, instance_of
from pyoco_server.triggers.hooks.hook_checks import check_hook, check_secret, new_secret
from pyoco_server.triggers.hooks.hook_directory import HookDirectory
from pyoco_server.triggers.hooks.hook_receiver import DeliveryOutcome, HookReceiver, Repetition
from pyoco_server.triggers.hooks.signatures import Incoming
from pyoco_server.triggers.secrets_at_rest import SecretBox

log = logging.getLogger(__name__)

# Of each tenant: every gateway has all of them in memory.
MAX_HOOKS: Final = 1000
# Of which deliveries only the number is kept, and why.
_NOT_KEPT: Final = {
    DeliveryStatus.REFUSED: "its proof was wrong",
    DeliveryStatus.REJECTED: "it waits in NATS until the earlier run has ended",
}

Change = Callable[[HookRecord, float], HookRecord]


@dataclass(frozen=True, slots=True)
class HookName:
    """A hook as a caller names it; an operator may name one of another tenant."""

    hook_id: str
    caller: Caller
    tenant: str | None = None

    @property
    def key(self) -> str | None:
        """None: it cannot be the caller's, or cannot exist; it must not reach a NATS subject."""
        if not is_hook_id(self.hook_id):
            return None
        return self.caller.key_of(self.tenant, lambda owner: hook_key(owner, self.hook_id))

    @property
    def unknown(self) -> HookNotFound:
        return HookNotFound(f"there is no hook {self.hook_id!r}")


@dataclass(frozen=True, slots=True)
class HookAndSecret:
    hook: HookRecord
    # None: of the kind `nats`.
    secret: str | None


class HookService:
    def __init__(
        self,
        connection: Connection,
        directory: HookDirectory,
        receiver: HookReceiver,
        box: SecretBox,
        *,
        clock: Callable[[], float],
    ) -> None:
        bucket = connection.config.triggers_kv_bucket
        self._store = KeyedRecords(connection, bucket, RecordKind.HOOK, decode_hook)
        self._deliveries = DeliveryStore(connection)
        self._directory = directory
        self._receiver = receiver
        self._box = box
        self._clock = clock

    async def create(self, hook_id: str, caller: Caller, secret: str | None, **fields: Any) -> HookAndSecret:
        """HookConflict if there is one with this id; NoSecretsKey and InvalidRequest store nothing."""
        now = self._clock()
        kind: HookKind = fields["kind"]
        check_secret(kind, secret)
        if secret is None and kind is not HookKind.NATS:
            secret = new_secret(kind)
        record = HookRecord(
            hook_id=hook_id,
            incarnation=secrets.token_hex(8),
            tenant_id=caller.tenant_id,
            api_key_id=caller.api_key_id,
            created_at=now,
            updated_at=now,
            **fields,
        )
        check_hook(record)
        await self._directory.caught_up()
        if len(self._directory.of_tenant(caller.tenant_id)) >= MAX_HOOKS:
            raise HookConflict(f"there are {MAX_HOOKS} hooks already; delete one first")
        if secret is not None:
            record.secrets = [self._encrypted(secret, now)]
        try:
            created = await self._store.create(record)
        except RevisionConflict:
            raise HookConflict(f"there is a hook {hook_id!r} already") from None
        self._noticed(created, "created")
        return HookAndSecret(record, secret)

    async def find(self, name: HookName) -> HookRecord:
        return (await self._find(name)).record

    async def patch(self, name: HookName, fields: dict[str, Any], *, revision: int | None) -> HookRecord:
        """HookConflict if `revision` is not the current one."""

        def change(record: HookRecord, now: float) -> HookRecord:
            changed = structs.replace(record, **fields)
            check_hook(changed)
            return changed

        return await self._write(name, change, "changed", revision=revision)

    async def rotate(self, name: HookName, secret: str | None, *, keep_sec: float | None) -> HookAndSecret:
        """A new secret; the old one stays valid for `keep_sec`, or without a limit until `finish_rotation`.

        HookConflict while an earlier rotation is under way.
        """
        self._box.require_key()
        given = secret
        made = ""

        def change(record: HookRecord, now: float) -> HookRecord:
            nonlocal made
            if record.kind is HookKind.NATS:
                raise HookConflict(f"the hook {record.hook_id!r} is of the kind `nats` and has no secret")
            check_secret(record.kind, given)
            made = given or new_secret(record.kind)
            old = [each for each in record.secrets if each.expires_at is None or each.expires_at > now]
            if len(old) > 1:
                raise HookConflict(
                    f"the hook {record.hook_id!r} has two valid secrets: finish that rotation first"
                )
            expires_at = None if keep_sec is None else now + keep_sec
            kept = [structs.replace(each, expires_at=expires_at) for each in old if keep_sec != 0]
            return structs.replace(record, secrets=[self._encrypted(made, now), *kept])

        record = await self._write(name, change, "given a new secret")
        return HookAndSecret(record, made)

    async def finish_rotation(self, name: HookName) -> HookRecord:
        """From now on only the newest secret is valid."""
        return await self._write(
            name, lambda record, _: structs.replace(record, secrets=record.secrets[:1]), "rotated"
        )

    async def delete(self, name: HookName, *, revision: int | None) -> None:
        """With its kept deliveries; its runs stay."""
        stored = await self._store.remove(
            await self._key_of(name), lambda record: _check_revision(_found(name, record), revision)
        )
        assert stored is not None, "the check refuses that"
        self._directory.remove(stored.record, revision=stored.revision)
        await self._deliveries.remove_all(instance_of(stored.record))
        log.info("hook deleted", extra=_log_fields(stored.record))

    async def deliveries(self, hook: HookRecord) -> list[KeptDelivery]:
        """The kept ones, the newest first."""
        return await self._deliveries.all_of(instance_of(hook))

    async def delivery(self, hook: HookRecord, delivery_id: int) -> KeptDelivery:
        found = await self._deliveries.get(instance_of(hook), delivery_id)
        if found is None:
            raise DeliveryNotFound(f"the hook {hook.hook_id!r} has no delivery {delivery_id}")
        return found

    async def redeliver(self, hook: HookRecord, delivery_id: int, *, new_key: str | None) -> DeliveryOutcome:
        """Process it again: with `new_key` as another delivery, else only if it has started no run.

        NotRedeliverable if it was not kept whole.
        """
        found = await self.delivery(hook, delivery_id)
        if found.summary.run_id is not None and new_key is None:
            return DeliveryOutcome(DeliveryStatus.DUPLICATE, found.summary.run_id)
        if found.content is None or found.content.body is None:
            too_large = "its body was too large to be kept (PYOCO_HOOK_DELIVERY_BODY_MAX_BYTES)"
            raise NotRedeliverable(_NOT_KEPT.get(found.summary.status, too_large))
        if (hidden := _redacted_source(hook, found.content)) is not None:
            raise NotRedeliverable(f"the value of {hidden!r} is not kept: it may be a secret")
        delivery = Incoming(
            headers=_without_redacted(found.content.headers),
            body=found.content.body,
            query=_without_redacted(found.content.query),
            client_ip=found.summary.client_ip,
        )
        again = Repetition(delivery_id, new_key)
        # One without a key of its own is a duplicate of itself.
        default_key = found.content.default_key or f"delivery:{delivery_id}"
        return await self._receiver.process(hook, delivery, again=again, default_key=default_key)

    async def _find(self, name: HookName) -> Stored[HookRecord]:
        """As the leader knows it; HookNotFound when there is none that the caller may see."""
        with hidden_from_others(name.caller, name.unknown):
            stored = None if name.key is None else await self._store.get_from_leader(name.key)
        if stored is None:
            raise name.unknown
        return stored

    async def _key_of(self, name: HookName) -> str:
        """Of a hook that exists; HookNotFound when there is none that the caller may see."""
        return (await self._find(name)).record.key

    async def _write(
        self, name: HookName, change: Change, done: str, *, revision: int | None = None
    ) -> HookRecord:
        """The hook with this change; one that changes nothing is not written."""
        is_changed = False

        def make(found: HookRecord | None) -> HookRecord:
            nonlocal is_changed
            before, now = _found(name, found), self._clock()
            _check_revision(before, revision)
            record = change(before, now)
            is_changed = record != before
            if not is_changed:
                return before
            record.revision, record.updated_at = before.revision + 1, now
            if name.caller.tenant_id == record.tenant_id:
                record.api_key_id = name.caller.api_key_id
            return record

        written = await self._store.change(await self._key_of(name), make)
        if is_changed:
            self._noticed(written, done)
        return written.record

    def _noticed(self, written: Stored[HookRecord], done: str) -> None:
        self._directory.put(written.record, written.revision)
        log.info("hook %s", done, extra=_log_fields(written.record))

    def _encrypted(self, secret: str, now: float) -> HookSecret:
        return HookSecret(secret_id=secrets.token_hex(4), encrypted=self._box.encrypt(secret), created_at=now)


def _check_revision(record: HookRecord, revision: int | None) -> None:
    if revision is not None and revision != record.revision:
        raise HookConflict(f"the hook {record.hook_id!r} is at revision {record.revision}, not {revision}")


def _found(name: HookName, record: HookRecord | None) -> HookRecord:
    """HookNotFound if it was deleted meanwhile."""
    if record is None:
        raise name.unknown
    return record


def _redacted_source(hook: HookRecord, content: DeliveryContent) -> str | None:
    """What the hook reads of a delivery, and was not kept."""
    names = {f"header:{name}" for name, value in content.headers.items() if value == REDACTED}
    names |= {f"query:{name}" for name, value in content.query.items() if value == REDACTED}
    lowered = (f"{kind}:{name.strip().lower()}" for kind, _, name in _named(hook))
    return next((source for source in lowered if source in {each.lower() for each in names}), None)


def _named(hook: HookRecord) -> list[tuple[str, str, str]]:
    """The headers and parameters of the query that it reads."""
    parts = [source.partition(":") for source in sources_of(hook)]
    return [part for part in parts if part[0] in ("header", "query")]


def _without_redacted(values: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value != REDACTED}


def _log_fields(record: HookRecord) -> dict[str, object]:
    return {"hook_id": record.hook_id, "flow_name": record.flow_name, "tag": record.tag}
