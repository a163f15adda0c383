"""Applies a schedules.yaml: creates, changes and, if asked to, deletes schedules.

A schedule that somebody else changes at the same time is read and compared again, so that two of these can
run at once.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyoco_server.cli.commands.schedules.schedule_diff import Action, FieldChange, changes, patch
from pyoco_server.cli.commands.schedules.schedule_file import FileSchedule
from pyoco_server.errors.error_table import Err
from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.response_types import Schedule

_TRIES: Final = 5
_MOVED: Final = {Err.SCHEDULE_NOT_FOUND.err_id, Err.SCHEDULE_CONFLICT.err_id}


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done with one schedule, or would be."""

    schedule_id: str
    action: Action
    changes: Sequence[FieldChange] = ()
    # Of one that was added: what it runs, and when.
    declared: FileSchedule | None = field(default=None, compare=False)


def apply_schedules(
    client: PyocoHttpClient, declared: Iterable[FileSchedule], removed: Collection[str], *, dry_run: bool
) -> list[Applied]:
    """Make the stored schedules those of the file, and delete those with the ids `removed`."""
    done = [_apply(client, each, dry_run=dry_run) for each in declared]
    return done + [each for name in sorted(removed) if (each := _remove(client, name, dry_run=dry_run))]


def undeclared_ids(client: PyocoHttpClient, declared: Iterable[FileSchedule]) -> set[str]:
    """The ids of the schedules of this tenant that the file does not have."""
    tenant = client.key()["tenant_id"]
    ids = {each["schedule_id"] for each in client.iter_schedules() if each["tenant_id"] == tenant}
    return ids - {each.schedule_id for each in declared}


def _apply(client: PyocoHttpClient, declared: FileSchedule, *, dry_run: bool) -> Applied:
    for _ in range(_TRIES):
        stored = _stored(client, declared.schedule_id)
        planned = _planned(declared, stored)
        if dry_run or planned.action == "unchanged":
            return planned
        try:
            _send(client, declared, stored)
        except PyocoHttpError as error:
            # Somebody has created, changed or deleted it meanwhile.
            if error.err_id not in _MOVED:
                raise
            failure = error
        else:
            return planned
    raise failure


def _planned(declared: FileSchedule, stored: Schedule | None) -> Applied:
    if stored is None:
        return Applied(declared.schedule_id, "added", declared=declared)
    found = changes(declared, stored)
    return Applied(declared.schedule_id, "changed" if found else "unchanged", found)


def _send(client: PyocoHttpClient, declared: FileSchedule, stored: Schedule | None) -> None:
    if stored is None:
        client.create_schedule(**declared.body)
    else:
        client.update_schedule(declared.schedule_id, revision=stored["revision"], **patch(declared, stored))


def _remove(client: PyocoHttpClient, schedule_id: str, *, dry_run: bool) -> Applied | None:
    """None if it was deleted already."""
    if _stored(client, schedule_id) is None:
        return None
    if not dry_run:
        try:
            client.delete_schedule(schedule_id)
        except PyocoHttpError as error:
            if error.err_id != Err.SCHEDULE_NOT_FOUND.err_id:
                raise
            return None
    return Applied(schedule_id, "removed")


def _stored(client: PyocoHttpClient, schedule_id: str) -> Schedule | None:
    try:
        return client.get_schedule(schedule_id)
    except PyocoHttpError as error:
        if error.err_id != Err.SCHEDULE_NOT_FOUND.err_id:
            raise
        return None


def summary(done: Iterable[Applied]) -> dict[str, Any]:
    """The result as JSON."""
    listed = list(done)
    return {
        "added": [each.schedule_id for each in listed if each.action == "added"],
        "changed": [
            {
                "schedule_id": each.schedule_id,
                "changes": [
                    {"field": change.field, "before": change.before, "after": change.after}
                    for change in each.changes
                ],
            }
            for each in listed
            if each.action == "changed"
        ],
        "removed": [each.schedule_id for each in listed if each.action == "removed"],
        "unchanged": [each.schedule_id for each in listed if each.action == "unchanged"],
    }
