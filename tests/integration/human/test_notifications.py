"""Webhook notifications: delivery, retries, signatures and content."""

import asyncio
import logging
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_event_queue import NOTIFY_CONSUMER
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.notify.redelivery import backoff_sec
from pyoco_server.notify.webhook_client import WebhookClient, WebhookResult, headers_of, signing_key
from pyoco_server.notify.webhook_target import Target
from pyoco_server.records.waits.wait_models import Actor, Decision, WaitEventKind, WaitState
from pyoco_server.waits.human import notifications
from pyoco_server.waits.human.notifications import Notifier
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import signed
from tests.support.broker.stored_waits import waiting_run
from tests.support.places import DOCS
from tests.support.programs import SERVER, running
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.notifying import (
    KEY,
    all_delivered,
    event_of,
    has_consumer,
    notified,
    opened,
    running_notifier,
    wait_for_requests,
    wait_record,
)
from tests.support.waiting import eventually
from tests.support.webhooks import WebhookReceiver, WebhookRequest, webhook_receiver

HIDDEN = ("the-proposal", "the-payload", "the-default", "the-note", "the-schema", "10.9.8.7", "the-browser")


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as found:
        yield found


@pytest.fixture
def notifying(config: NatsBackendConfig, receiver: WebhookReceiver) -> NatsBackendConfig:
    return notified(config, receiver)


def verified(request: WebhookRequest, secret: str) -> bool:
    """The check of the guide: what it shows must work."""
    page = (DOCS / "human-in-the-loop.md").read_text(encoding="utf-8")
    [code] = [
        code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def is_genuine" in code
    ]
    shown: dict[str, Any] = {}
    exec(code, shown)
    return bool(shown["is_genuine"](request.headers, request.raw, secret))


async def test_an_opened_wait_is_notified_with_signature_and_link(
    notifying: NatsBackendConfig, receiver: WebhookReceiver
) -> None:
    wait = wait_record()
    async with running_notifier(notifying) as connection:
        event = await opened(connection, wait)
        [request] = await wait_for_requests(receiver)
        await all_delivered(connection)
    assert request.path == "/hooks/in"
    assert request.headers["content-type"] == "application/json"
    assert request.event_id == event.event_id
    assert verified(request, KEY)
    assert not verified(request, "another secret")
    assert not verified(WebhookRequest(request.path, request.headers, request.raw + b" "), KEY)
    assert not verified(
        WebhookRequest(request.path, {**request.headers, "webhook-timestamp": "1614265330"}, request.raw), KEY
    )
    assert request.body == {
        "event": {
            "id": event.event_id,
            "kind": "opened",
            "at": event.at,
            "by": None,
            "on_behalf_of": None,
            "decision": None,
        },
        "wait": {
            "wait_id": wait.wait_id,
            "task": "approve",
            "name": "human",
            "message": "Is 120 EUR right?",
            "assignees": ["ada"],
            "arming": 1,
            "created_at": wait.created_at,
            "deadline_at": wait.deadline_at,
            "state": "open",
            "decided_at": None,
        },
        "run": {"run_id": wait.run_id, "flow_name": "invoice", "tag": "default", "tenant_id": "acme"},
        "link": f"https://pyoco.example/#/waits/{wait.wait_id}",
    }


async def test_everything_but_a_refused_answer_is_notified_without_schema_proposal_or_answer(
    notifying: NatsBackendConfig, receiver: WebhookReceiver
) -> None:
    actor = Actor(tenant_id="acme", api_key_id="k1", name="Ada", ip="10.9.8.7", user_agent="the-browser")
    wait = wait_record(
        state=WaitState.ANSWERED,
        decided_at=time.time(),
        decided_by=actor,
        decision=Decision.EDITED,
        payload={"amount": "the-payload"},
        note="the-note",
    )
    async with running_notifier(notifying) as connection:
        await WaitStore(connection).create(wait)
        for kind in WaitEventKind:
            event = event_of(wait, kind, actor=actor, decision=Decision.EDITED)
            await WaitEventLog(connection).publish(event)
        requests = await wait_for_requests(receiver, len(WaitEventKind) - 1)
        await all_delivered(connection)
    assert {each.body["event"]["kind"] for each in requests} == {*WaitEventKind} - {"refused"}
    for request in requests:
        assert (request.body["event"]["by"], request.body["event"]["decision"]) == ("Ada", "edited")
        assert request.body["wait"]["state"] == "answered"
        assert not [word for word in HIDDEN if word.encode() in request.raw]


async def test_a_question_chooses_its_receiver_by_name(
    config: NatsBackendConfig, receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    """The default one gets what is for nobody in particular, or for a name that is not configured."""
    named: dict[str, Any] = {
        "notify_url": f"{receiver.url}/default",
        "notify_targets": f"finance={receiver.url}/finance,boss={receiver.url}/boss",
        "notify_target_secrets": "boss=a key of its own",
        "notify_flow_targets": "invoice-*=finance",
    }
    async with running_notifier(replace(config, notify_secret=KEY, **named)) as connection:
        waits = {
            "default": wait_record(),
            "finance": wait_record(notify="finance"),
            "by flow": wait_record(flow_name="invoice-eu"),
            "unknown": wait_record(notify="nobody"),
        }
        ids = {name: (await opened(connection, wait)).event_id for name, wait in waits.items()}
        above = wait_record(notify="finance", escalate_to="boss")
        await WaitStore(connection).create(above)
        escalated = event_of(above, WaitEventKind.ESCALATED)
        await WaitEventLog(connection).publish(escalated)
        requests = await wait_for_requests(receiver, 5)
        await all_delivered(connection)
    paths = {request.headers["webhook-id"]: request.path.rpartition("/")[2] for request in requests}
    assert {name: paths[event_id] for name, event_id in ids.items()} == {
        "default": "default",
        "finance": "finance",
        "by flow": "finance",
        "unknown": "default",
    }
    assert paths[escalated.event_id] == "boss"
    assert "PYOCO_NOTIFY_TARGETS has no receiver 'nobody'" in caplog.text
    [for_boss] = [each for each in requests if each.headers["webhook-id"] == escalated.event_id]
    sent_at = int(for_boss.headers["webhook-timestamp"])
    own = headers_of(escalated.event_id, for_boss.raw, b"a key of its own", sent_at)
    assert for_boss.headers["webhook-signature"] == own["webhook-signature"]


async def test_a_failed_notification_is_sent_again_with_its_id(
    notifying: NatsBackendConfig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "backoff_sec", lambda attempts: 0.01)
    receiver.statuses = [301, 307, 400, 429, 500]
    async with running_notifier(notifying) as connection:
        event = await opened(connection)
        requests = await wait_for_requests(receiver, 6)
        await all_delivered(connection)
    assert receiver.ids() == [event.event_id] * 6
    assert {each.path for each in requests} == {"/hooks/in"}, "a redirect was followed"
    assert len({each.raw for each in requests}) == 1
    assert all(verified(each, KEY) for each in requests)


def test_pauses_grow_up_to_a_limit() -> None:
    pauses = [backoff_sec(tries) for tries in (1, 2, 3, 4, 5, 1000)]
    assert all(2 ** (n - 1) / 2 <= pause <= 2 ** (n - 1) for n, pause in enumerate(pauses[:-1], 1))
    assert 300 <= pauses[-1] <= 600


async def test_a_timed_out_notification_is_sent_again(
    config: NatsBackendConfig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way: list[int] = [0]
    outcomes: list[WebhookResult] = []
    post = WebhookClient.post

    async def counted(
        self: WebhookClient, target: Target, event_id: str, body: bytes
    ) -> tuple[WebhookResult, str]:
        under_way.append(under_way[-1] + 1)
        outcome = await post(self, target, event_id, body)
        under_way.append(under_way[-1] - 1)
        outcomes.append(outcome[0])
        return outcome

    monkeypatch.setattr(WebhookClient, "post", counted)
    impatient = notified(config, receiver, notify_timeout_sec=0.5)
    receiver.responding.clear()
    async with running_notifier(impatient) as connection:
        event = await opened(connection)
        await eventually(lambda: len(receiver.requests) > 1, describe="it is sent again")
        receiver.responding.set()
        await all_delivered(connection)
    assert set(receiver.ids()) == {event.event_id}
    assert max(under_way) == 1, "two were under way at once"
    assert (outcomes[0], outcomes[-1]) == ("failed", "delivered")


async def test_status_410_ends_the_delivery(
    notifying: NatsBackendConfig, receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.statuses = [410]
    async with running_notifier(notifying) as connection:
        first = await opened(connection)
        await wait_for_requests(receiver)
        await all_delivered(connection)
        assert receiver.ids() == [first.event_id]
        second = await opened(connection)
        await wait_for_requests(receiver, 2)
        await all_delivered(connection)
    assert receiver.ids() == [first.event_id, second.event_id]
    [line] = given_up(caplog)
    assert "410" in line.getMessage()
    assert line.__dict__["run_id"] == first.run_id
    assert receiver.url not in caplog.text


def given_up(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [line for line in caplog.records if line.__dict__.get("err_id") == "ERR-PYOCO-0041"]


async def test_an_old_event_is_tried_once_and_then_given_up(
    notifying: NatsBackendConfig, receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.statuses = [503, 503]
    wait = wait_record()
    too_old = time.time() - notifying.notify_max_age_sec - 1
    async with running_notifier(notifying) as connection:
        await WaitStore(connection).create(wait)
        await WaitEventLog(connection).publish(event_of(wait, at=too_old))
        await wait_for_requests(receiver)
        await all_delivered(connection)
    assert len(receiver.requests) == 1
    assert "503" in given_up(caplog)[0].getMessage()


async def test_an_event_may_precede_its_wait(notifying: NatsBackendConfig, receiver: WebhookReceiver) -> None:
    wait = wait_record()
    async with running_notifier(notifying) as connection:
        await WaitEventLog(connection).publish(event_of(wait))

        async def looked_at() -> bool:
            stream = connection.config.wait_event_stream
            info = await jetstream_api.call(connection, f"CONSUMER.INFO.{stream}.{NOTIFY_CONSUMER}")
            return int(info["num_redelivered"]) > 0

        await eventually(looked_at, describe="it was looked at, and left for later")
        assert receiver.requests == []
        await WaitStore(connection).create(wait)
        await wait_for_requests(receiver)
        await all_delivered(connection)


async def test_an_event_whose_wait_is_gone_is_left_out(
    notifying: NatsBackendConfig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "_DELIVERIES_WITHOUT_WAIT", 2)
    async with running_notifier(notifying) as connection:
        await WaitEventLog(connection).publish(event_of(wait_record()))
        event = await opened(connection)
        await wait_for_requests(receiver)
        await all_delivered(connection)
    assert receiver.ids() == [event.event_id]


async def test_two_gateways_send_each_event_once(
    notifying: NatsBackendConfig, receiver: WebhookReceiver
) -> None:
    async with running_notifier(notifying) as connection, running_notifier(notifying):
        events = [await opened(connection) for _ in range(50)]
        await wait_for_requests(receiver, 50)
        await all_delivered(connection)
    assert sorted(receiver.ids()) == sorted(event.event_id for event in events)


async def test_a_receiver_that_hangs_holds_up_at_most_its_own_events(
    config: NatsBackendConfig, receiver: WebhookReceiver
) -> None:
    """Eight at once, so that one slow answer does not delay the others."""
    receiver.responding.clear()
    async with running_notifier(notified(config, receiver)) as connection:
        for _ in range(9):
            await opened(connection)
        await wait_for_requests(receiver, 8)
        receiver.responding.set()
        await wait_for_requests(receiver, 9)
        await all_delivered(connection)
    assert len(set(receiver.ids())) == 9


async def test_notifications_survive_a_restart_of_nats(
    config: NatsBackendConfig, receiver: WebhookReceiver, own_nats: NatsServer
) -> None:
    receiver.statuses = [500]
    # What NATS has forgotten by its end comes again 5 s after the one timeout, and a lost pull is repeated
    # 5 s after the other.
    restarted = replace(config, nats_url=own_nats.url, nats_request_timeout_sec=5.0)
    own = notified(restarted, receiver, notify_timeout_sec=2.0)
    async with running_notifier(own) as connection:
        first = await opened(connection)
        await wait_for_requests(receiver)
        own_nats.kill()
        own_nats.start()

        def is_back() -> bool:
            return connection.times_connected == 2 and connection.ready

        await eventually(is_back, describe="the connection is back")
        second = await opened(connection)
        both = {first.event_id, second.event_id}
        await eventually(lambda: set(receiver.ids()[1:]) == both, describe="both are sent after the restart")
        await all_delivered(connection)
    assert set(receiver.ids()) == both


async def test_without_a_receiver_the_consumer_is_deleted(
    config: NatsBackendConfig, notifying: NatsBackendConfig, receiver: WebhookReceiver
) -> None:
    async with running_notifier(notifying) as connection:
        receiver.statuses = [500] * 3
        await opened(connection)
        await wait_for_requests(receiver)
    async with connected(config) as connection:
        nobody = Notifier(connection)
        await nobody.start()

        async def is_gone() -> bool:
            return not await has_consumer(connection)

        await eventually(is_gone, describe="the consumer is gone")
        await nobody.close()
        await opened(connection)
    sent_before = len(receiver.requests)
    receiver.statuses = []
    async with running_notifier(notifying) as connection:
        event = await opened(connection)
        await wait_for_requests(receiver, sent_before + 1)
        await all_delivered(connection)
    assert receiver.ids()[sent_before:] == [event.event_id]


async def test_a_deleted_consumer_is_recreated(
    notifying: NatsBackendConfig, receiver: WebhookReceiver
) -> None:
    async with running_notifier(notifying) as connection:
        stream = connection.config.wait_event_stream
        await jetstream_api.call(connection, f"CONSUMER.DELETE.{stream}.{NOTIFY_CONSUMER}")
        # A pull that was lost with it is given up after more than 6 s.
        await eventually(lambda: has_consumer(connection), describe="it is there again")
        await opened(connection)
        await wait_for_requests(receiver)


async def test_an_event_is_redelivered_when_its_gateway_is_killed(
    config: NatsBackendConfig, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    settings = {
        "PYOCO_NOTIFY_URL": receiver.url,
        "PYOCO_NOTIFY_SECRET": KEY,
        # The event is taken for lost 5 s after this; before that, the first one is killed.
        "PYOCO_NOTIFY_TIMEOUT_SEC": "3",
    }
    command = ("up", "--port", "0", "--nats-url", config.nats_url)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    receiver.responding.clear()
    async with connected(config) as connection:
        with running(SERVER, *command, cwd=tmp_path / "a", **settings) as (first, _):
            await eventually(lambda: has_consumer(connection), describe="the consumer is there")
            event = await opened(connection)
            await eventually(lambda: receiver.requests, describe="the receiver has a request")
            first.send(signal.SIGKILL)
            first.end()
        sent_by_first = len(receiver.requests)
        receiver.responding.set()
        with running(SERVER, *command, cwd=tmp_path / "b", **settings) as (second, _):
            await eventually(lambda: len(receiver.requests) > sent_by_first, describe="the next one sends it")
            await all_delivered(connection)
            second.send(signal.SIGTERM)
            second.end()
        assert receiver.url not in second.stdout + second.stderr
    # The wait has no run, and is closed by the second one.
    sent = [each.body["event"] for each in receiver.requests if each.body["event"]["kind"] == "opened"]
    assert {each["id"] for each in sent} == {event.event_id}
    assert len(sent) > 1
    assert sent[0] == sent[-1]


async def opened_of_a_run(gateway: RunningGateway) -> None:
    """A gateway closes the waits of runs that do not exist, and notifies of that too."""
    run, [wait] = waiting_run()
    inside = gateway.inside
    await inside.runs.store.create(await signed(inside.connection, run))
    await opened(inside.connection, wait)


async def test_delivery_outcomes_are_counted(notifying: NatsBackendConfig, receiver: WebhookReceiver) -> None:
    receiver.statuses = [500, 204, 410]
    async with running_gateway(notifying) as gateway:
        connection = gateway.inside.connection
        await eventually(lambda: has_consumer(connection), describe="the consumer is there")
        await opened_of_a_run(gateway)
        await wait_for_requests(receiver, 2)
        await opened_of_a_run(gateway)
        await wait_for_requests(receiver, 3)
        await all_delivered(connection)
        page = (await gateway.http.get("/metrics")).text
    for outcome in ("delivered", "failed", "given_up"):
        assert f'pyoco_notifications_total{{outcome="{outcome}"}} 1.0' in page


async def test_without_a_secret_nothing_is_signed(
    config: NatsBackendConfig, receiver: WebhookReceiver
) -> None:
    async with running_notifier(replace(config, notify_url=receiver.url)) as connection:
        await opened(connection)
        [request] = await wait_for_requests(receiver)
    assert "webhook-signature" not in request.headers
    assert request.body["link"] is None


def test_the_signature_is_the_one_of_standard_webhooks() -> None:
    """The example of its specification."""
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = headers_of("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', key, 1614265330)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_that_only_looks_encoded_is_a_text() -> None:
    assert signing_key("whsec_not base64!") == b"whsec_not base64!"
    assert signing_key("whsec_é") == "whsec_é".encode()
    assert signing_key("plain") == b"plain"


async def test_nobody_there_is_a_failure_that_says_so(config: NatsBackendConfig) -> None:
    receiver = WebhookClient(config)
    outcome, why = await receiver.post(Target("http://127.0.0.1:9/secret-path"), "id", b"{}")
    await receiver.close()
    assert outcome == "failed"
    assert "ConnectError" in why
    assert "secret-path" not in why


async def test_a_receiver_that_sends_its_response_slowly_has_received(config: NatsBackendConfig) -> None:
    """Its status is known: to send the message again would be a duplicate."""
    ended = asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n.")
        await reader.read()
        writer.close()
        ended.set()

    async with await asyncio.start_server(respond, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        client = WebhookClient(config)
        assert await client.post(Target(f"http://127.0.0.1:{port}/"), "id", b"{}") == ("delivered", "")
        await client.close()
        await ended.wait()
