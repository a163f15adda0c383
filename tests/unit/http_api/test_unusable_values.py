"""A body that is JSON with a value that cannot be stored: the error names the field, not a wrong cause."""

import pytest

from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.requests.bodies import json_value


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (rb'{"params": {"name": "\ud800"}}', "params.name", "half of a surrogate pair"),
        (rb'{"params": {"a\udfff": 1}}', "params", "half of a surrogate pair"),
        (b'{"delay_sec": 1e400}', "delay_sec", "out of range"),
        (b'{"params": {"names": ["a", -1e999]}}', "params.names[1]", "out of range"),
        (b'{"params": {"name": %s}}' % (b"9" * 4301), "params.name", "out of range"),
    ],
)
def test_the_field_of_an_unusable_value_is_named(body: bytes, field: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        json_value(body)
    [problem] = refused.value.problems
    assert problem.field == field
    assert message in problem.message
    assert problem.value


LARGE = b'{"delay_sec": 1e400, "params": "%s"}' % (b"x" * 64 * 1024)


@pytest.mark.parametrize("body", [b"{", b"", b'{"a": NaN}', b"\xff", b"[" * 100_000, LARGE])
def test_other_bodies_are_not_json(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        json_value(body)
    assert refused.value.problems[0].field == ""
