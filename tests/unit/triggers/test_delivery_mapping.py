"""What a delivery becomes: parameters, the idempotency key, and whether it is wanted."""

from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from pyoco_server.errors import InvalidRequest
from pyoco_server.records.triggers.hook_models import HookKind, HookRecord
from pyoco_server.triggers.hooks.delivery_mapping import MappedDelivery, is_source, mapped
from pyoco_server.triggers.hooks.signatures import Incoming

BODY: dict[str, Any] = {
    "action": "opened",
    "id": "evt_1",
    "number": 7,
    "issue": {"title": "日本", "labels": [{"name": "bug"}], "a/b": 1, "c~d": 2},
    "none": None,
}


def a_hook(kind: HookKind = HookKind.TOKEN, **fields: Any) -> HookRecord:
    return HookRecord(
        hook_id="h", incarnation="1", created_at=0.0, updated_at=0.0, kind=kind, flow_name="flow", **fields
    )


def sent(query: dict[str, str] | None = None, /, **headers: str) -> Incoming:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Incoming(named, msgspec.json.encode(BODY), query or {})


def test_without_a_map_the_whole_body_is_one_parameter() -> None:
    assert mapped(a_hook(), sent()).params == {"payload": BODY}


def test_parameters_come_from_pointers_headers_and_the_query() -> None:
    hook = a_hook(
        map={
            "title": "/issue/title",
            "label": "/issue/labels/0/name",
            "slash": "/issue/a~1b",
            "tilde": "/issue/c~0d",
            "whole": "",
            "none": "/none",
            "event": "header:X-Event",
            "env": "query:env",
        }
    )
    found = mapped(hook, sent({"env": "test"}, x_event="push"))
    assert found.params == {
        "title": "日本",
        "label": "bug",
        "slash": 1,
        "tilde": 2,
        "whole": BODY,
        "none": None,
        "event": "push",
        "env": "test",
    }
    assert found.missing == []


def test_a_parameter_without_its_source_is_left_out_and_reported() -> None:
    hook = a_hook(map={"a": "/nothing", "b": "/issue/labels/1", "c": "header:X-None", "n": "/number"})
    assert mapped(hook, sent()) == MappedDelivery({"n": 7}, ["a", "b", "c"], None)


def test_an_empty_map_passes_nothing_of_the_delivery() -> None:
    assert mapped(a_hook(map={}), Incoming({}, b"not read")).params == {}


@pytest.mark.parametrize(
    ("only_if", "is_wanted"),
    [
        ({"/action": "opened"}, True),
        ({"/action": "closed"}, False),
        ({"/action": "opened", "/number": 7.0}, True),
        ({"/action": "opened", "/number": 8}, False),
        ({"/none": None}, True),
        ({"/nothing": None}, False),
        ({"header:X-Event": "push"}, True),
        ({"header:x-event": "pull"}, False),
        ({"query:env": "test"}, False),
    ],
)
def test_only_if_compares_values(only_if: dict[str, Any], is_wanted: bool) -> None:
    found = mapped(a_hook(only_if=only_if), sent(x_event="push"))
    assert found.ignored == (None if is_wanted else "only_if")


@pytest.mark.parametrize(
    ("kind", "headers", "key"),
    [
        (HookKind.GITHUB, {"x_github_delivery": "72d3162e"}, "72d3162e"),
        (HookKind.STRIPE, {}, "evt_1"),
        (HookKind.STANDARD_WEBHOOKS, {"webhook_id": "msg_1"}, "msg_1"),
        (HookKind.STANDARD_WEBHOOKS, {"svix_id": "msg_2"}, "msg_2"),
        (HookKind.TOKEN, {"idempotency_key": "k"}, "k"),
        (HookKind.HMAC, {"x_idempotency_key": "k2"}, "k2"),
        (HookKind.NATS, {"nats_msg_id": "m"}, "m"),
        (HookKind.NATS, {"nats_msg_id": "m", "idempotency_key": "k"}, "k"),
        # However long it is: a repeated delivery is known by it.
        (HookKind.GITHUB, {"x_github_delivery": "x" * 5000}, "x" * 5000),
        (HookKind.TOKEN, {}, None),
        (HookKind.GITHUB, {}, None),
    ],
)
def test_the_key_is_the_delivery_id_of_the_sender(
    kind: HookKind, headers: dict[str, str], key: str | None
) -> None:
    assert mapped(a_hook(kind), sent(**headers)).key == key


@pytest.mark.parametrize("kind", HookKind)
def test_every_kind_has_a_place_for_the_id_of_a_delivery(kind: HookKind) -> None:
    assert mapped(a_hook(kind), sent()).key in (None, "evt_1")


@pytest.mark.parametrize(("source", "key"), [("/id", "evt_1"), ("/number", "7"), ("header:X-Id", "h")])
def test_the_key_comes_from_the_configured_source(source: str, key: str) -> None:
    hook = a_hook(HookKind.GITHUB, idempotency=source)
    assert mapped(hook, sent(x_id="h", x_github_delivery="other")).key == key


@pytest.mark.parametrize("source", ["/nothing", "/issue", "/none", "header:X-None"])
def test_a_delivery_without_the_configured_key_is_refused(source: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        mapped(a_hook(idempotency=source), sent())
    [problem] = raised.value.problems
    assert problem.field == "idempotency"
    assert source in problem.message


def test_the_ping_of_a_new_webhook_at_github_starts_nothing() -> None:
    assert mapped(a_hook(HookKind.GITHUB), sent(x_github_event="ping")).ignored == "ping"
    assert mapped(a_hook(HookKind.HMAC), sent(x_github_event="ping")).ignored is None


def test_a_form_is_an_object_of_its_fields() -> None:
    form = Incoming({"content-type": "application/x-www-form-urlencoded"}, b"a=1&b=%E6%97%A5&c=")
    assert mapped(a_hook(), form).params == {"payload": {"a": "1", "b": "日", "c": ""}}


@pytest.mark.parametrize("body", [b' {"a": 1}', b'[{"a": 1}]'])
def test_json_that_curl_calls_a_form_is_json(body: bytes) -> None:
    sent_by_curl = Incoming({"content-type": "application/x-www-form-urlencoded"}, body)
    assert mapped(a_hook(), sent_by_curl).params == {"payload": msgspec.json.decode(body)}


def test_the_form_of_github_has_its_json_in_one_field() -> None:
    body = urlencode({"payload": msgspec.json.encode(BODY).decode()}).encode()
    form = Incoming({"content-type": "application/x-www-form-urlencoded; charset=utf-8"}, body)
    assert mapped(a_hook(HookKind.GITHUB, map={"title": "/issue/title"}), form).params == {"title": "日本"}


def test_an_empty_body_has_no_members() -> None:
    found = mapped(a_hook(map={"a": "/a", "whole": ""}), Incoming({}, b""))
    assert found.params == {}
    assert found.missing == ["a", "whole"]


@pytest.mark.parametrize("body", [b"{", b"\xff", b"NaN", b"[" * 300 + b"]" * 300, b"[" * 100_000])
def test_a_body_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        mapped(a_hook(), Incoming({}, body))


@pytest.mark.parametrize("text", ["", "/", "/a/0/b", "/a~0~1", "header:X", "query:q", "header: X"])
def test_what_is_a_source(text: str) -> None:
    assert is_source(text)


@pytest.mark.parametrize("text", ["a", "a/b", "/a~2", "/~", "header:", "query: ", "body:/a", "$.a"])
def test_what_is_no_source(text: str) -> None:
    assert not is_source(text)
