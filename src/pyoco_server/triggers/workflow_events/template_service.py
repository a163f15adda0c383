"""Workflow templates: create, change, find and delete them."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.keyed_records import KeyedRecords, Stored
from pyoco_server.broker.stores.record_directory import RecordDirectory
from pyoco_server.errors import (
    FieldProblem,
    InvalidRequest,
    TemplateConflict,
    shortened,
)
from pyoco_server.records.triggers.trigger_models import (
    TEMPLATE_PREFIX,
    TemplateRecord,
    TemplateStep,
    TriggerKind,
    decode_template,
    is_template_id,
    template_key,
    template_keys,
)
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.lifecycle.tenancy import Caller
from pyoco_server.triggers.workflow_events.event_refusals import template_not_found

MAX_TEMPLATES: Final = 1000
MAX_STEPS: Final = 30
STALE: Final = "The workflow template was changed meanwhile. Read it again."
EXISTS: Final = "A workflow template with this id exists already. Give its updated_at as base_updated_at."
NAME_TAKEN: Final = "A workflow template with this name exists already."
SEVERAL_TENANTS: Final = "Several tenants have a workflow template with this id. Use a key of the tenant."
BUSY: Final = "Others change workflow templates all the time. Try again."
FULL: Final = f"There are {MAX_TEMPLATES} workflow templates already. Delete one first."

# Each time, another write has succeeded.
_TRIES: Final = 100
_FIRST_KINDS: Final = (TriggerKind.MANUAL_START, TriggerKind.SCHEDULED, TriggerKind.EXTERNAL_EVENT)
_EARLIER_NAMES: Final = {
    "manual": TriggerKind.MANUAL_START,
    "schedule": TriggerKind.SCHEDULED,
    "webhook": TriggerKind.EXTERNAL_EVENT,
    "after_step": TriggerKind.AFTER_PREVIOUS,
}


@dataclass(frozen=True, slots=True)
class SavedTemplate:
    template: TemplateRecord
    created: bool


class TemplateService:
    def __init__(
        self, connection: Connection, directory: RecordDirectory, *, clock: Callable[[], float]
    ) -> None:
        bucket = connection.config.triggers_kv_bucket
        self._store = KeyedRecords(connection, bucket, RecordKind.TEMPLATE, decode_template)
        self._directory = directory
        self._clock = clock
        directory.follow(TEMPLATE_PREFIX, RecordKind.TEMPLATE, decode_template)

    def known(self, tenant_id: str | None) -> list[TemplateRecord]:
        """Those of the tenant, as far as this gateway knows."""
        found: list[TemplateRecord] = self._directory.records(TEMPLATE_PREFIX)
        return [each for each in found if each.tenant_id == tenant_id]

    async def current(self, tenant_id: str | None) -> list[TemplateRecord]:
        """The same, with all that was stored before the call."""
        await self._directory.caught_up()
        return self.known(tenant_id)

    async def visible(self, caller: Caller) -> list[TemplateRecord]:
        await self._directory.caught_up()
        found: list[TemplateRecord] = self._directory.records(TEMPLATE_PREFIX)
        return [each for each in found if caller.sees(each.tenant_id)]

    async def find(self, template_id: str, caller: Caller) -> Stored[TemplateRecord]:
        """As the leader knows it; TemplateNotFound when the caller's tenant has none.

        An operator finds that of another tenant; TemplateConflict if several have one with this id.
        """
        stored = None
        if is_template_id(template_id):
            stored = await self._store.get_from_leader(template_key(caller.tenant_id, template_id))
            if stored is None and caller.sees_all:
                stored = await self._of_another_tenant(template_id)
        if stored is None:
            raise template_not_found(template_id)
        return stored

    async def save(
        self, template: TemplateRecord, caller: Caller, *, is_base: Callable[[float], bool] | None = None
    ) -> SavedTemplate:
        """Create it; or replace the one whose `updated_at` is the base, TemplateConflict if it is not."""
        if is_base is not None:
            template.tenant_id = (await self.find(template.id, caller)).record.tenant_id
        keys = template_keys(template.tenant_id)
        for _ in range(_TRIES):
            # A name is used once: nothing may be written between the check of the others and the write.
            last = await self._store.last_revision(keys)
            stored = await self._store.get_from_leader(template.key)
            saved = _new(template, stored) if is_base is None else _changed(template, stored, is_base)
            await self._check_others(saved, last)
            try:
                written = await self._store.write_after(saved.template, pattern=keys, revision=last)
            except RevisionConflict:
                continue
            self._directory.put(written.record, written.revision)
            return saved
        raise TemplateConflict(BUSY)

    async def delete(self, template_id: str, caller: Caller) -> None:
        stored = await self.find(template_id, caller)
        try:
            await self._store.delete(stored)
        except RevisionConflict:
            raise TemplateConflict(STALE) from None
        self._directory.remove(stored.record.key, revision=stored.revision)

    async def _of_another_tenant(self, template_id: str) -> Stored[TemplateRecord] | None:
        await self._directory.caught_up()
        found: list[TemplateRecord] = self._directory.records(TEMPLATE_PREFIX)
        keys = [each.key for each in found if each.id == template_id]
        if len(keys) > 1:
            raise TemplateConflict(SEVERAL_TENANTS)
        return await self._store.get_from_leader(keys[0]) if keys else None

    async def _check_others(self, saved: SavedTemplate, last: int) -> None:
        """TemplateConflict if another one, of those up to this revision, has its name or takes its place."""
        await self._directory.has_read(last)
        mine = saved.template
        others = [each for each in self.known(mine.tenant_id) if each.id != mine.id]
        if any(each.name.casefold() == mine.name.casefold() for each in others):
            raise TemplateConflict(NAME_TAKEN)
        if saved.created and len(others) >= MAX_TEMPLATES:
            raise TemplateConflict(FULL)


def _new(template: TemplateRecord, stored: Stored[TemplateRecord] | None) -> SavedTemplate:
    if stored is not None:
        raise TemplateConflict(EXISTS)
    return SavedTemplate(template, created=True)


def _changed(
    template: TemplateRecord, stored: Stored[TemplateRecord] | None, is_base: Callable[[float], bool]
) -> SavedTemplate:
    if stored is None:
        raise template_not_found(template.id)
    before = stored.record
    if not is_base(before.updated_at):
        raise TemplateConflict(STALE)
    # Never the same time as before: it is what the next change is based on.
    updated_at = max(template.updated_at, before.updated_at + 1e-3)
    changed = structs.replace(template, created_at=before.created_at, updated_at=updated_at)
    return SavedTemplate(changed, created=False)


def new_template_id() -> str:
    return f"tpl_{secrets.token_hex(8)}"


def check_template(template: TemplateRecord) -> None:
    """InvalidRequest names each field that is wrong."""
    problems = [*_problems(template)]
    if problems:
        raise InvalidRequest(problems=problems)


def trigger_kind_of(name: str, position: int) -> TriggerKind:
    """The kind of the step at this position (from 0), also under its earlier name; ValueError if unknown."""
    if not name:
        return TriggerKind.AFTER_PREVIOUS if position else TriggerKind.MANUAL_START
    return _EARLIER_NAMES.get(name) or TriggerKind(name)


def _problems(template: TemplateRecord) -> list[FieldProblem]:
    problems = []
    if not template.name.strip() or not template.name.isprintable():
        problems.append(FieldProblem("name", "expected 1 to 80 printable characters"))
    if template.year and not 2000 <= template.year <= 3000:
        expected = "expected 0, or a year from 2000 to 3000"
        problems.append(FieldProblem("year", expected, value=str(template.year)))
    if not 0 <= template.month <= 12:
        problems.append(
            FieldProblem("month", "expected 0, or a month from 1 to 12", value=str(template.month))
        )
    if template.mfcloud_url and not _is_http(template.mfcloud_url):
        expected = "expected an address that begins with http:// or https://"
        problems.append(FieldProblem("mfcloud_url", expected, value=shortened(template.mfcloud_url)))
    if not 1 <= len(template.steps) <= MAX_STEPS:
        problems.append(FieldProblem("steps", f"expected 1 to {MAX_STEPS} steps"))
    for position, step in enumerate(template.steps):
        problems += _step_problems(step, position)
    ids = [step.id for step in template.steps]
    if len(set(ids)) < len(ids):
        problems.append(FieldProblem("steps", "expected steps with different ids"))
    return problems


def _step_problems(step: TemplateStep, position: int) -> list[FieldProblem]:
    if position == 0 and step.trigger_kind not in _FIRST_KINDS:
        expected = f"expected one of {', '.join(_FIRST_KINDS)} of the first step"
    elif position and step.trigger_kind is not TriggerKind.AFTER_PREVIOUS:
        expected = f"expected {TriggerKind.AFTER_PREVIOUS} of all steps but the first"
    else:
        return []
    return [
        FieldProblem(f"steps[{position}].trigger_kind", expected, value=shortened(str(step.trigger_kind)))
    ]


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
