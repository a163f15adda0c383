"""Validation errors of msgspec as field problems: the field, its value, and what is expected."""

import re
from typing import Any

import msgspec

from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.records.models import FLOW_NAME_WANTED, RUN_TIMEOUT_WANTED, TAG_WANTED, RerunMode

_MESSAGE = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_NAMED_FIELD = re.compile(r"^Object (?P<how>contains unknown|missing required) field `(?P<field>.*)`$")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

# Instead of the regular expression.
_EXPECTED = {"flow_name": FLOW_NAME_WANTED, "tag": TAG_WANTED}
# For fields where the message of msgspec is not specific enough.
_ALWAYS_EXPECTED = {"timeout_sec": RUN_TIMEOUT_WANTED, "mode": f"expected one of {', '.join(RerunMode)}"}


def invalid_body(error: Exception, body: bytes) -> InvalidRequest:
    """For a JSON body that could not be decoded into its record."""
    try:
        document = msgspec.json.decode(body)
    except RecursionError:
        return InvalidRequest(problems=[FieldProblem("", "the JSON is nested too deeply")])
    except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
        return InvalidRequest(problems=[FieldProblem("", f"the body is not JSON: {malformed}")])
    return invalid_fields(error, document)


def invalid_fields(error: Exception, document: Any) -> InvalidRequest:
    """For decoded input that does not have the form of its record."""
    match = _MESSAGE.match(str(error))
    assert match is not None
    path, message = match["path"] or "", match["what"]
    named = _NAMED_FIELD.match(message)
    if named is not None:
        how = "unknown field" if "unknown" in named["how"] else "the field is missing"
        field = f"{path}.{named['field']}" if path else named["field"]
        return InvalidRequest(problems=[FieldProblem(field, how)])
    if "matching regex" in message:
        message = _EXPECTED.get(path, message)
    message = _ALWAYS_EXPECTED.get(path, message)
    value = shortened(_value_at(document, path)) if path else None
    return InvalidRequest(problems=[FieldProblem(path, message, value=value)])


def _value_at(document: Any, path: str) -> Any:
    for index, key in _STEP.findall(path):
        document = document[int(index)] if index else document[key]
    return document
