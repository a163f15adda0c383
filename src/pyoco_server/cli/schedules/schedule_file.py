"""Reads a `schedules.yaml`: a list of schedules, each with the fields of `POST /schedules`.

Everything is checked before anything is applied. Beside the fields of the endpoint, an entry may name its
flow.yaml with `workflow_file`, and write a single cron expression, moment or exclusion without a list.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pyoco_server.api.invalid_fields import invalid_fields
from pyoco_server.api.schedule_types import ScheduleRequest
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened_json
from pyoco_server.records.schedule_models import ScheduleSpec
from pyoco_server.runs.flow_yaml import did_you_mean
from pyoco_server.schedules.spec_problems import valid_spec
from pyoco_server.waits.human.human_task_yaml import check_submitted_flow

_LISTS: Final = ("cron", "at", "exclude")
_ENTRIES: Final = "schedules"
_WORKFLOW_FILE: Final = "workflow_file"


@dataclass(frozen=True, slots=True)
class FileSchedule:
    """One entry of the file."""

    request: ScheduleRequest
    spec: ScheduleSpec
    # The names of its fields: others are left as they are where somebody may have changed them by hand.
    given: frozenset[str]

    @property
    def schedule_id(self) -> str:
        return self.request.schedule_id

    @property
    def body(self) -> dict[str, Any]:
        """The fields of `POST /schedules`, beside the three that every schedule has."""
        fields: dict[str, Any] = msgspec.to_builtins(self.request)
        return {name: fields[name] for name in fields if name in self.given}


@dataclass(frozen=True, slots=True)
class ScheduleFile:
    schedules: list[FileSchedule]
    # The file itself, and every flow.yaml that it names.
    files: frozenset[Path]


def read_schedule_file(path: Path) -> ScheduleFile:
    """The schedules of the file; InvalidRequest with every problem, OSError if it cannot be read."""
    return _Reader(path).read()


@dataclass
class _Reader:
    path: Path
    problems: list[FieldProblem] = field(default_factory=list)
    files: set[Path] = field(default_factory=set)

    def read(self) -> ScheduleFile:
        self.files.add(self.path)
        schedules = [found for place, entry in self._entries() if (found := self._entry(place, entry))]
        self._check_ids(schedules)
        if self.problems:
            raise InvalidRequest(problems=self.problems)
        return ScheduleFile(schedules, frozenset(self.files))

    def _entries(self) -> Iterator[tuple[str, Any]]:
        try:
            document = _plain(yaml.safe_load(self.path.read_text(encoding="utf-8-sig")))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            self._add("", f"the file is not YAML: {' '.join(str(error).split())}")
            return
        if document is None:
            return
        if not isinstance(document, dict) or not isinstance(document.get(_ENTRIES, []), list):
            self._add("", f"expected a mapping with {_ENTRIES!r}, a list of schedules")
            return
        for name in document:
            if name != _ENTRIES:
                self._add(str(name), f"unknown field{did_you_mean(str(name), [_ENTRIES])}")
        for number, entry in enumerate(document.get(_ENTRIES, [])):
            yield f"{_ENTRIES}[{number}]", entry

    def _entry(self, place: str, entry: Any) -> FileSchedule | None:
        if not isinstance(entry, dict):
            self._add(place, "expected a mapping with the fields of a schedule", entry)
            return None
        entry = self._with_workflow(place, {str(name): value for name, value in entry.items()})
        entry = _with_lists(entry)
        try:
            request = msgspec.convert(entry, ScheduleRequest)
            spec = valid_spec(request.spec)
        except msgspec.ValidationError as error:
            self._add_all(place, invalid_fields(error, entry, ScheduleRequest))
            return None
        except InvalidRequest as error:
            self._add_all(place, error)
            return None
        self._check_workflow(place, request.workflow_yaml)
        return FileSchedule(request, spec, frozenset(entry))

    def _check_workflow(self, place: str, text: str | None) -> None:
        try:
            if text is not None:
                check_submitted_flow(text.encode())
        except InvalidRequest as error:
            self._add_all(f"{place}.workflow_yaml", error)

    def _with_workflow(self, place: str, entry: dict[str, Any]) -> dict[str, Any]:
        """The entry with its flow.yaml in place of the file's name, which is relative to this file."""
        name = entry.pop(_WORKFLOW_FILE, None)
        if name is None:
            return entry
        file = self.path.parent / str(name)
        self.files.add(file)
        if "workflow_yaml" in entry:
            self._add(f"{place}.{_WORKFLOW_FILE}", "give either this or workflow_yaml", name)
        try:
            return {**entry, "workflow_yaml": file.read_text(encoding="utf-8-sig")}
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            self._add(f"{place}.{_WORKFLOW_FILE}", f"the file cannot be read: {reason}", name)
            return entry

    def _check_ids(self, schedules: list[FileSchedule]) -> None:
        seen: set[str] = set()
        for each in schedules:
            if each.schedule_id in seen:
                self._add(
                    "schedule_id", "given twice; each schedule needs an id of its own", each.schedule_id
                )
            seen.add(each.schedule_id)

    def _add(self, place: str, message: str, value: object = None) -> None:
        shown = None if value is None else shortened_json(value)
        self.problems.append(FieldProblem(place, message, value=shown))

    def _add_all(self, place: str, error: InvalidRequest) -> None:
        for problem in error.problems:
            named = f"{place}.{problem.field}" if problem.field else place
            self.problems.append(
                FieldProblem(named, problem.message, problem.value, problem.line, problem.column)
            )


def _with_lists(entry: dict[str, Any]) -> dict[str, Any]:
    spec = entry.get("spec")
    if not isinstance(spec, dict):
        return entry
    lists = {name: [spec[name]] for name in _LISTS if isinstance(spec.get(name), str | int | float)}
    return {**entry, "spec": {**spec, **lists}}


def _plain(value: Any) -> Any:
    """Times without quotes, which YAML reads as dates, as text."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value
