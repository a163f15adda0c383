"""The hooks in memory, with their secrets decrypted: a delivery is checked without asking NATS.

Hook ids belong to a tenant, and the address of a hook names none: of the hooks with one id, the delivery is
for the one whose secret proves it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyoco_server.broker.stores.record_directory import RecordDirectory
from pyoco_server.errors import SecretUnreadable
from pyoco_server.records.triggers.hook_models import HOOK_PREFIX, HookRecord, decode_hook, hook_key
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.lifecycle.tenancy import visible_to
from pyoco_server.triggers.hooks.signatures import Incoming, Refusal, refusal_of, spend_check_time
from pyoco_server.triggers.secrets_at_rest import SecretBox

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Usable:
    """A hook whose secrets can be compared with."""

    record: HookRecord
    # In plain text, each with its end.
    secrets: list[tuple[str, float | None]]
    # Whether one of them cannot be decrypted.
    is_locked: bool

    def valid_secrets(self, now: float) -> list[str]:
        return [secret for secret, expires_at in self.secrets if expires_at is None or now < expires_at]


@dataclass(frozen=True, slots=True)
class ProofCheck:
    """The hook that a delivery is for; or the hooks with its id, and why each refuses it."""

    hook: HookRecord | None
    refusals: list[tuple[HookRecord, Refusal]]
    # Whether a secret that cannot be decrypted would perhaps prove it.
    is_locked: bool = False


class HookDirectory:
    def __init__(self, directory: RecordDirectory, box: SecretBox, *, clock: Callable[[], float]) -> None:
        self._directory = directory
        self._box = box
        self._clock = clock
        # By id; the oldest first.
        self._by_id: dict[str, list[_Usable]] = {}
        directory.follow(HOOK_PREFIX, RecordKind.HOOK, decode_hook, self._on_change)

    def put(self, record: HookRecord, revision: int) -> None:
        """This gateway has written it."""
        self._directory.put(record, revision)

    def remove(self, record: HookRecord, *, revision: int) -> None:
        self._directory.remove(record.key, revision=revision)

    async def caught_up(self, *, entirely: bool = False) -> None:
        await self._directory.caught_up(entirely=entirely)

    def get(self, tenant_id: str | None, hook_id: str) -> HookRecord | None:
        found = self._directory.get(hook_key(tenant_id, hook_id))
        assert found is None or isinstance(found, HookRecord)
        return found

    def hooks(self, tenant: str | None) -> list[HookRecord]:
        """Those that a caller of this tenant (None: everybody) may see, by id."""
        records: list[HookRecord] = self._directory.records(HOOK_PREFIX)
        visible = (record for record in records if visible_to(tenant, record.tenant_id))
        return sorted(visible, key=lambda record: (record.hook_id, record.key))

    def of_tenant(self, tenant_id: str | None) -> list[HookRecord]:
        records: list[HookRecord] = self._directory.records(HOOK_PREFIX)
        return [record for record in records if record.tenant_id == tenant_id]

    def __len__(self) -> int:
        return sum(map(len, self._by_id.values()))

    def check(self, hook_id: str, delivery: Incoming) -> ProofCheck:
        """Compare the proof of a delivery with the secrets of its hook; nothing is awaited."""
        usable = self._by_id.get(hook_id)
        if usable is None:
            spend_check_time(delivery)
            return ProofCheck(None, [])
        now = self._clock()
        proven: HookRecord | None = None
        refusals: list[tuple[HookRecord, Refusal]] = []
        for each in usable:
            record = each.record
            why = refusal_of(record.kind, record.signature, each.valid_secrets(now), delivery, now=now)
            if why is not None:
                refusals.append((record, why))
            elif proven is None:
                proven = record
        return ProofCheck(proven, refusals, is_locked=any(each.is_locked for each in usable))

    def _on_change(self, key: str, record: Any | None) -> None:
        hook_id = key.rpartition(".")[2]
        others = [each for each in self._by_id.get(hook_id, ()) if each.record.key != key]
        if record is not None:
            others.append(self._usable(record))
            others.sort(key=lambda each: each.record.created_at)
        if others:
            self._by_id[hook_id] = others
        else:
            self._by_id.pop(hook_id, None)

    def _usable(self, record: HookRecord) -> _Usable:
        secrets: list[tuple[str, float | None]] = []
        is_locked = False
        for stored in record.secrets:
            try:
                secrets.append((self._box.decrypt(stored.encrypted), stored.expires_at))
            except SecretUnreadable as error:
                is_locked = True
                log.error("hook %s: %s", record.key, error, extra=error.error.log_fields())
        return _Usable(record, secrets, is_locked)
