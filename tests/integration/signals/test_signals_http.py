"""`POST /runs/{run_id}/signals/{name}`, `GET /runs/{run_id}/signals` and `POST /events` without a worker."""

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest

from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.mailbox_store import MailboxStore
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpClient
from pyoco_server.records.runs.run_models import RunStatus, WaitKind, new_run_id
from pyoco_server.records.waits.signal_models import Mailbox, Signal
from pyoco_server.signals.mailboxes import MAX_PENDING
from tests.support.broker.stored_runs import snapshot
from tests.support.running.gateway import RunningGateway
from tests.support.scrape import Scrape

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


async def stored_run(gateway: RunningGateway, **fields: Any) -> str:
    run = snapshot(**fields)
    await RunStore(gateway.inside.connection).create(run)
    return run.run_id


async def send(
    gateway: RunningGateway, run_id: str, name: str = "go", data: Any = None, **headers: str
) -> httpx.Response:
    path = f"/runs/{run_id}/signals/{name}"
    return await gateway.http.post(
        path, json=data, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


async def signals_of(gateway: RunningGateway, run_id: str) -> list[dict[str, Any]]:
    response = await gateway.http.get(f"/runs/{run_id}/signals")
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


@pytest.mark.parametrize("data", [None, 0, False, "", [], {}, "text", [1, None], {"a": {"b": 1.5}}])
async def test_any_json_is_the_data_of_a_signal(gateway: RunningGateway, data: Any) -> None:
    run_id = await stored_run(gateway)
    response = await gateway.http.post(f"/runs/{run_id}/signals/go", content=json.dumps(data))
    assert response.status_code == 202
    [listed] = await signals_of(gateway, run_id)
    assert (listed["data"], listed["state"], listed["wait_id"]) == (data, "pending", None)
    assert listed["signal_id"] == response.json()["signal_id"]
    assert listed["by"]["ip"] == "127.0.0.1"


async def test_no_body_is_null(gateway: RunningGateway) -> None:
    run_id = await stored_run(gateway)
    assert (await gateway.http.post(f"/runs/{run_id}/signals/go")).status_code == 202
    assert [each["data"] for each in await signals_of(gateway, run_id)] == [None]


async def test_a_key_sends_one_signal_however_often_it_is_used(gateway: RunningGateway) -> None:
    run_id = await stored_run(gateway)
    answers = await asyncio.gather(*(send(gateway, run_id, data=1, Idempotency_Key="k") for _ in range(8)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["signal_id"] for answer in answers}) == 1
    assert sorted("Idempotent-Replayed" in answer.headers for answer in answers) == [False] + 7 * [True]
    assert len(await signals_of(gateway, run_id)) == 1
    for other in (
        await send(gateway, run_id, data=2, Idempotency_Key="k"),
        await send(gateway, run_id, "x", 1, Idempotency_Key="k"),
    ):
        assert (other.status_code, other.json()["err_id"]) == (409, "ERR-PYOCO-0026")
    elsewhere = await stored_run(gateway)
    assert (await send(gateway, elsewhere, data=2, Idempotency_Key="k")).status_code == 202


async def test_fifty_senders_at_once_lose_nothing(gateway: RunningGateway) -> None:
    run_id = await stored_run(gateway)
    answers = await asyncio.gather(*(send(gateway, run_id, data=number) for number in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    listed = await signals_of(gateway, run_id)
    assert sorted(each["data"] for each in listed) == list(range(50))


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED", "CANCELLING"])
async def test_an_ended_run_takes_no_signal(gateway: RunningGateway, status: str) -> None:
    run_id = await stored_run(gateway)
    assert (await send(gateway, run_id, data=1, Idempotency_Key="k")).status_code == 202
    store = RunStore(gateway.inside.connection)
    stored = await store.get_from_leader(run_id)
    assert stored is not None
    stored.snapshot.status = RunStatus(status)
    await store.replace(stored.snapshot, revision=stored.revision)
    refused = await send(gateway, run_id)
    assert (refused.status_code, refused.json()["err_id"]) == (409, "ERR-PYOCO-0025")
    assert status in refused.json()["detail"]
    # The repetition of an earlier request is answered as that one.
    assert (await send(gateway, run_id, data=1, Idempotency_Key="k")).status_code == 202
    assert len(await signals_of(gateway, run_id)) == 1


async def test_an_unknown_run_is_404(gateway: RunningGateway) -> None:
    for run_id in (new_run_id(), "x", "*"):
        for response in (await send(gateway, run_id), await gateway.http.get(f"/runs/{run_id}/signals")):
            assert (response.status_code, response.json()["err_id"]) == (404, "ERR-PYOCO-0005")


@pytest.mark.parametrize("name", ["a b", "a..b", ".", "x" * 101, "a*", ">", "a%2Fb", "日本"])
async def test_an_invalid_name_is_422(gateway: RunningGateway, name: str) -> None:
    run_id = await stored_run(gateway)
    for response in (
        await gateway.http.post(f"/runs/{run_id}/signals/{name}"),
        await gateway.http.post("/events", json={"name": name.replace("%2F", "/")}),
    ):
        # A path with an encoded slash, or a dot alone, is another path.
        assert response.status_code in (422, 404, 405), response.text
        if response.status_code == 422:
            [problem] = response.json()["errors"]
            assert problem["field"] == "name"
            assert problem["message"].startswith("expected a name of 1 to 100 letters, digits")
    assert await signals_of(gateway, run_id) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"NaN", "not JSON"),
        (b"[" * 101 + b"]" * 101, "nested more than 100 deep"),
        (b"[" * 30_000 + b"]" * 30_000, "nested"),
        (b'"' + b"x" * 65_536 + b'"', "PYOCO_SIGNAL_MAX_BYTES"),
    ],
)
async def test_a_body_that_cannot_be_stored_is_422(
    gateway: RunningGateway, body: bytes, problem: str
) -> None:
    run_id = await stored_run(gateway)
    envelope = b'{"name":"go","data":' + body + b"}" + (b" " * 2000 if len(body) > 60_000 else b"")
    for path, content in ((f"/runs/{run_id}/signals/go", body), ("/events", envelope)):
        response = await gateway.http.post(path, content=content)
        assert response.status_code == 422, response.text
        assert problem in response.text
    assert await signals_of(gateway, run_id) == []


async def test_a_full_mailbox_is_409(gateway: RunningGateway) -> None:
    run_id = await stored_run(gateway)
    signals = [Signal(signal_id=str(number), name="go", at=1.0) for number in range(MAX_PENDING)]
    mailboxes = MailboxStore(gateway.inside.connection)
    await mailboxes.replace(Mailbox(run_id=run_id, signals=signals), revision=0)
    refused = await send(gateway, run_id)
    assert (refused.status_code, refused.json()["err_id"]) == (409, "ERR-PYOCO-0050")
    japanese = await send(gateway, run_id, Accept_Language="ja")
    assert "シグナルの上限" in japanese.text


async def test_an_event_is_accepted_once_per_id_and_name(gateway: RunningGateway) -> None:
    first = await gateway.http.post("/events", json={"name": "order.paid", "data": {"id": 1}, "id": "e-1"})
    again = await gateway.http.post("/events", json={"name": "order.paid", "data": {"id": 2}, "id": "e-1"})
    other = await gateway.http.post("/events", json={"name": "order.sent", "id": "e-1"})
    assert [each.status_code for each in (first, again, other)] == [202, 202, 202]
    assert first.json() == {"event_id": "e-1", "duplicate": False}
    assert again.json() == {"event_id": "e-1", "duplicate": True}
    assert other.json()["duplicate"] is False
    without = [(await gateway.http.post("/events", json={"name": "order.paid"})).json() for _ in range(2)]
    assert without[0]["event_id"] != without[1]["event_id"]
    assert not any(each["duplicate"] for each in without)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "x", "id": ""}, "id"),
        ({"name": "x", "id": "a b"}, "id"),
        ({"name": "x", "id": "y" * 256}, "id"),
        ({"name": 7}, "name"),
        ({"name": "x", "payload": 1}, "payload"),
    ],
)
async def test_an_invalid_event_is_422(gateway: RunningGateway, body: dict[str, Any], field: str) -> None:
    response = await gateway.http.post("/events", json=body)
    assert response.status_code == 422
    assert [problem["field"] for problem in response.json()["errors"]] == [field]


async def test_both_clients_send_signals_and_events(gateway: RunningGateway) -> None:
    run_id = await stored_run(gateway)
    url = str(gateway.http.base_url)

    def send_with_sync_client() -> list[str]:
        with PyocoHttpClient(url) as client:
            first = client.send_signal(run_id, "go", {"n": 1}, idempotency_key="k")["signal_id"]
            again = client.send_signal(run_id, "go", {"n": 1}, idempotency_key="k")["signal_id"]
            return [first, again, client.send_event("sync.sent", 1, event_id="e")["event_id"]]

    first, again, event_id = await asyncio.to_thread(send_with_sync_client)
    assert (again, event_id) == (first, "e")
    async with AsyncPyocoHttpClient(url) as client:
        second = (await client.send_signal(run_id, "go"))["signal_id"]
        listed = (await client.list_signals(run_id))["items"]
        assert [(each["signal_id"], each["data"]) for each in listed] == [(first, {"n": 1}), (second, None)]
        assert not (await client.send_event("async.sent"))["duplicate"]
        assert (await client.send_event("sync.sent", event_id="e"))["duplicate"]


async def test_signals_and_events_are_counted_and_logged_without_their_data(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await stored_run(gateway)
    counts = dict(gateway.inside.signals.sent)
    with caplog.at_level(logging.INFO, logger="pyoco_server.signals"):
        sent = (await send(gateway, run_id, data="the secret")).json()["signal_id"]
        await gateway.http.post("/events", json={"name": "x", "data": "the secret", "id": "e-log"})
    assert gateway.inside.signals.sent == {kind: count + 1 for kind, count in counts.items()}
    page = Scrape((await gateway.http.get("/metrics")).text)
    assert page.value("pyoco_signals_total", kind="signal") == counts[WaitKind.SIGNAL] + 1
    assert page.value("pyoco_signals_received_total", kind="event") is not None
    # The gateway is shared, and its sweep logs what it finds of other tests.
    of_signal, of_event = (each for each in caplog.records if each.name.startswith("pyoco_server.signals"))
    assert of_signal.getMessage() == f"signal go ({sent}) was sent by 127.0.0.1"
    assert vars(of_signal)["run_id"] == run_id
    assert of_event.getMessage() == "event x (e-log) was sent by 127.0.0.1"


async def test_a_mailbox_that_cannot_be_read_is_a_409_that_changes_nothing(gateway: RunningGateway) -> None:
    run_id = await stored_run(gateway)
    bucket = Bucket(gateway.inside.connection, gateway.inside.config.signals_kv_bucket)
    await bucket.create(run_id, b"not a mailbox")
    for response in (await send(gateway, run_id), await gateway.http.get(f"/runs/{run_id}/signals")):
        assert (response.status_code, response.json()["err_id"]) == (409, "ERR-PYOCO-0045")
