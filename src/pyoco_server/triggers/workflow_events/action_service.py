"""Actions: the flow that the first step of a template starts.

A key without an entry that is the name of a flow of some live worker is that flow.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.keyed_records import KeyedRecords, Stored
from pyoco_server.broker.stores.record_directory import RecordDirectory
from pyoco_server.errors import ActionNotFound, FieldProblem, InvalidRequest, shortened
from pyoco_server.records.triggers.trigger_models import (
    ACTION_PREFIX,
    ActionRecord,
    FlowBinding,
    action_key,
    decode_action,
    is_action_key,
)
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.runs.lifecycle.tenancy import Caller

# Of each tenant: every gateway has all of them in memory.
MAX_ACTIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class SavedAction:
    action: ActionRecord
    created: bool


class ActionService:
    def __init__(
        self,
        connection: Connection,
        directory: RecordDirectory,
        *,
        clock: Callable[[], float],
        live_workers: Callable[[], Awaitable[Iterable[WorkerRecord]]],
    ) -> None:
        self._default_tag = connection.config.default_tag
        bucket = connection.config.triggers_kv_bucket
        self._store = KeyedRecords(connection, bucket, RecordKind.ACTION, decode_action)
        self._directory = directory
        self._clock = clock
        self._live_workers = live_workers
        directory.follow(ACTION_PREFIX, RecordKind.ACTION, decode_action)

    async def binding_of(self, tenant_id: str | None, key: str) -> FlowBinding | None:
        """What an action starts; None: it has no flow."""
        known = self._known(tenant_id, key)
        if known is None and is_action_key(key):
            # Another gateway may just have stored it.
            await self._directory.caught_up()
            known = self._known(tenant_id, key)
        return known.binding if known is not None else (await self.implied()).get(key)

    async def implied(self) -> dict[str, FlowBinding]:
        """The flows of live workers, by name."""
        tags: dict[str, list[str]] = {}
        for worker in await self._live_workers():
            for flow in worker.flows:
                tags.setdefault(flow, []).extend(worker.tags)
        return {
            flow: FlowBinding(flow_name=flow, tag=self._tag_of(found))
            for flow, found in tags.items()
            if found
        }

    async def visible(self, caller: Caller) -> list[ActionRecord]:
        await self._directory.caught_up()
        found: list[ActionRecord] = self._directory.records(ACTION_PREFIX)
        return sorted(
            (each for each in found if caller.sees(each.tenant_id)), key=lambda each: each.action_key
        )

    async def find(self, key: str, caller: Caller) -> Stored[ActionRecord]:
        """As the leader knows it; ActionNotFound when the caller's tenant has none.

        An operator finds that of another tenant, if no other has one with this key.
        """
        stored = None
        if is_action_key(key):
            stored = await self._store.get_from_leader(action_key(caller.tenant_id, key))
            if stored is None and caller.sees_all:
                others = [each.key for each in await self.visible(caller) if each.action_key == key]
                stored = await self._store.get_from_leader(others[0]) if len(others) == 1 else None
        if stored is None:
            raise _not_found(key)
        return stored

    async def save(self, key: str, binding: FlowBinding, caller: Caller) -> SavedAction:
        """Create or replace it."""
        now = self._clock()
        record = ActionRecord(
            action_key=key,
            binding=binding,
            created_at=now,
            updated_at=now,
            tenant_id=caller.tenant_id,
            api_key_id=caller.api_key_id,
        )
        await self._directory.caught_up()
        found: list[ActionRecord] = self._directory.records(ACTION_PREFIX)
        others = [each for each in found if each.tenant_id == caller.tenant_id and each.action_key != key]
        if len(others) >= MAX_ACTIONS:
            problem = FieldProblem("key", f"there are {MAX_ACTIONS} actions already; delete one first")
            raise InvalidRequest(problems=[problem])
        is_new = True

        def make(before: ActionRecord | None) -> ActionRecord:
            nonlocal is_new
            is_new = before is None
            return record if before is None else structs.replace(record, created_at=before.created_at)

        written = await self._store.change(record.key, make)
        self._directory.put(written.record, written.revision)
        return SavedAction(written.record, created=is_new)

    async def delete(self, key: str, caller: Caller) -> None:
        """ActionNotFound when the caller's tenant has none."""
        found = await self.find(key, caller)

        def check(record: ActionRecord | None) -> None:
            if record is None:
                raise _not_found(key)

        removed = await self._store.remove(found.record.key, check)
        if removed is not None:
            self._directory.remove(removed.record.key, revision=removed.revision)

    def _known(self, tenant_id: str | None, key: str) -> ActionRecord | None:
        found: ActionRecord | None = self._directory.get(action_key(tenant_id, key))
        return found

    def _tag_of(self, tags: list[str]) -> str:
        """The default tag if a worker of the flow has it."""
        return self._default_tag if self._default_tag in tags else tags[0]


def _not_found(key: str) -> ActionNotFound:
    return ActionNotFound(f"there is no action {shortened(key)}")
