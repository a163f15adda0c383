"""What a schedules.yaml would change, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from pyoco_server.cli.commands.schedules.schedule_file import FileSchedule
from pyoco_server.http_client.response_types import Schedule
from pyoco_server.records.schedules.schedule_models import ScheduleSpec
from pyoco_server.schedules.calendar_times import iso_in_zone

# Fields whose default is used where the file does not have them.
_DECLARED: Final = (
    "flow_name",
    "workflow_yaml",
    "params",
    "tags",
    "timeout_sec",
    "overlap",
    "catchup_window_sec",
    "pause_on_failure",
)
# Fields that stay as they are where the file does not have them. `remaining_runs` counts down: only the
# creation of the schedule uses it.
_KEPT: Final = ("tag", "paused", "note")
_MOMENTS: Final = frozenset({"anchor", "at", "start_at", "end_at"})

Action = Literal["added", "changed", "removed", "unchanged"]


@dataclass(frozen=True, slots=True)
class FieldChange:
    # A dotted path, such as `spec.cron` or `params.region`.
    field: str
    # None: it was not there, or is not there any more.
    before: Any
    after: Any


def changes(declared: FileSchedule, stored: Schedule) -> list[FieldChange]:
    """The fields that differ, times as people write them."""
    return [
        *(each for name in _compared(declared) for each in _field_changes(name, declared, stored)),
        *_spec_changes(declared.spec, _stored_spec(stored)),
    ]


def patch(declared: FileSchedule, stored: Schedule) -> dict[str, Any]:
    """The body of the PATCH that makes these changes."""
    fields = msgspec.to_builtins(declared.request)
    body: dict[str, Any] = {
        name: fields[name] for name in _compared(declared) if _field_changes(name, declared, stored)
    }
    before, after = _stored_spec(stored), structs.asdict(declared.spec)
    spec = {name: value for name, value in after.items() if value != getattr(before, name)}
    return {**body, "spec": spec} if spec else body


def _compared(declared: FileSchedule) -> list[str]:
    return [*_DECLARED, *(name for name in _KEPT if name in declared.given)]


def _field_changes(name: str, declared: FileSchedule, stored: Schedule) -> list[FieldChange]:
    after = msgspec.to_builtins(getattr(declared.request, name))
    before: Any = stored.get(name)
    if name == "tags":
        after = after or []
    if name == "params":
        return list(_mapping_changes(name, before or {}, after))
    return [] if before == after else [FieldChange(name, before, after)]


def _mapping_changes(
    place: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[FieldChange]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name) or (name in before) != (name in after):
            yield FieldChange(f"{place}.{name}", before.get(name), after.get(name))


def _stored_spec(stored: Schedule) -> ScheduleSpec:
    # Fields of a newer gateway are ignored.
    return msgspec.convert(stored["spec"], ScheduleSpec)


def _spec_changes(after: ScheduleSpec, before: ScheduleSpec) -> Iterator[FieldChange]:
    for name in ScheduleSpec.__struct_fields__:
        was, becomes = _shown(before, name), _shown(after, name)
        if getattr(before, name) != getattr(after, name):
            yield FieldChange(f"spec.{name}", was, becomes)


def _shown(spec: ScheduleSpec, name: str) -> Any:
    value = getattr(spec, name)
    if name not in _MOMENTS or value is None:
        return value
    if isinstance(value, list):
        return [iso_in_zone(at, spec.timezone) for at in value]
    return iso_in_zone(value, spec.timezone)
