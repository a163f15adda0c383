"""Applies the `schedules.yaml` of the folder of flows, at the start and whenever it changes.

What it has applied is noted in a file, so that a schedule that is taken out of the file is deleted, and one
that was created in another way is not.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from pyoco_server.cli.commands.schedules.schedule_apply import Applied, apply_schedules
from pyoco_server.cli.commands.schedules.schedule_file import ScheduleFile, read_schedule_file
from pyoco_server.cli.views.schedule_views import applied_text
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient, PyocoHttpError
from pyoco_server.schedules.schedules_yaml import FILE_NAME, is_schedules_yaml

_LOOK_SEC: Final = 1.0

# The files of a version, each with its time and size; None: it is not there.
_Version = frozenset[tuple[Path, tuple[int, int] | None]]


class DevSchedules:
    def __init__(
        self,
        folder: Path,
        noted: Path,
        *,
        client: Callable[[], PyocoHttpClient],
        on_event: Callable[[str], None],
    ) -> None:
        """`noted` is where it notes what it has applied."""
        self._file = folder / FILE_NAME
        self._noted = noted
        self._client = client
        self._on_event = on_event
        self._files: frozenset[Path] = frozenset({self._file})
        self._handled: _Version | None = None
        # An editor may remove a file before it writes it again.
        self._missed_once = False

    @property
    def applied(self) -> list[str]:
        """The ids of the schedules that are of this file."""
        try:
            return sorted(json.loads(self._noted.read_text()))
        except (OSError, ValueError):
            return []

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SEC)
            await self.look()

    async def look(self) -> None:
        """Apply the file, if it has changed; a problem is reported once and changes nothing."""
        version = _version_of(self._files)
        if version == self._handled or self._is_being_replaced():
            return
        self._handled = version
        try:
            declared = await asyncio.to_thread(self._read)
            # The version of all files that it names.
            self._files = declared.files
            self._handled = _version_of(self._files)
            done = await asyncio.to_thread(self._apply, declared)
        except GatewayUnreachable:
            # It is restarted; the next look tries again.
            self._handled = None
        except (InvalidRequest, PyocoHttpError, OSError) as error:
            self._on_event(f"{FILE_NAME} is not applied: {_text(error)}")
        else:
            if any(each.action != "unchanged" for each in done):
                self._on_event(f"{FILE_NAME}: {applied_text(done, dry_run=False)}")

    def _is_being_replaced(self) -> bool:
        missing = self._handled is not None and not self._file.exists()
        self._missed_once, is_new = missing, missing and not self._missed_once
        return is_new

    def _read(self) -> ScheduleFile:
        if self._file.exists() and is_schedules_yaml(self._file):
            return read_schedule_file(self._file)
        return ScheduleFile([], frozenset({self._file}))

    def _apply(self, declared: ScheduleFile) -> list[Applied]:
        ids = {each.schedule_id for each in declared.schedules}
        before = set(self.applied)
        if not ids | before:
            return []
        # Before they are applied: after a crash in between, all of them are known.
        self._note(ids | before)
        with self._client() as client:
            done = apply_schedules(client, declared.schedules, before - ids, dry_run=False)
        self._note(ids)
        return done

    def _note(self, ids: Iterable[str]) -> None:
        self._noted.parent.mkdir(parents=True, exist_ok=True)
        self._noted.write_text(json.dumps(sorted(ids)))


def _version_of(files: Iterable[Path]) -> _Version:
    return frozenset((file, _stamp(file)) for file in files)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _text(error: Exception) -> str:
    if isinstance(error, InvalidRequest):
        return "; ".join(map(str, error.problems)) or error.detail
    return str(error)
