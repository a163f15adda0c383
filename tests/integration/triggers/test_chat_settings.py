"""Notification settings: none, of the environment, stored and cleared; the test message; nothing leaks."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server.broker.stores.keyed_records import KeyedRecords
from pyoco_server.config import NatsBackendConfig
from pyoco_server.notify.chat_webhook import ChatSender
from pyoco_server.records.triggers.trigger_models import chat_settings_key, decode_chat_settings
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.triggers.secret_keys import new_key
from pyoco_server.triggers.secret_rotation import SecretRotation
from pyoco_server.triggers.secrets_at_rest import SecretBox
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workflow_events import EVENTS, assert_refused, summary

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = f"{EVENTS}/notification-settings"
KEY = new_key()
OF_ENV = "https://chat.googleapis.com/v1/spaces/ENVspace99/messages?key=ENVkey-12345&token=ENVtoken-6789"
STORED = "https://chat.googleapis.com/v1/spaces/STOspace99/messages?key=STOkey-12345&token=STOtoken-6789"
MASKED = "https://chat.googleapis.com/v1/spaces/STOs...ce99/messages?key=STOk...2345&token=STOt...6789"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chatty(shared_config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    config = replace(shared_config, secrets_keys=KEY, google_chat_webhook_url=OF_ENV)
    async with running_gateway(config) as gateway:
        yield gateway


async def save(gateway: RunningGateway, url: Any) -> httpx.Response:
    return await gateway.http.post(SETTINGS, json={"webhook_url": url})


def answering(gateway: RunningGateway, *statuses: int) -> list[httpx.Request]:
    """Have Google Chat answer so; the requests that it got."""
    asked: list[httpx.Request] = []
    remaining = iter(statuses)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(next(remaining), text="a body with secrets")

    gateway.inside.workflow_events.notifications.sender = ChatSender(httpx.MockTransport(answer))
    return asked


async def test_stored_settings_replace_those_of_the_environment_until_they_are_cleared(
    chatty: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        of_env = (await chatty.http.get(SETTINGS)).json()
        assert (of_env["status"], of_env["configured"], of_env["source"]) == ("ok", True, "env")
        assert of_env["updated_at"] is None
        saved = (await save(chatty, f" {STORED} ")).json()
        assert saved == (await chatty.http.get(SETTINGS)).json()
        assert (saved["configured"], saved["source"], saved["webhook_url_masked"]) == (True, "file", MASKED)
        assert saved["updated_at"].endswith("Z")
        month = await summary(chatty, "2026-01")
        assert month["notification"] == saved
        cleared = (await save(chatty, "")).json()
        assert (cleared["configured"], cleared["source"]) == (True, "env")
    assert "STOkey" not in caplog.text
    assert "STOtoken" not in caplog.text


async def test_the_webhook_is_stored_encrypted_and_rotated_with_the_other_secrets(
    chatty: RunningGateway,
) -> None:
    await save(chatty, STORED)
    connection = chatty.inside.connection
    store = KeyedRecords(
        connection, connection.config.triggers_kv_bucket, RecordKind.CHAT_SETTINGS, decode_chat_settings
    )
    stored = await store.get_from_leader(chat_settings_key(None))
    assert stored is not None
    assert stored.record.webhook is not None
    assert "STO" not in stored.record.webhook
    newer = new_key()
    rotated = await SecretRotation(connection, SecretBox([newer, KEY])).run()
    assert (rotated.changed, rotated.failed) == (1, {})
    renewed = await store.get_from_leader(chat_settings_key(None))
    assert renewed is not None
    assert SecretBox([newer]).decrypt(renewed.record.webhook or "") == STORED
    # This gateway does not have the newer key: the summary shows that there is one.
    assert (await chatty.http.get(SETTINGS)).status_code == 503
    shown = (await summary(chatty, "2026-01"))["notification"]
    assert (shown["configured"], shown["source"], shown["webhook_url_masked"]) == (True, "file", "")
    assert (await save(chatty, "")).status_code == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://chat.googleapis.com/v1/spaces/a/messages?key=k&token=t",
        "https://example.com/v1/spaces/a/messages?key=k&token=t",
        "https://chat.googleapis.com/v1/spaces/a/messages?key=k",
        "nonsense",
    ],
)
async def test_another_address_is_refused_and_changes_nothing(chatty: RunningGateway, url: str) -> None:
    before = (await chatty.http.get(SETTINGS)).json()
    refused = await save(chatty, url)
    assert_refused(refused, 400, 69)
    assert url not in refused.text
    assert (await chatty.http.get(SETTINGS)).json() == before


@pytest.mark.parametrize("body", [{}, {"webhook_url": None}, {"webhook_url": 1}, {"other": ""}])
async def test_a_wrong_body_is_refused(chatty: RunningGateway, body: dict[str, Any]) -> None:
    assert (await chatty.http.post(SETTINGS, json=body)).status_code == 422


async def test_the_test_message_mirrors_what_google_chat_answers(chatty: RunningGateway) -> None:
    asked = answering(chatty, 200, 403, 500)
    sent = await chatty.http.post(f"{SETTINGS}/test")
    assert (sent.status_code, sent.json()) == (
        200,
        {"status": "ok", "sent": True, "http_status": 200, "message": "The message was sent."},
    )
    for status in (403, 500):
        refused = await chatty.http.post(f"{SETTINGS}/test")
        body = refused.json()
        assert (refused.status_code, body["status"], body["sent"], body["http_status"]) == (
            status,
            "error",
            False,
            status,
        )
        assert "secrets" not in refused.text
    assert [str(request.url) for request in asked] == [OF_ENV] * 3


async def test_a_network_error_is_a_502(chatty: RunningGateway) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    chatty.inside.workflow_events.notifications.sender = ChatSender(httpx.MockTransport(fail))
    failed = await chatty.http.post(f"{SETTINGS}/test")
    assert (failed.status_code, failed.json()["http_status"], failed.json()["sent"]) == (502, 502, False)


async def test_without_settings_the_test_is_refused_and_audited(own_gateway: RunningGateway) -> None:
    none = (await own_gateway.http.get(SETTINGS)).json()
    assert none == {
        "status": "ok",
        "configured": False,
        "webhook_url_masked": "",
        "source": "none",
        "updated_at": None,
        "inherited": False,
    }
    refused = await own_gateway.http.post(f"{SETTINGS}/test")
    assert_refused(refused, 400, 69, "Google Chat webhook is not configured.")
    # Without a key of the installation nothing is stored in the clear.
    assert_refused(await save(own_gateway, STORED), 409, 64)
    # Not an event: it is in no summary.
    assert own_gateway.inside.workflow_events.notifications.outcomes["skipped"] == 1
