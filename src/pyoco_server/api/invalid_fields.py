"""Errors of input that does not match its record: the field, its value, and what was expected."""

import re
from typing import Any, Final

import msgspec
from msgspec import inspect

from pyoco_server.errors import FieldProblem, InvalidRequest, shortened_json
from pyoco_server.records.monitoring.alert_models import ALERT_ID_EXPECTED
from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.records.schedules.schedule_models import SCHEDULE_ID_EXPECTED
from pyoco_server.records.triggers.hook_models import HOOK_ID_EXPECTED
from pyoco_server.records.triggers.trigger_models import TEMPLATE_ID_EXPECTED, TEMPLATE_ID_PATTERN
from pyoco_server.records.value_types import (
    FLOW_NAME_EXPECTED,
    RUN_ID_EXPECTED,
    RUN_TIMEOUT_EXPECTED,
    TAG_EXPECTED,
)
from pyoco_server.records.waits.signal_models import EVENT_ID_EXPECTED
from pyoco_server.records.waits.wait_models import TOPIC_EXPECTED
from pyoco_server.runs.flow_yaml import did_you_mean
from pyoco_server.runs.lifecycle.requested_start import DELAY_EXPECTED, START_AT_EXPECTED

_MESSAGE: Final = re.compile(r"^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$\.?(?P<path>.*)`)?$", re.DOTALL)
_NAMED_FIELD: Final = re.compile(r"^Object (?P<how>contains unknown|missing required) field `(?P<field>.*)`$")
_INDEX: Final = re.compile(r"\[\d+\]")
_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

_MARKDOWN_EXPECTED: Final = 'expected an object with the text, such as {"text": "Markdown"}'
_HEADER_EXPECTED: Final = "expected the name of an HTTP header, such as X-Signature, of at most 100 letters"
# In place of the regular expressions of these fields.
_PATTERNS: Final = {
    "flow_name": FLOW_NAME_EXPECTED,
    "tag": TAG_EXPECTED,
    "schedule_id": SCHEDULE_ID_EXPECTED,
    "hook_id": HOOK_ID_EXPECTED,
    "alert_id": ALERT_ID_EXPECTED,
    "run_id": RUN_ID_EXPECTED,
    "wait_id": "expected a wait id: a run id, a dot, and 16 hexadecimal digits",
    # Of an event.
    "name": f"expected {TOPIC_EXPECTED}",
    "id": EVENT_ID_EXPECTED,
    # Of a hook.
    "signature.header": _HEADER_EXPECTED,
    "signature.timestamp_header": _HEADER_EXPECTED,
    # Of an alert.
    "channels[].name": "expected 1 to 64 letters, digits, '_' or '-'",
}
# Fields for which the message of msgspec is not enough.
_EXPECTED: Final = {
    "timeout_sec": RUN_TIMEOUT_EXPECTED,
    "start_at": START_AT_EXPECTED,
    "delay_sec": DELAY_EXPECTED,
    "spec.cron": 'expected a list of cron expressions, such as ["0 9 * * *"]',
    "spec.at": 'expected a list of times, such as ["2027-01-31T09:00:00+09:00"]',
    "spec.exclude": 'expected a list of dates or cron expressions, such as ["2027-12-24"]',
    "spec.every_sec": "expected a number of seconds without quotes, such as 60, or null",
    "spec.jitter_sec": "expected a number of seconds without quotes, such as 30",
    "catchup_window_sec": "expected a number of seconds without quotes, such as 3600, or null",
    "remaining_runs": "expected a whole number without quotes, such as 10, or null for no limit",
    # Of an agent request.
    "want": _MARKDOWN_EXPECTED,
    "answer": _MARKDOWN_EXPECTED,
    # Of a saved view.
    "filter.cause": f"expected one of {', '.join(CauseKind)}, or one with an id, such as schedule:nightly",
    "filter.origin": RUN_ID_EXPECTED,
    "filter.since": "expected one of 1h, 24h, 7d, 30d, or null",
    "filter.workflow_yaml_sha256": "expected the 64 hexadecimal digits of a SHA-256, in lower case",
}
# Their values are never shown.
_SECRET: Final = frozenset({"secret", "webhook_url", "url", "channels"})


def invalid_fields(
    error: Exception, document: Any, kind: type[msgspec.Struct] | None = None
) -> InvalidRequest:
    """The error of decoded input that does not match its record; `kind` has the names of its fields."""
    match = _MESSAGE.match(str(error))
    assert match is not None
    path, message = match["path"] or "", match["what"]
    named = _NAMED_FIELD.match(message)
    if named is not None:
        field = f"{path}.{named['field']}" if path else named["field"]
        if "unknown" in named["how"]:
            message = f"unknown field{did_you_mean(named['field'], _names_at(kind, path))}"
        else:
            message = "the field is missing"
        return InvalidRequest(problems=[FieldProblem(field, message)])
    if match["key"]:
        # msgspec does not say which one.
        return InvalidRequest(problems=[FieldProblem(path, f"one of its names is not valid: {message}")])
    if "matching regex" in message:
        # As the message quotes it.
        is_template_id = path == "id" and repr(TEMPLATE_ID_PATTERN)[1:-1] in message
        message = TEMPLATE_ID_EXPECTED if is_template_id else _PATTERNS.get(_INDEX.sub("[]", path), message)
    if choices := _choices_at(kind, path):
        message = f"expected one of {', '.join(choices)}"
    message = _EXPECTED.get(path, message)
    name = path.rpartition(".")[2].partition("[")[0]
    is_shown = bool(path) and name not in _SECRET
    value = shortened_json(_value_at(document, path)) if is_shown else None
    return InvalidRequest(problems=[FieldProblem(path, message, value=value)])


def _value_at(document: Any, path: str) -> Any:
    for index, key in _STEP.findall(path):
        document = document[int(index)] if index else document[key]
    return document


def _names_at(kind: type[msgspec.Struct] | None, path: str) -> list[str]:
    """The names of the fields of the record at this path."""
    info = _type_at(kind, path)
    record = None if info is None else _record_in(info)
    return [each.encode_name for each in record.fields] if record else []


def _choices_at(kind: type[msgspec.Struct] | None, path: str) -> list[str]:
    """The values that may stand at this path; none: there is something else."""
    info = _type_at(kind, path) if path else None
    return [] if info is None else _choices_in(info)


def _type_at(kind: type[msgspec.Struct] | None, path: str) -> inspect.Type | None:
    if kind is None:
        return None
    [info] = inspect.multi_type_info([kind])
    for index, key in _STEP.findall(path):
        record = _record_in(info)
        if index:
            found = _items_in(info)
        else:
            found = [each.type for each in record.fields if each.encode_name == key] if record else []
        if not found:
            return None
        info = found[0]
    return info


def _items_in(info: inspect.Type) -> list[inspect.Type]:
    """The type of the items of a list; none: it is no list."""
    match info:
        case inspect.Metadata():
            return _items_in(info.type)
        case inspect.UnionType():
            return [found for each in info.types for found in _items_in(each)]
        case inspect.ListType():
            return [info.item_type]
    return []


def _choices_in(info: inspect.Type) -> list[str]:
    match info:
        case inspect.Metadata():
            return _choices_in(info.type)
        case inspect.UnionType():
            return next(filter(None, map(_choices_in, info.types)), [])
        case inspect.EnumType():
            return [str(each.value) for each in info.cls]
        case inspect.LiteralType():
            return [str(each) for each in info.values]
    return []


def _record_in(info: inspect.Type) -> inspect.StructType | None:
    """The record, also where something else may stand in its place."""
    match info:
        case inspect.Metadata():
            return _record_in(info.type)
        case inspect.UnionType():
            return next(filter(None, map(_record_in, info.types)), None)
        case inspect.StructType():
            return info
    return None
