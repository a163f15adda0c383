"""Workflow events, templates, actions and hooks, as both clients send them."""

from typing import Any

import pytest

from pyoco_server.http_client.call_types import Request
from pyoco_server.http_client.triggers import hook_calls as hooks
from pyoco_server.http_client.triggers import workflow_event_calls as events

TOKEN_HEADER = "x-workflow-event-token"


@pytest.mark.parametrize(
    "request_of",
    [
        lambda token: events.send_workflow_event("close", token=token),
        lambda token: events.event_summary("2026-11", token=token),
        lambda token: events.list_retry_jobs(token=token),
        lambda token: events.drain_retry_jobs(token=token),
        lambda token: events.notification_settings(token=token),
        lambda token: events.save_notification_settings("", token=token),
        lambda token: events.send_test_notification(token=token),
    ],
)
def test_a_token_is_sent_in_a_header_only(request_of: Any) -> None:
    request: Request[Any] = request_of("sesame")
    assert request.headers[TOKEN_HEADER] == "sesame"
    assert "sesame" not in f"{request.path} {request.query} {request.json}"
    assert TOKEN_HEADER not in request_of(None).headers
    with pytest.raises(ValueError, match="the token has a character"):
        request_of("two\nlines")


def test_an_event_has_a_key_for_its_retries() -> None:
    first, second = events.send_workflow_event("close"), events.send_workflow_event("close")
    assert first.repeatable
    assert first.json["idempotency_key"] != second.json["idempotency_key"]
    own = events.send_workflow_event(event_name="close", idempotency_key="k-1", month=11, payload={"a": 1})
    assert own.json == {"event_name": "close", "idempotency_key": "k-1", "month": 11, "payload": {"a": 1}}


def test_the_key_of_an_action_is_a_part_of_the_path() -> None:
    for request in (events.get_action("a/b"), events.save_action("a/b", "f"), events.delete_action("a/b")):
        assert request.path == "/api/workflow-actions/a%2Fb"
        assert request.headers == {}


def test_templates_come_page_after_page() -> None:
    pages = events.iter_templates(2, search="close")
    assert pages.page("4").query == {"search": "close", "sort": "name", "limit": 2, "offset": 4}
    assert pages.next({"items": [1, 2], "total": 5}, None) == "2"
    assert pages.next({"items": [1, 2], "total": 5}, "2") == "4"
    assert pages.next({"items": [1], "total": 5}, "4") is None
    assert pages.next({"items": [], "total": 5}, "6") is None


def test_a_sample_delivery_may_have_no_body() -> None:
    request = hooks.preview_hook("orders", headers={"X-Shop": "north"})
    assert request.json == {"body": None, "headers": {"X-Shop": "north"}}
    assert request.repeatable


def test_a_redelivery_gets_a_key_for_its_retries() -> None:
    request = hooks.redeliver("orders", 7, new_run=True, tenant="acme")
    assert (request.path, request.query) == ("/hooks/orders/deliveries/7/redeliver", {"tenant": "acme"})
    assert not request.repeatable
    assert request.with_own_key().repeatable


def test_creating_and_rotating_are_not_repeated() -> None:
    """A second answer would have another secret than the first, which is lost."""
    for request in (hooks.create_hook("orders", "github", "import"), hooks.rotate_hook("orders")):
        assert not request.with_own_key().repeatable


@pytest.mark.parametrize("key", ["order/4711", "x" * 129, "a b", "", "日本"])
def test_a_key_that_the_contract_does_not_count_is_not_sent(key: str) -> None:
    """The call is repeated when no answer comes, and would start a run each time."""
    with pytest.raises(ValueError, match="expected 1 to 128 letters"):
        events.send_workflow_event("close", idempotency_key=key)
