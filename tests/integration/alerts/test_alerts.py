"""Alerts at a gateway: conditions that are met, messages to real receivers, mutes, tests and history."""

import base64
import hmac
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.notify.webhook_client import signing_key
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.triggers.secret_keys import new_key
from pyoco_server.triggers.secret_rotation import SecretRotation
from pyoco_server.triggers.secrets_at_rest import SecretBox
from tests.integration.alerts.alerting import FAST, fail, history, is_delivered, received, save, webhook
from tests.integration.alerts.smtp_server import PASSWORD, USER, MailServer, mail_server
from tests.support.broker.stored_runs import ended, snapshot, write
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.hook_senders import SECRETS_KEY
from tests.support.waiting import eventually
from tests.support.webhooks import WebhookReceiver, webhook_receiver

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mail() -> AsyncIterator[MailServer]:
    async with mail_server() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alerting(shared_config: NatsBackendConfig, mail: MailServer) -> AsyncIterator[RunningGateway]:
    config = replace(
        shared_config,
        secrets_keys=SECRETS_KEY,
        public_url="https://pyoco.example",
        smtp_host="127.0.0.1",
        smtp_port=mail.port,
        smtp_security="none",
        smtp_user=USER,
        smtp_password=PASSWORD,
        smtp_from="pyoco@example.com",
        **FAST,
    )
    async with running_gateway(config) as running:
        yield running


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as found:
        yield found


@pytest.fixture
def name() -> str:
    """Of an alert, a flow and a tag of this test."""
    return f"t{uuid4().hex[:8]}"


async def test_each_failure_is_sent_once_as_a_signed_webhook(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    channel = webhook(receiver, secret="a-long-secret")
    await save(alerting, name, condition="run_failed", flow_name=name, channels=[channel], cool_down_sec=0)
    [first] = await fail(alerting, name)
    [request] = await received(receiver, 1)
    body = request.body
    assert body["event"]["kind"] == "fired"
    assert body["alert"]["alert_id"] == name
    assert body["occurrence"]["run_ids"] == [first]
    assert f"https://pyoco.example/#/runs/{first}" in body["text"]
    at = request.headers["webhook-timestamp"]
    signed = f"{request.event_id}.{at}.".encode() + request.raw
    mac = base64.b64encode(hmac.digest(signing_key("a-long-secret"), signed, "sha256")).decode()
    assert request.headers["webhook-signature"] == f"v1,{mac}"
    await is_delivered(alerting, name)
    [second] = await fail(alerting, name)
    requests = await received(receiver, 2)
    assert requests[1].body["occurrence"]["run_ids"] == [second]
    assert requests[0].event_id != requests[1].event_id


async def test_failures_within_the_cool_down_are_one_message(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    await save(
        alerting,
        name,
        condition="run_failed",
        flow_name=f"{name}-*",
        channels=[webhook(receiver)],
        cool_down_sec=1,
    )
    await fail(alerting, f"{name}-a")
    await received(receiver, 1)
    await fail(alerting, f"{name}-a", 3)
    await fail(alerting, f"{name}-b")
    await fail(alerting, "another")
    requests = await received(receiver, 2)
    assert requests[1].body["occurrence"]["value"] == 4
    assert sorted(requests[1].body["occurrence"]["flows"]) == [f"{name}-a", f"{name}-b"]


async def test_failures_before_the_alert_are_not_reported(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    await write(alerting.inside.runs.store, ended(RunStatus.FAILED, at=time.time() - 60, flow_name=name))
    await save(alerting, name, condition="run_failed", flow_name=name, channels=[webhook(receiver)])
    [after] = await fail(alerting, name)
    [request] = await received(receiver, 1)
    assert request.body["occurrence"]["run_ids"] == [after]


async def test_many_failures_fire_and_a_longer_limit_resolves(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    rule = {"condition": "failures", "flow_name": name, "window_sec": 60}
    await save(alerting, name, **rule, count=3, channels=[webhook(receiver)])
    await fail(alerting, name, 2)
    assert (await alerting.http.post("/alerts/check", json={**rule, "count": 3})).json()["met"] is False
    assert await history(alerting, name) == []
    await fail(alerting, name)
    await is_delivered(alerting, name)
    listed = (await alerting.http.get("/alerts", params={"q": name})).json()
    assert (listed["total"], listed["firing"], listed["items"][0]["firing"]) == (1, 1, True)
    assert [each.body["event"]["kind"] for each in receiver.requests] == ["fired"]


async def test_a_failure_rate_fires_when_enough_runs_have_ended(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    rule = {"condition": "failure_rate", "flow_name": name, "percent": 50, "min_runs": 4}
    await fail(alerting, name, 2)
    checked = (await alerting.http.post("/alerts/check", json=rule)).json()
    assert checked["met"] is False
    await write(
        alerting.inside.runs.store,
        *(ended(RunStatus.COMPLETED, at=time.time(), flow_name=name) for _ in range(2)),
    )
    await save(alerting, name, **rule, channels=[webhook(receiver)])
    found = await is_delivered(alerting, name)
    assert (found["facts"]["value"], found["facts"]["runs"]) == (50, 4)


async def test_an_old_queued_run_fires_and_its_start_resolves(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    store = alerting.inside.runs.store
    queued = snapshot(tag=name, updated_at=time.time() - 100)
    revision = await store.create(queued)
    await save(
        alerting,
        name,
        condition="queue_age",
        tag=name,
        after_sec=60,
        channels=[webhook(receiver)],
        language="ja",
    )
    fired = await is_delivered(alerting, name)
    assert fired["facts"]["queued"] == 1
    assert fired["text"].startswith("The oldest queued run")
    shown = await alerting.http.get(f"/alerts/{name}", headers={"Accept-Language": "ja"})
    assert "キュー" in shown.json()["last"]["text"]
    assert "キュー" in receiver.requests[0].body["text"]
    started = replace_status(queued, RunStatus.RUNNING)
    await store.replace(started, revision=revision)
    resolved = await is_delivered(alerting, name, phase="resolved")
    assert resolved["resolved_at"] is not None
    assert [each.body["event"]["kind"] for each in receiver.requests] == ["fired", "resolved"]
    first, second = (each.event_id.rpartition(".")[0] for each in receiver.requests)
    assert first == second


def replace_status(run: Any, status: RunStatus) -> Any:
    return type(run)(**{name: getattr(run, name) for name in run.__struct_fields__} | {"status": status})


async def test_a_tag_without_workers_fires_and_a_worker_resolves(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    connection = alerting.inside.connection
    now = time.time()
    await put_record(connection, a_record(name, seen_at=now - 5000, tags=[name]))
    await save(alerting, name, condition="no_worker", tag=name, after_sec=3600, channels=[webhook(receiver)])
    await is_delivered(alerting, name)
    await put_record(connection, a_record(name, seen_at=now + 600, tags=[name]))
    await is_delivered(alerting, name, phase="resolved")


async def test_a_tag_without_workers_is_resolved_when_its_queued_runs_are_cancelled(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    queued = snapshot(tag=name, updated_at=time.time() - 5000)
    await write(alerting.inside.runs.store, queued)
    await save(alerting, name, condition="no_worker", tag=name, after_sec=3600, channels=[webhook(receiver)])
    fired = await is_delivered(alerting, name)
    assert (fired["facts"]["queued"], fired["facts"]["only_queued"]) == (1, True)
    assert (await alerting.http.post(f"/runs/{queued.run_id}/cancel")).status_code == 200
    await is_delivered(alerting, name, phase="resolved")
    assert "nothing is queued for it" in receiver.requests[1].body["text"]


async def test_a_tag_that_nobody_knows_is_no_reason_to_fire(alerting: RunningGateway, name: str) -> None:
    rule = {"condition": "no_worker", "tag": name, "after_sec": 1}
    assert (await alerting.http.post("/alerts/check", json=rule)).json()["met"] is False


async def test_a_message_is_sent_again_until_it_is_accepted(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    receiver.statuses += [500, 302]
    await save(alerting, name, condition="run_failed", flow_name=name, channels=[webhook(receiver)])
    await fail(alerting, name)
    found = await is_delivered(alerting, name)
    assert found["fired"][0]["attempts"] == 3
    assert len(set(receiver.ids())) == 1
    assert {each.path for each in receiver.requests} == {"/hooks/in"}


async def test_a_receiver_that_is_gone_gets_no_more_of_it(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    receiver.statuses += [410]
    await save(alerting, name, condition="run_failed", flow_name=name, channels=[webhook(receiver)])
    await fail(alerting, name)

    async def failed() -> dict[str, Any] | None:
        found = await history(alerting, name)
        return found[0] if found and found[0]["fired"][0]["state"] == "failed" else None

    found = await eventually(failed, describe="the message has failed")
    assert found["fired"][0]["error"] == "the receiver answered with 410"


async def test_a_muted_alert_sends_nothing_until_it_is_unmuted(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    await save(alerting, name, condition="failures", flow_name=name, count=1, channels=[webhook(receiver)])
    muted = (await alerting.http.post(f"/alerts/{name}/mute", json={"for_sec": 600, "note": "a move"})).json()
    assert (muted["mute"]["note"], muted["mute"]["until"] > time.time()) == ("a move", True)
    await fail(alerting, name)

    async def fired() -> list[dict[str, Any]]:
        return await history(alerting, name)

    [occurrence] = await eventually(fired, describe="it has fired")
    assert occurrence["fired"][0]["state"] == "muted"
    assert receiver.requests == []
    unmuted = (await alerting.http.post(f"/alerts/{name}/unmute")).json()
    assert unmuted["mute"] is None
    await is_delivered(alerting, name)
    assert len(receiver.requests) == 1


async def test_slack_and_mail_get_the_message_as_text(
    alerting: RunningGateway, receiver: WebhookReceiver, mail: MailServer, name: str
) -> None:
    channels = [
        webhook(receiver, name="team", kind="slack"),
        {"name": "mail", "kind": "mail", "to": ["ops@example.com", "boss@example.com"]},
    ]
    await save(alerting, name, condition="run_failed", flow_name=name, channels=channels, language="ja")
    [run_id] = await fail(alerting, name)
    await is_delivered(alerting, name)
    [request] = receiver.requests
    assert list(request.body) == ["text"]
    assert request.body["text"].startswith(f"*アラート: {name} の run が1件失敗しました*")
    [message] = [each for each in mail.messages if name in str(each["subject"])]
    assert message["subject"] == f"アラート: {name} の run が1件失敗しました"
    assert (message["from"], message["to"]) == ("pyoco@example.com", "ops@example.com, boss@example.com")
    assert message["message-id"] == f"<{request.event_id}@pyoco-server>"
    assert run_id in message.get_content()
    assert PASSWORD not in message.as_string()


async def test_a_test_message_is_sent_at_once_and_says_what_became_of_it(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    receiver.statuses += [403]
    channels = [webhook(receiver), {"name": "mail", "kind": "mail", "to": ["ops@example.com"]}]
    await save(alerting, name, condition="run_failed", flow_name=name, channels=channels)
    tested = (await alerting.http.post(f"/alerts/{name}/test")).json()["channels"]
    assert tested == [
        {"channel": "ops", "ok": False, "error": "the receiver answered with 403"},
        {"channel": "mail", "ok": True, "error": ""},
    ]
    assert receiver.requests[0].body["event"]["kind"] == "test"
    again = (await alerting.http.post(f"/alerts/{name}/test", json={"channel": "ops"})).json()["channels"]
    assert [each["ok"] for each in again] == [True]
    assert len(set(receiver.ids())) == 2
    unknown = await alerting.http.post(f"/alerts/{name}/test", json={"channel": "none"})
    assert unknown.status_code == 422
    assert await history(alerting, name) == []


async def test_a_url_is_never_shown_and_stays_when_it_is_left_out(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret = f"{receiver.url}/very-secret-token"
    receiver.statuses += [500]
    saved = await save(
        alerting, name, condition="run_failed", flow_name=name, channels=[webhook(receiver, url=secret)]
    )
    [channel] = saved["channels"]
    assert (channel["host"], len(channel["fingerprint"])) == ("127.0.0.1", 12)
    assert "url" not in channel
    await fail(alerting, name)
    again = await save(
        alerting,
        name,
        condition="run_failed",
        flow_name=name,
        channels=[{"name": "ops", "kind": "webhook"}],
        note="changed",
    )
    assert again["channels"] == saved["channels"]
    await is_delivered(alerting, name)
    shown = [
        (await alerting.http.get(path)).text
        for path in ("/alerts", f"/alerts/{name}", f"/alerts/{name}/history")
    ]
    refused = await alerting.http.put(
        f"/alerts/{name}",
        json={
            "condition": "run_failed",
            "flow_name": name,
            "channels": [{"kind": "slack", "url": secret, "name": 1}],
        },
    )
    text = await alerting.http.put(
        f"/alerts/{name}", json={"condition": "run_failed", "flow_name": name, "channels": secret}
    )
    assert (refused.status_code, text.status_code) == (422, 422)
    for each in (*shown, refused.text, text.text, caplog.text):
        assert "very-secret-token" not in each


async def test_urls_are_encrypted_again_with_a_new_key(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    await save(
        alerting, name, condition="run_failed", flow_name=name, channels=[webhook(receiver, secret="key")]
    )
    connection, newer = alerting.inside.connection, new_key()
    done = await SecretRotation(connection, SecretBox([newer, SECRETS_KEY])).run()
    assert (done.changed >= 2, done.failed) == (True, {})
    unreadable = (await alerting.http.post(f"/alerts/{name}/test")).json()["channels"]
    assert "cannot be decrypted" in unreadable[0]["error"]
    await SecretRotation(connection, SecretBox([SECRETS_KEY, newer])).run()
    assert (await alerting.http.post(f"/alerts/{name}/test")).json()["channels"][0]["ok"] is True


async def test_a_refused_alert_stores_nothing(alerting: RunningGateway, name: str) -> None:
    body = {
        "condition": "failures",
        "flow_name": name,
        "tag": "gpu",
        "channels": [{"name": "ops", "kind": "webhook", "url": "http://10.0.0.1/x"}],
    }
    refused = await alerting.http.put(f"/alerts/{name}", json=body)
    assert refused.status_code == 422
    assert {each["field"] for each in refused.json()["errors"]} >= {"tag", "count"}
    private = {**body, "tag": None, "count": 1}
    blocked = await alerting.http.put(f"/alerts/{name}", json=private)
    assert blocked.status_code == 422
    assert "PYOCO_ALERT_NETWORKS" in blocked.text
    assert (await alerting.http.get(f"/alerts/{name}")).status_code == 404
    assert (await alerting.http.put("/alerts/a.b", json=private)).status_code == 422


async def test_a_change_since_it_was_read_is_a_conflict(
    alerting: RunningGateway, receiver: WebhookReceiver, name: str
) -> None:
    body = {"condition": "run_failed", "flow_name": name, "channels": [webhook(receiver)]}
    saved = await save(alerting, name, **body)
    same = await save(alerting, name, **body)
    assert same["revision"] == saved["revision"]
    await save(alerting, name, **body, note="changed")
    stale = await alerting.http.put(f"/alerts/{name}", json={**body, "revision": saved["revision"]})
    assert stale.status_code == 409
    deleted = await alerting.http.delete(f"/alerts/{name}", params={"revision": saved["revision"]})
    assert deleted.status_code == 409
    assert (await alerting.http.delete(f"/alerts/{name}")).status_code == 200
    assert (await alerting.http.get(f"/alerts/{name}")).status_code == 404
