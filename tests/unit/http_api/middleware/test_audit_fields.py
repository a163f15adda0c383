"""Fields of requests that the audit log keeps: whatever was sent, reading them fails for none."""

import pytest

from pyoco_server.http_api.middleware.audit_fields import JsonFields


@pytest.mark.parametrize(
    "content",
    [
        b'{"note": "\xff"}',
        b'{"note": "\\ud800"}',
        b'{"note": 1e999}',
        b'{"note": %s}' % (b"9" * 5000),
        b'{"note": %s}' % (b"[" * 30_000 + b"]" * 30_000),
        b'{"note": {"text": "\xff"}}',
        b'"note"',
        b"\xff",
    ],
    ids=["not utf-8", "surrogate", "float", "integer", "nested", "in an object", "no object", "no json"],
)
def test_what_cannot_be_read_is_left_out(content: bytes) -> None:
    assert JsonFields(content).get("note") is None
    assert JsonFields(content).details(["note", "note.text"]) == {}
