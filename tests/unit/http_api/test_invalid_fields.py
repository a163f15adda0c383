"""Input that does not match its record: which field, and which name was meant."""

from typing import Any

import msgspec
import pytest

from pyoco_server.api.invalid_fields import invalid_fields
from pyoco_server.api.run_types import RunSubmitRequest
from pyoco_server.records.schedule_models import SpecInput


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
