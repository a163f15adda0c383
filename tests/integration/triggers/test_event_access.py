"""Who may send workflow events: the token and its places, API keys, and what strangers leave in the audit."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.triggers.workflow_events import template_service
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.tenants import OPERATOR, a_key, having_tenants
from tests.support.running.workflow_events import (
    ACTIONS,
    EVENTS,
    TEMPLATES,
    assert_refused,
    put_action,
    save_template,
    summary,
    template,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEBHOOK = "https://chat.googleapis.com/v1/spaces/AAAABBBBCCCC/messages?key=secret-key-1&token=secret-token-1"
TOKEN = "a-token-of-events-é"
BODY = {"template_id": "t", "year": 2026, "month": 5}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(shared_config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    """A gateway without API keys, with a token."""
    async with running_gateway(replace(shared_config, workflow_event_token=TOKEN)) as gateway:
        await put_action(gateway)
        await save_template(gateway, "t")
        yield gateway


@pytest.mark.parametrize(
    ("params", "headers", "status"),
    [
        ({}, {}, 401),
        ({"token": TOKEN}, {}, 200),
        ({}, {"x-workflow-event-token": TOKEN.encode()}, 200),
        ({}, {"Authorization": b"Bearer " + TOKEN.encode()}, 200),
        ({}, {"Authorization": b"bearer " + TOKEN.encode()}, 200),
        ({}, {"Authorization": b"Basic " + TOKEN.encode()}, 401),
        ({}, {"Authorization": TOKEN.encode()}, 401),
        ({"token": TOKEN[:-1]}, {}, 401),
        ({"token": f"{TOKEN}x"}, {}, 401),
        # The first place that has one decides.
        ({"token": "wrong"}, {"x-workflow-event-token": TOKEN.encode()}, 401),
        ({}, {"x-workflow-event-token": b"wrong", "Authorization": b"Bearer " + TOKEN.encode()}, 401),
        ({"token": TOKEN}, {"x-workflow-event-token": b"wrong", "Authorization": b"Bearer wrong"}, 200),
        ({"token": ""}, {"x-workflow-event-token": TOKEN.encode()}, 200),
        ({"token": ["guess", "guess"]}, {}, 401),
    ],
)
async def test_the_token_is_looked_for_in_its_places(
    guarded: RunningGateway, params: dict[str, str | list[str]], headers: dict[str, bytes], status: int
) -> None:
    raw = [(name.encode(), value) for name, value in headers.items()]
    response = await guarded.http.post(EVENTS, json=BODY, params=params, headers=raw)
    assert response.status_code == status, response.text
    if status == 401:
        assert_refused(response, 401, 54)
        assert response.json()["detail"] == "Invalid workflow event token."
        assert "guess" not in response.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/summary?ym=2026-05"),
        ("GET", "/retry-jobs"),
        ("POST", "/retry-jobs/drain"),
        ("GET", "/notification-settings"),
        ("POST", "/notification-settings"),
        ("POST", "/notification-settings/test"),
    ],
)
async def test_the_other_endpoints_need_the_token_too(
    guarded: RunningGateway, method: str, path: str
) -> None:
    refused = await guarded.http.request(method, f"{EVENTS}{path}", json={"webhook_url": ""})
    assert_refused(refused, 401, 54)
    headers = [(b"x-workflow-event-token", TOKEN.encode())]
    body = {"webhook_url": ""} if path == "/notification-settings" else {}
    allowed = await guarded.http.request(method, f"{EVENTS}{path}", json=body, headers=headers)
    assert allowed.status_code == (400 if path.endswith("/test") else 200), allowed.text


async def test_the_token_is_checked_before_the_body_and_the_template(guarded: RunningGateway) -> None:
    for content in (b"{", b"[]", b'{"template_id": "unknown"}'):
        assert_refused(await guarded.http.post(EVENTS, content=content), 401, 54)


async def test_no_log_line_has_the_token(guarded: RunningGateway, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await guarded.http.post(EVENTS, json=BODY, params={"token": "secret-guess"})
        await guarded.http.post(EVENTS, json=BODY, params={"token": TOKEN})
        await guarded.http.post(EVENTS, content=b"{", params={"token": TOKEN})
        await guarded.http.get(f"{EVENTS}/summary", params={"token": TOKEN, "ym": "2026-13"})
    # httpx in this process logs its own requests.
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert any("401" in record.getMessage() for record in ours)
    written = "".join(f"{record.getMessage()} {vars(record)}" for record in ours)
    assert TOKEN not in written
    assert "secret-guess" not in written
    assert "token=" not in written


async def test_a_flood_of_wrong_tokens_is_one_row_with_a_count(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, workflow_event_token="t")) as gateway:
        for _ in range(200):
            assert (await gateway.http.post(EVENTS, json=BODY)).status_code == 401
        audit = gateway.inside.workflow_events.audit
        now = gateway.inside.timekeeper.now()
        await audit.run_due(now + 120)
        assert await audit.run_due(now + 120) is None
        month = await _summary_with_token(gateway, "t", now)
    rows = [row for row in month["recent"] if row["reason_class"] == "auth"]
    # One row for each minute that the flood has touched.
    assert len({row["at"][: len("2026-11-17T06:00")] for row in rows}) == len(rows)
    assert sum(row["count"] for row in rows) == 200
    row = rows[0]
    assert (row["status"], row["reason_code"], row["retry_advice"]) == (
        "rejected",
        "http_401",
        "retry_after_fix",
    )
    assert row["reason"] == "Invalid workflow event token."


async def test_the_number_of_wrong_tokens_is_written_at_an_orderly_stop(config: NatsBackendConfig) -> None:
    guarded = replace(config, workflow_event_token="t")
    async with running_gateway(guarded) as gateway:
        for _ in range(30):
            assert (await gateway.http.post(EVENTS, json=BODY)).status_code == 401
    async with running_gateway(guarded) as gateway:
        month = await _summary_with_token(gateway, "t", gateway.inside.timekeeper.now())
    assert sum(row["count"] for row in month["recent"] if row["reason_class"] == "auth") == 30


async def _summary_with_token(gateway: RunningGateway, token: str, now: float) -> dict[str, Any]:
    ym = f"{datetime.fromtimestamp(now, UTC):%Y-%m}"
    return await summary(gateway, ym, token=token)


async def test_with_api_keys_the_events_of_each_tenant_are_its_own(config: NatsBackendConfig) -> None:
    keyed = replace(config, workflow_event_token=TOKEN, workflow_event_tenant="acme")
    token = [(b"x-workflow-event-token", TOKEN.encode())]
    async with having_tenants(keyed, "acme", "rival", OPERATOR) as (acme, rival, operator):
        await put_action(acme)
        await save_template(acme, "t")
        # A sender without a key has the tenant of the setting.
        async with httpx.AsyncClient(base_url=acme.http.base_url, verify=False) as stranger:
            by_token = await stranger.post(EVENTS, json=BODY, headers=token)
            assert by_token.status_code == 200, by_token.text
            assert (await stranger.post(EVENTS, json=BODY)).status_code == 401
            assert (await stranger.get(f"{EVENTS}/summary?ym=2026-05")).status_code == 401
            assert (await stranger.get(f"{EVENTS}/summary?ym=2026-05", headers=token)).json()["total"] == 1
            # Templates and actions need a key.
            assert (await stranger.get(TEMPLATES, headers=token)).status_code == 401
            assert (await stranger.get(ACTIONS, headers=token)).status_code == 401
        run = await acme.get(by_token.json()["run_id"])
        assert run["tenant_id"] == "acme"
        # A key needs the token as well to send, and decides the tenant.
        assert (await acme.http.post(EVENTS, json=BODY)).status_code == 401
        assert (await acme.http.post(EVENTS, json=BODY, headers=token)).status_code == 200
        refused = await rival.http.post(EVENTS, json=BODY, headers=token)
        assert refused.json()["detail"] == "Workflow template not found."
        assert (await summary(acme, "2026-05"))["total"] == 2
        assert (await summary(rival, "2026-05"))["by_status"]["rejected"] == 1
        assert (await summary(operator, "2026-05"))["by_status"]["success"] == 2
        assert (await rival.http.get(f"{TEMPLATES}/t")).status_code == 404
        assert (await rival.http.get(TEMPLATES)).json()["total"] == 0


async def test_a_sender_with_a_token_does_not_change_the_webhook_of_the_installation(
    config: NatsBackendConfig,
) -> None:
    keyed = replace(config, workflow_event_token=TOKEN, google_chat_webhook_url=WEBHOOK)
    token = [(b"x-workflow-event-token", TOKEN.encode())]
    settings = f"{EVENTS}/notification-settings"
    async with having_tenants(keyed, "acme", OPERATOR) as (acme, operator):
        async with httpx.AsyncClient(base_url=acme.http.base_url, verify=False) as sender:
            for refused in (
                await sender.get(settings, headers=token),
                await sender.post(settings, json={"webhook_url": WEBHOOK}, headers=token),
                await sender.post(f"{settings}/test", headers=token),
            ):
                assert_refused(refused, 403, 32)
            month = (await sender.get(f"{EVENTS}/summary?ym=2026-05", headers=token)).json()
            assert (month["notification"]["configured"], month["notification"]["inherited"]) == (True, True)
            assert month["notification"]["webhook_url_masked"] == ""
        # A tenant does not see, and cannot use, what is not its own.
        inherited = (await acme.http.get(settings)).json()
        assert (inherited["configured"], inherited["inherited"], inherited["webhook_url_masked"]) == (
            True,
            True,
            "",
        )
        not_its_own = await acme.http.post(f"{settings}/test")
        assert_refused(not_its_own, 400, 69, "Google Chat webhook is not configured.")
        own = (await operator.http.get(settings)).json()
        assert (own["inherited"], own["source"]) == (False, "env")
        assert own["webhook_url_masked"].startswith("https://chat.googleapis.com/")


async def test_an_operator_opens_changes_and_deletes_templates_of_tenants(config: NatsBackendConfig) -> None:
    async with having_tenants(config, "acme", "rival", OPERATOR) as (acme, rival, operator):
        await put_action(acme)
        stored = await save_template(acme, "t")
        assert (await operator.http.get(f"{TEMPLATES}/t")).json() == stored
        assert (await operator.http.get(f"{ACTIONS}/close")).json()["tenant_id"] == "acme"
        tested = await operator.http.post(f"{TEMPLATES}/t/test", json=BODY)
        assert tested.json()["problem"] is None
        body = template("t", notes="by an operator", base_updated_at=stored["updated_at"])
        changed = (await operator.http.post(TEMPLATES, json=body)).json()["template"]
        assert (changed["tenant_id"], changed["notes"]) == ("acme", "by an operator")
        assert (await acme.http.get(f"{TEMPLATES}/t")).json() == changed
        await save_template(rival, "t")
        ambiguous = await operator.http.get(f"{TEMPLATES}/t")
        assert_refused(ambiguous, 409, 56, template_service.SEVERAL_TENANTS)
        await rival.http.delete(f"{TEMPLATES}/t")
        assert (await operator.http.delete(f"{TEMPLATES}/t")).status_code == 200
        assert (await acme.http.get(f"{TEMPLATES}/t")).status_code == 404


async def test_scopes_decide_who_reads_and_who_changes(config: NatsBackendConfig) -> None:
    async with having_tenants(config, "acme") as (owner,):
        await put_action(owner)
        await save_template(owner, "t")
        async with (
            a_key(owner, "acme", scopes=["events"]) as reader,
            a_key(owner, "acme", scopes=["submit"]) as sender,
            a_key(owner, "acme", scopes=["triggers"]) as editor,
        ):
            assert (await reader.http.get(TEMPLATES)).status_code == 200
            assert (await reader.http.get(f"{EVENTS}/summary?ym=2026-05")).status_code == 200
            assert (await reader.http.delete(f"{TEMPLATES}/t")).status_code == 403
            assert (await reader.http.post(f"{EVENTS}/retry-jobs/drain")).status_code == 403
            assert (await reader.http.post(EVENTS, json=BODY)).status_code == 403
            # Without a configured token, a key is what a sender needs.
            assert (await sender.http.post(EVENTS, json=BODY)).status_code == 200
            assert (await sender.http.get(TEMPLATES)).status_code == 403
            assert (await editor.http.post(f"{EVENTS}/retry-jobs/drain")).status_code == 200
            assert (await editor.http.delete(f"{TEMPLATES}/t")).status_code == 200
