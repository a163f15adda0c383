"""Input that does not match its record: which field, and which name was meant."""

from typing import Any

import msgspec
import pytest

from pyoco_server.api.agent_request_types import NewRequestBody, ResumeBody
from pyoco_server.api.alert_types import AlertRequest
from pyoco_server.api.hook_types import HookRequest
from pyoco_server.api.invalid_fields import invalid_fields
from pyoco_server.api.run_types import RunSubmitRequest
from pyoco_server.records.schedules.schedule_models import SpecInput


class Outer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    spec: SpecInput | None = None
    specs: list[SpecInput] = []


def problem_of(document: Any, kind: type[msgspec.Struct]) -> tuple[str, str, str | None]:
    with pytest.raises(msgspec.ValidationError) as invalid:
        msgspec.convert(document, kind)
    [problem] = invalid_fields(invalid.value, document, kind).problems
    return problem.field, problem.message, problem.value


@pytest.mark.parametrize(
    ("document", "kind", "field", "message"),
    [
        ({"flow_nam": "x"}, RunSubmitRequest, "flow_nam", "unknown field; did you mean 'flow_name'?"),
        ({"colour": 1}, RunSubmitRequest, "colour", "unknown field"),
        ({"spec": {"time_zone": "UTC"}}, Outer, "spec.time_zone", "unknown field; did you mean 'timezone'?"),
        ({"specs": [{"crons": []}]}, Outer, "specs[0].crons", "unknown field; did you mean 'cron'?"),
        ({}, RunSubmitRequest, "flow_name", "the field is missing"),
    ],
)
def test_names_of_fields(document: Any, kind: type[msgspec.Struct], field: str, message: str) -> None:
    assert problem_of(document, kind) == (field, message, None)


def test_value_is_shown() -> None:
    field, message, value = problem_of({"spec": {"every_sec": "2h"}}, Outer)
    assert (field, value) == ("spec.every_sec", '"2h"')
    assert "expected a number of seconds without quotes" in message


def test_a_name_of_a_mapping_that_is_not_valid_names_its_field() -> None:
    document = {"hook_id": "h", "kind": "token", "flow_name": "f", "map": {"": "/x"}}
    field, message, value = problem_of(document, HookRequest)
    assert (field, value) == ("map", None)
    assert message == "one of its names is not valid: Expected `str` of length >= 1"


@pytest.mark.parametrize("field", ["header", "timestamp_header"])
def test_a_header_that_is_none_is_explained(field: str) -> None:
    document = {"hook_id": "h", "kind": "hmac", "flow_name": "f", "signature": {field: "a b"}}
    expected = "expected the name of an HTTP header, such as X-Signature, of at most 100 letters"
    assert problem_of(document, HookRequest) == (f"signature.{field}", expected, '"a b"')


def test_the_name_of_a_channel_is_explained() -> None:
    document = {"condition": "run_failed", "channels": [{"kind": "webhook", "name": "a b"}]}
    field, message, _ = problem_of(document, AlertRequest)
    assert (field, message) == ("channels[0].name", "expected 1 to 64 letters, digits, '_' or '-'")


@pytest.mark.parametrize(
    ("field", "document", "kind"),
    [
        ("want", {"title": "Greet", "want": "Hello"}, NewRequestBody),
        ("answer", {"answer": "Hello"}, ResumeBody),
    ],
)
def test_the_form_of_a_markdown_text_is_shown(field: str, document: Any, kind: type[msgspec.Struct]) -> None:
    expected = 'expected an object with the text, such as {"text": "Markdown"}'
    assert problem_of(document, kind) == (field, expected, '"Hello"')
