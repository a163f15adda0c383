"""Reads a `schedules.yaml`: a list of schedules, each with the fields of `POST /schedules`.

Everything is checked before anything is applied. Beside the fields of the endpoint, an entry may name its
flow.yaml with `workflow_file`, and write a single cron expression, moment or exclusion without a list.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pyoco_server.api.invalid_fields import invalid_fields
from pyoco_server.api.schedule_types import ScheduleRequest
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened_json
from pyoco_server.records.schedules.schedule_models import ScheduleSpec
from pyoco_server.runs.flow_yaml import did_you_mean
from pyoco_server.schedules.spec_problems import valid_spec
from pyoco_server.waits.human.human_task_yaml import check_submitted_flow

_LISTS: Final = ("cron", "at", "exclude")
_ENTRIES: Final = "schedules"
_WORKFLOW_FILE: Final = "workflow_file"
_REQUIRED: Final = {"schedule_id": "none", "flow_name": "none", "spec": {}}
_MAX_DEPTH: Final = 100
# Of one entry; more are not read by anybody.
_MAX_PROBLEMS: Final = 50
_NUMBERS: Final = ("timeout_sec", "catchup_window_sec", "remaining_runs")
_SPEC_NUMBERS: Final = ("every_sec", "jitter_sec")
_NUMBER_EXPECTED: Final = (
    "expected a number without quotes; YAML reads 1e1 as text: write 10, or 1.0e+1 with a point and a sign"
)


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
            loaded = yaml.safe_load(self.path.read_text(encoding="utf-8-sig"))
        except RecursionError:
            self._add("", f"the file is nested too deeply; at most {_MAX_DEPTH} levels are allowed")
            return
        except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
            self._add("", f"the file is not YAML: {' '.join(str(error).split())}")
            return
        document = _JsonValues(self._add).of(loaded)
        if document is None:
            # It may be that an editor has truncated it and is about to write it.
            self._add("", f"the file is empty; for no schedules, write '{_ENTRIES}: []'")
            return
        if not isinstance(document, dict) or not isinstance(document.get(_ENTRIES), list):
            self._unknown(document if isinstance(document, dict) else {})
            self._add("", f"expected a mapping with {_ENTRIES!r}, a list of schedules")
            return
        self._unknown(document)
        for number, entry in enumerate(document[_ENTRIES]):
            yield f"{_ENTRIES}[{number}]", entry

    def _unknown(self, document: dict[str, Any]) -> None:
        for name in document:
            if name != _ENTRIES:
                self._add(name, f"unknown field{did_you_mean(name, [_ENTRIES])}")

    def _entry(self, place: str, entry: Any) -> FileSchedule | None:
        if not isinstance(entry, dict):
            self._add(place, "expected a mapping with the fields of a schedule", entry)
            return None
        entry = self._with_workflow(place, {str(name): value for name, value in entry.items()})
        entry = _with_lists(entry)
        given = frozenset(entry)
        for name, text in _number_in_text(entry):
            self._add(f"{place}.{name}", _NUMBER_EXPECTED, text)
            _leave_out(entry, name)
        request = self._request(place, entry)
        if request is None:
            return None
        self._check_workflow(place, request.workflow_yaml)
        try:
            spec = valid_spec(request.spec)
        except InvalidRequest as error:
            known = any(each.field.startswith(f"{place}.spec") for each in self.problems)
            # Without the fields that are invalid, it may say no time.
            self._add_all(place, [each for each in error.problems if each.field != "spec" or not known])
            return None
        return FileSchedule(request, spec, given)

    def _request(self, place: str, entry: dict[str, Any]) -> ScheduleRequest | None:
        """Each invalid field is reported and left out, to find the next; None if there are too many."""
        for _ in range(_MAX_PROBLEMS):
            try:
                return msgspec.convert(entry, ScheduleRequest)
            except msgspec.ValidationError as error:
                problems = invalid_fields(error, entry, ScheduleRequest).problems
            self._add_all(place, problems)
            _leave_out(entry, problems[0].field)
        return None

    def _check_workflow(self, place: str, text: str | None) -> None:
        try:
            if text is not None:
                check_submitted_flow(text.encode())
        except InvalidRequest as error:
            self._add_all(f"{place}.workflow_yaml", error.problems)

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

    def _add_all(self, place: str, problems: Sequence[FieldProblem]) -> None:
        for problem in problems:
            named = f"{place}.{problem.field}" if problem.field else place
            self.problems.append(
                FieldProblem(named, problem.message, problem.value, problem.line, problem.column)
            )


def _leave_out(entry: dict[str, Any], path: str) -> None:
    """Without the field at this path; one that every schedule has gets a value that is valid."""
    name, _, rest = path.partition(".")
    name, _, _ = name.partition("[")
    if rest and name == "spec" and isinstance(entry[name], dict):
        entry[name].pop(rest.partition("[")[0], None)
    elif name in _REQUIRED:
        entry[name] = _REQUIRED[name]
    else:
        entry.pop(name, None)


def _with_lists(entry: dict[str, Any]) -> dict[str, Any]:
    spec = entry.get("spec")
    if not isinstance(spec, dict):
        return entry
    lists = {name: [spec[name]] for name in _LISTS if isinstance(spec.get(name), str | int | float)}
    return {**entry, "spec": {**spec, **lists}}


_SPEC_TIME: Final = re.compile(r"schedules\[\d+\]\.spec\..*")


@dataclass
class _JsonValues:
    """The document as JSON has it; what JSON does not have is a problem, named by its path."""

    add: Callable[[str, str, object], None]
    _open: list[int] = field(default_factory=list)

    def of(self, value: Any, path: str = "") -> Any:
        if isinstance(value, dict | list):
            return self._nested(value, path)
        if isinstance(value, date):
            if _SPEC_TIME.fullmatch(path) is None:
                self.add(path, "YAML reads this as a date; write it in quotes", value.isoformat())
            # A time of the spec needs no quotes.
            return value.isoformat()
        if isinstance(value, float) and not math.isfinite(value):
            self.add(path, "expected a finite number: JSON has no NaN and no infinity", str(value))
            return None
        if value is None or isinstance(value, str | bool | int | float):
            return value
        self.add(path, f"JSON has no value of this kind ({type(value).__name__}); write text in quotes", None)
        return None

    def _nested(self, value: dict[Any, Any] | list[Any], path: str) -> Any:
        if id(value) in self._open:
            self.add(path, "an alias (*name) contains itself; write the value out", None)
            return None
        if len(self._open) >= _MAX_DEPTH:
            self.add(path, f"nested more than {_MAX_DEPTH} deep; flatten it", None)
            return None
        self._open.append(id(value))
        try:
            if isinstance(value, list):
                return [self.of(each, f"{path}[{number}]") for number, each in enumerate(value)]
            return {
                self._name(name, path): self.of(each, f"{path}.{name}" if path else str(name))
                for name, each in value.items()
            }
        finally:
            self._open.pop()

    def _name(self, name: Any, path: str) -> str:
        if not isinstance(name, str):
            place = f"{path}.{name}" if path else str(name)
            self.add(place, "expected text as the name of a field; write it in quotes", None)
        return str(name)


def _number_in_text(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Fields whose number YAML reads as text, such as 1e1."""
    spec = entry.get("spec")
    places = [("", entry, _NUMBERS), ("spec.", spec if isinstance(spec, dict) else {}, _SPEC_NUMBERS)]
    for prefix, values, names in places:
        for name in names:
            if isinstance(text := values.get(name), str):
                yield f"{prefix}{name}", text
