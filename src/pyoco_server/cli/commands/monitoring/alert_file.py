"""Reads an `alerts.yaml`: a list of alerts, each with its id and the fields of `PUT /alerts/{alert_id}`.

A URL or secret may be named instead of written: `url_env: SLACK_URL` takes it from the environment, so that
the file can be committed. Everything is checked before anything is applied.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pyoco_server.api.alert_types import AlertRequest
from pyoco_server.api.invalid_fields import invalid_fields
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened_json
from pyoco_server.records.monitoring.alert_models import ALERT_ID_EXPECTED, is_alert_id

_ENTRIES: Final = "alerts"
_SECRETS: Final = ("url", "secret")


@dataclass(frozen=True, slots=True)
class FileAlert:
    """One entry of the file."""

    alert_id: str
    # Of `PUT /alerts/{alert_id}`.
    body: dict[str, Any]


def read_alert_file(path: Path, environ: Mapping[str, str] = os.environ) -> list[FileAlert]:
    """The alerts of the file; InvalidRequest with every problem, which shows no secret."""
    problems: list[FieldProblem] = []
    alerts: list[FileAlert] = []
    for place, entry in _entries(path):
        try:
            alerts.append(_alert(entry, environ))
        except InvalidRequest as error:
            problems += [replace(each, field=_joined(place, each.field)) for each in error.problems]
    ids = [each.alert_id for each in alerts]
    problems += [
        FieldProblem("alert_id", "given twice in the file; give each alert its own", shortened_json(repeated))
        for repeated in sorted({each for each in ids if ids.count(each) > 1})
    ]
    if problems:
        raise InvalidRequest(problems=problems)
    return alerts


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        # Without the lines that the error quotes: a secret may be in them.
        raise _invalid("", f"the file is not YAML: {type(error).__name__}{_place_in(error)}") from None
    if not isinstance(document, dict) or not isinstance(document.get(_ENTRIES), list):
        raise _invalid("", f"expected a mapping with {_ENTRIES!r}, a list of alerts")
    if unknown := [str(name) for name in document if name != _ENTRIES]:
        raise _invalid(unknown[0], f"unknown field; expected {_ENTRIES!r} only")
    for number, entry in enumerate(document[_ENTRIES]):
        yield f"{_ENTRIES}[{number}]", entry


def _place_in(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"


def _alert(entry: Any, environ: Mapping[str, str]) -> FileAlert:
    if not isinstance(entry, dict) or not all(isinstance(name, str) for name in entry):
        raise _invalid("", "expected a mapping with the fields of an alert")
    fields = dict(entry)
    alert_id = fields.pop("alert_id", None)
    if not isinstance(alert_id, str) or not is_alert_id(alert_id):
        raise InvalidRequest(problems=[FieldProblem("alert_id", ALERT_ID_EXPECTED, shortened_json(alert_id))])
    if isinstance(channels := fields.get("channels"), list):
        fields["channels"] = [
            _with_environment(f"channels[{number}]", each, environ) for number, each in enumerate(channels)
        ]
    try:
        msgspec.convert(fields, AlertRequest)
    except msgspec.ValidationError as error:
        raise invalid_fields(error, fields, AlertRequest) from None
    return FileAlert(alert_id, fields)


def _with_environment(place: str, channel: Any, environ: Mapping[str, str]) -> Any:
    """The channel with the secrets that it names."""
    if not isinstance(channel, dict):
        return channel
    channel = dict(channel)
    for field in _SECRETS:
        name = channel.pop(f"{field}_env", None)
        if name is None:
            continue
        value = environ.get(str(name))
        if not value:
            message = (
                "the environment has no such variable; set it, or leave the field out to keep what is stored"
            )
            raise InvalidRequest(
                problems=[FieldProblem(f"{place}.{field}_env", message, shortened_json(name))]
            )
        channel[field] = value
    return channel


def _joined(place: str, field: str) -> str:
    return f"{place}.{field}" if field else place


def _invalid(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(problems=[FieldProblem(field, message)])
