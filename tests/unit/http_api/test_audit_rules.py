"""Which endpoints are audited, and what the audit log keeps of them."""

import re

import msgspec
import pytest

from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_table import ENDPOINT_BY_NAME, ENDPOINTS
from pyoco_server.http_api.middleware.audit_fields import JsonFields
from tests.support.places import ROOT

CHANGING = {name: each for name, each in ENDPOINT_BY_NAME.items() if each.method != "GET"}
# What people or flows write: it is in the run, the wait or the hook, where its readers may see it.
CONTENT = {"params", "payload", "data", "answer", "want", "secret", "webhook_url", "token", "body", "map"}


@pytest.mark.parametrize("endpoint", CHANGING.values(), ids=CHANGING)
def test_every_endpoint_that_is_no_get_is_audited_or_says_why_not(endpoint: Endpoint) -> None:
    assert (endpoint.audit is None) != (endpoint.not_audited == ""), endpoint.route


def test_a_get_has_no_rule() -> None:
    assert [
        each.route for each in ENDPOINTS if each.method == "GET" and (each.audit or each.not_audited)
    ] == []


@pytest.mark.parametrize("endpoint", CHANGING.values(), ids=CHANGING)
def test_no_rule_keeps_contents_or_secrets(endpoint: Endpoint) -> None:
    rule = endpoint.audit
    if rule is not None:
        kept = {path.rpartition(".")[2] for path in (*rule.id, *rule.name, *rule.request, *rule.response)}
        assert kept.isdisjoint(CONTENT)
        assert re.fullmatch(r"[a-z_]+\.[a-z_]+", rule.action)


@pytest.mark.parametrize("endpoint", CHANGING.values(), ids=CHANGING)
def test_the_fields_of_a_rule_exist(endpoint: Endpoint) -> None:
    rule = endpoint.audit
    if rule is None:
        return
    for path in (*rule.name, *rule.response, *([rule.run] if rule.run else [])):
        assert _has(endpoint.response, path.split(".")), f"{endpoint.route}: no {path} in the response"
    for name in rule.request:
        assert endpoint.body is not None
        assert _has(endpoint.body.record, [name]), f"{endpoint.route}: no {name} in the request"


def _has(record: type, path: list[str]) -> bool:
    name, *rest = path
    fields = {field.encode_name: field for field in msgspec.inspect.type_info(record).fields}  # type: ignore[attr-defined]
    if name not in fields or not rest:
        return name in fields
    inner = fields[name].type
    options = getattr(inner, "types", (inner,))
    [struct] = [each for each in options if isinstance(each, msgspec.inspect.StructType)]
    return _has(struct.cls, rest)


def test_parameters_of_the_path_are_found() -> None:
    redeliver = ENDPOINT_BY_NAME["REDELIVER"]
    assert redeliver.path_params("/hooks/orders/deliveries/7/redeliver") == {
        "hook_id": "orders",
        "delivery_id": "7",
    }
    assert ENDPOINT_BY_NAME["SUBMIT_RUN"].path_params("/runs") == {}


def test_only_named_and_small_fields_are_read() -> None:
    fields = JsonFields(b'{"a": "' + b"x" * 500 + b'", "b": {"c": 7, "d": [1]}, "e": ["x", "y"], "f": null}')
    assert len(str(fields.get("a"))) == 200
    assert fields.details(["b.c", "b.d", "b", "e", "f", "missing"]) == {"c": 7, "e": ["x", "y"]}
    assert fields.names == ["a", "b", "e", "f"]


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff", b'{"a"' * 100_000, b"[" * 100_000])
def test_what_is_no_object_has_no_fields(content: bytes) -> None:
    assert JsonFields(content).get("a") is None


def test_the_dashboard_has_a_word_for_every_action_in_both_languages() -> None:
    texts = (ROOT / "ui/src/audit/messages.ts").read_text(encoding="utf-8")
    actions = {each.audit.action for each in ENDPOINTS if each.audit} | {
        "key.create",
        "key.revoke",
        "key.rotate",
    }
    assert [action for action in sorted(actions) if texts.count(f'"action.{action}":') != 2] == []
    assert [
        kind
        for kind in {action.partition(".")[0] for action in actions}
        if len(re.findall(rf'"kind\.{kind}":', texts)) != 2
    ] == []
