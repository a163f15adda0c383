"""Hooks over HTTP: a delivery of each kind starts one run, and what must not start one does not."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidRequest, NatsUnavailable
from pyoco_server.records.runs.run_models import Job
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from pyoco_server.triggers import overlap_slots
from pyoco_server.triggers.hooks import hook_service
from pyoco_server.triggers.workflow_events import action_service
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.hook_senders import SECRETS_KEY, HookSender, a_hook
from tests.support.scrape import Scrape

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIGNED = ["token", "github", "stripe", "standard-webhooks", "hmac"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(shared_config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    config = replace(shared_config, secrets_keys=SECRETS_KEY, hook_body_max_bytes=100_000)
    async with running_gateway(config) as running:
        yield running


async def runs_of(gateway: RunningGateway, hook_id: str) -> list[dict[str, Any]]:
    response = await gateway.http.get("/runs", params={"cause": f"event:hook:{hook_id}"})
    assert response.status_code == 200, response.text
    runs: list[dict[str, Any]] = response.json()
    return runs


@pytest.mark.parametrize("kind", SIGNED)
async def test_a_delivery_starts_a_run_and_its_repetition_does_not(
    gateway: RunningGateway, kind: str
) -> None:
    hook = await a_hook(gateway.http, kind, map={"who": "/who", "id": "/id"}, params={"fixed": 1})
    body = {"id": "evt_1", "who": "ann"}
    first = await hook.send(body, "d1")
    assert first.status_code == 202
    run_id = first.json()["run_id"]
    assert first.json() == {"run_id": run_id, "duplicate": False}
    again = await hook.send(body, "d1")
    assert (again.status_code, again.json()) == (202, {"run_id": run_id, "duplicate": True})
    run = await gateway.get(run_id)
    assert run["params"] == {"who": "ann", "id": "evt_1", "fixed": 1}
    assert run["cause"] == {"kind": "event", "id": f"hook:{hook.hook_id}"}
    other = await hook.send({"id": "evt_2", "who": "bob"}, "d2")
    assert other.json()["run_id"] != run_id
    assert len(await runs_of(gateway, hook.hook_id)) == 2


@pytest.mark.parametrize("kind", SIGNED)
async def test_a_wrong_proof_and_an_unknown_hook_have_the_same_answer(
    gateway: RunningGateway, kind: str
) -> None:
    hook = await a_hook(gateway.http, kind)
    wrong = replace(hook, secret="whsec_d3JvbmcgYnV0IGxvbmcgZW5vdWdo")
    nowhere = replace(hook, hook_id="nobody-has-this")
    answers = [
        await wrong.send(),
        await nowhere.send(),
        await gateway.http.post(f"/hooks/{hook.hook_id}"),
        await gateway.http.post("/hooks/nobody-has-this"),
    ]
    bodies = [{**answer.json(), "instance": ""} for answer in answers]
    assert [answer.status_code for answer in answers] == [401] * 4
    assert bodies[0] == bodies[1] == bodies[2] == bodies[3]
    assert bodies[0]["err_id"] == "ERR-PYOCO-0062"
    assert await runs_of(gateway, hook.hook_id) == []
    # The sender is not told; those who may read the hook are.
    [refused] = await hook.deliveries(1)
    assert (refused["status"], refused["reason"], refused["count"]) == ("refused", "wrong_proof", 1)


async def test_only_the_number_of_refusals_is_kept(
    gateway: RunningGateway,
) -> None:
    hook = await a_hook(gateway.http)
    good = await hook.started()
    for _ in range(30):
        await replace(hook, secret="wrong secret").send({"junk": "x" * 1000})
    kept = await hook.deliveries(2)
    assert [(each["status"], each["run_id"]) for each in kept] == [("refused", None), ("started", good)]
    one = await gateway.http.get(f"/hooks/{hook.hook_id}/deliveries/{kept[0]['delivery_id']}")
    assert (one.json()["body"], one.json()["headers"]) == (None, {})
    again = await gateway.http.post(f"/hooks/{hook.hook_id}/deliveries/{kept[0]['delivery_id']}/redeliver")
    assert (again.status_code, again.json()["err_id"]) == (409, "ERR-PYOCO-0067")


async def test_a_second_body_under_the_same_signature_is_refused(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, "github")
    headers = hook.headers(b'{"amount": 1}', "d1")
    path = f"/hooks/{hook.hook_id}"
    assert (await gateway.http.post(path, content=b'{"amount": 1}', headers=headers)).status_code == 202
    assert (await gateway.http.post(path, content=b'{"amount": 2}', headers=headers)).status_code == 401


async def test_the_same_key_with_another_body_is_a_duplicate(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, "github")
    run_id = await hook.started({"a": 1}, "d1")
    assert (await hook.send({"a": 2}, "d1")).json() == {"run_id": run_id, "duplicate": True}


async def test_only_if_and_the_ping_of_github_start_nothing(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, "github", only_if={"/action": "opened"})
    closed = await hook.send({"action": "closed"})
    assert (closed.status_code, closed.json()) == (
        200,
        {"run_id": None, "duplicate": False, "reason": "only_if"},
    )
    ping = await hook.send({"zen": "x"}, headers={"x-github-event": "ping"})
    assert (ping.status_code, ping.json()["reason"]) == (200, "ping")
    assert (await hook.send({"action": "opened"})).status_code == 202
    kept = await hook.deliveries(3)
    assert sorted(each["status"] for each in kept) == ["ignored", "ignored", "started"]


async def test_overlapping_deliveries_are_skipped_or_rejected(gateway: RunningGateway) -> None:
    """No worker executes the runs: the first one stays open until it is cancelled."""
    skipping = await a_hook(gateway.http, overlap="skip")
    first = await skipping.started(delivery_id="d1")
    second = await skipping.send(delivery_id="d2")
    assert (second.status_code, second.json()) == (
        200,
        {"run_id": None, "duplicate": False, "reason": "overlap"},
    )
    assert (await skipping.send(delivery_id="d1")).json() == {"run_id": first, "duplicate": True}
    rejecting = await a_hook(gateway.http, overlap="reject")
    first = await rejecting.started(delivery_id="d1")
    busy = await rejecting.send(delivery_id="d2")
    assert (busy.status_code, busy.json()["err_id"]) == (409, "ERR-PYOCO-0063")
    assert first in busy.json()["detail"]
    await gateway.http.post(f"/runs/{first}/cancel")
    await gateway.reaches(first, "CANCELLED")
    # The sender repeats it, and now it starts.
    assert (await rejecting.send(delivery_id="d2")).status_code == 202


async def send_without_key(hook: HookSender) -> httpx.Response:
    return await hook.http.post(f"/hooks/{hook.hook_id}", json={}, headers={"x-hook-token": hook.secret})


@pytest.mark.parametrize("overlap", ["skip", "reject"])
async def test_a_delivery_whose_run_is_refused_does_not_hold_up_the_next(
    gateway: RunningGateway, overlap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = await a_hook(gateway.http, overlap=overlap)

    async def refuse(_: DurableStarter, job: Job) -> None:
        raise InvalidRequest(f"{job.run_id} is refused")

    with monkeypatch.context() as patch:
        patch.setattr(DurableStarter, "ensure_run", refuse)
        assert (await send_without_key(hook)).status_code == 422
    assert (await send_without_key(hook)).status_code == 202


async def test_a_delivery_is_not_skipped_for_a_run_that_could_not_be_stored(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlap_slots, "MAX_LOOKS", 2)
    hook = await a_hook(gateway.http, overlap="skip")

    async def fail(_: DurableStarter, job: Job) -> None:
        raise NatsUnavailable(f"whether {job.run_id} is stored is not known")

    with monkeypatch.context() as patch:
        patch.setattr(DurableStarter, "ensure_run", fail)
        assert (await send_without_key(hook)).status_code == 503
    assert (await send_without_key(hook)).status_code == 503
    assert await runs_of(gateway, hook.hook_id) == []


async def test_a_delivery_that_cannot_be_mapped_is_refused_and_kept(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, idempotency="/order/id")
    missing = await hook.send({"order": {}})
    assert missing.status_code == 422
    assert "/order/id" in missing.json()["errors"][0]["message"]
    proof = hook.headers(b"{", "d")
    broken = await gateway.http.post(f"/hooks/{hook.hook_id}", content=b"{", headers=proof)
    assert broken.status_code == 422
    kept = await hook.deliveries(2, status="refused")
    assert {each["reason"] for each in kept} == {"invalid"}
    assert await runs_of(gateway, hook.hook_id) == []


async def test_a_body_is_limited_while_it_is_read(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http)
    large = await hook.send({"x": "y" * 200_000})
    assert (large.status_code, large.json()["err_id"]) == (413, "ERR-PYOCO-0002")
    assert "PYOCO_HOOK_BODY_MAX_BYTES" in large.json()["detail"]
    # Also before anything is known about the sender.
    unknown = await gateway.http.post("/hooks/nobody-has-this", content=b"x" * 200_000)
    assert unknown.status_code == 413


async def test_a_kept_delivery_has_no_secrets(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, map={"env": "query:env", "who": "/who"})
    response = await gateway.http.post(
        f"/hooks/{hook.hook_id}",
        params={"token": hook.secret, "env": "test"},
        json={"who": "日本"},
        headers={"Authorization": "Bearer x", "X-API-Key": "k", "Cookie": "c=1", "X-Thing": "seen"},
    )
    assert response.status_code == 202
    [item] = await hook.deliveries(1)
    shown = await gateway.http.get(f"/hooks/{hook.hook_id}/deliveries/{item['delivery_id']}")
    delivery = shown.json()
    assert hook.secret not in shown.text
    assert delivery["query"] == {"token": "[redacted]", "env": "test"}
    redacted = {name for name, value in delivery["headers"].items() if value == "[redacted]"}
    assert redacted == {"authorization", "x-api-key", "cookie"}
    assert delivery["headers"]["x-thing"] == "seen"
    assert (delivery["body"], delivery["body_is_base64"]) == ('{"who":"日本"}', False)
    assert delivery["params"] == {"env": "test", "who": "日本"}
    assert delivery["answer"] == response.text
    assert (delivery["status"], delivery["http_status"]) == ("started", 202)


async def test_a_kept_delivery_can_be_processed_again(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, "github", map={"n": "/n"})
    run_id = await hook.started({"n": 1}, "d1")
    [item] = await hook.deliveries(1)
    path = f"/hooks/{hook.hook_id}/deliveries/{item['delivery_id']}/redeliver"
    same = await gateway.http.post(path)
    assert same.json() == {"run_id": run_id, "duplicate": True, "status": "duplicate"}
    keyed = {"Idempotency-Key": "again"}
    new = await gateway.http.post(path, json={"new_run": True}, headers=keyed)
    assert new.json()["status"] == "started"
    assert new.json()["run_id"] != run_id
    repeated = await gateway.http.post(path, json={"new_run": True}, headers=keyed)
    assert repeated.json() == {"run_id": new.json()["run_id"], "duplicate": True, "status": "duplicate"}
    assert (await gateway.get(new.json()["run_id"]))["params"] == {"n": 1}
    kept = await hook.deliveries(3)
    assert {each["redelivery_of"] for each in kept} == {None, item["delivery_id"]}


async def test_a_delivery_whose_source_is_not_kept_is_not_processed_again(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, map={"t": "header:X-My-Token"})
    headers = {"X-Hook-Token": hook.secret, "X-My-Token": "t"}
    sent = await gateway.http.post(f"/hooks/{hook.hook_id}", json={}, headers=headers)
    assert sent.status_code == 202
    [kept] = await hook.deliveries(1)
    path = f"/hooks/{hook.hook_id}/deliveries/{kept['delivery_id']}/redeliver"
    refused = await gateway.http.post(path, json={"new_run": True})
    assert (refused.status_code, refused.json()["err_id"]) == (409, "ERR-PYOCO-0067")
    assert "header:x-my-token" in refused.json()["detail"]


async def test_an_ignored_delivery_starts_its_run_once_the_hook_wants_it(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, only_if={"/action": "opened"})
    await hook.send({"action": "closed"})
    [item] = await hook.deliveries(1)
    path = f"/hooks/{hook.hook_id}/deliveries/{item['delivery_id']}/redeliver"
    assert (await gateway.http.post(path)).json()["status"] == "ignored"
    patched = await gateway.http.patch(f"/hooks/{hook.hook_id}", json={"only_if": {}})
    assert patched.status_code == 200
    first = await gateway.http.post(path)
    assert first.json()["status"] == "started"
    assert (await gateway.http.post(path)).json()["run_id"] == first.json()["run_id"]
    assert len(await runs_of(gateway, hook.hook_id)) == 1


async def test_two_secrets_are_valid_until_the_rotation_is_finished(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, "github")
    path = f"/hooks/{hook.hook_id}/rotate"
    made = (await gateway.http.post(path)).json()
    renewed = replace(hook, secret=made["secret"])
    assert made["secret"] != hook.secret
    assert [each["expires_at"] for each in made["secrets"]] == [None, None]
    assert (await hook.send()).status_code == 202
    assert (await renewed.send()).status_code == 202
    under_way = await gateway.http.post(path)
    assert (under_way.status_code, under_way.json()["err_id"]) == (409, "ERR-PYOCO-0061")
    finished = await gateway.http.post(f"{path}/finish")
    assert [each["secret_id"] for each in finished.json()["secrets"]] == [made["secrets"][0]["secret_id"]]
    assert (await hook.send()).status_code == 401
    assert (await renewed.send()).status_code == 202
    assert (await gateway.http.post(f"{path}/finish")).json() == finished.json()


async def test_the_old_secret_ends_at_its_time(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, "hmac")
    path = f"/hooks/{hook.hook_id}/rotate"
    kept = (await gateway.http.post(path, json={"keep_sec": 3600})).json()
    assert [each["expires_at"] is None for each in kept["secrets"]] == [True, False]
    assert (await hook.send()).status_code == 202
    await gateway.http.post(f"{path}/finish")
    second = replace(hook, secret=kept["secret"])
    at_once = await gateway.http.post(path, json={"keep_sec": 0, "secret": "the third secret"})
    assert at_once.json()["secret"] == "the third secret"
    assert (await second.send()).status_code == 401
    assert (await replace(hook, secret="the third secret").send()).status_code == 202


async def test_a_sample_shows_the_params_and_starts_nothing(gateway: RunningGateway) -> None:
    hook = await a_hook(
        gateway.http,
        "github",
        map={"title": "/issue/title", "event": "header:X-GitHub-Event", "none": "/none"},
        params={"fixed": True},
        only_if={"/action": "opened"},
        tag="gpu",
    )
    sample = {
        "body": {"action": "opened", "issue": {"title": "t"}},
        "headers": {"X-GitHub-Event": "issues", "X-GitHub-Delivery": "d1"},
    }
    tested = await gateway.http.post(f"/hooks/{hook.hook_id}/test", json=sample)
    assert tested.json() == {
        "matched": True,
        "reason": None,
        "params": {"title": "t", "event": "issues", "fixed": True},
        "missing": ["none"],
        "idempotency_key": "d1",
        "problems": [],
        "flow_name": "noop",
        "tag": "gpu",
    }
    other = await gateway.http.post(f"/hooks/{hook.hook_id}/test", json={"body": {"action": "closed"}})
    assert (other.json()["matched"], other.json()["reason"]) == (False, "only_if")
    assert await runs_of(gateway, hook.hook_id) == []
    assert (await gateway.http.get(f"/hooks/{hook.hook_id}/deliveries")).json()["total"] == 0


async def test_a_hook_is_created_read_listed_changed_and_deleted(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, note="of the tests")
    path = f"/hooks/{hook.hook_id}"
    shown = await gateway.http.get(path)
    assert hook.secret not in shown.text
    assert {**hook.record, "secret": None} == {**shown.json(), "secret": None}
    assert (shown.json()["path"], shown.json()["url"], shown.json()["subject"]) == (path, None, None)
    listed = (await gateway.http.get("/hooks", params={"q": hook.hook_id})).json()
    assert (listed["total"], listed["items"]) == (1, [shown.json()])
    changed = await gateway.http.patch(path, json={"flow_name": "other", "map": {"a": "/a"}, "revision": 1})
    assert (changed.json()["flow_name"], changed.json()["map"], changed.json()["revision"]) == (
        "other",
        {"a": "/a"},
        2,
    )
    stale = await gateway.http.patch(path, json={"note": "", "revision": 1})
    assert (stale.status_code, stale.json()["err_id"]) == (409, "ERR-PYOCO-0061")
    twice = await gateway.http.post(
        "/hooks", json={"hook_id": hook.hook_id, "kind": "token", "flow_name": "f"}
    )
    assert (twice.status_code, twice.json()["err_id"]) == (409, "ERR-PYOCO-0061")
    await hook.started({"a": 1})
    await hook.deliveries(1)
    deleted = await gateway.http.delete(path)
    assert deleted.json() == {"hook_id": hook.hook_id, "deleted": True}
    assert (await gateway.http.get(path)).json()["err_id"] == "ERR-PYOCO-0060"
    assert (await hook.send()).status_code == 401
    # Another hook of this id has neither its deliveries nor its secret.
    again = await gateway.http.post(
        "/hooks", json={"hook_id": hook.hook_id, "kind": "token", "flow_name": "f"}
    )
    assert again.status_code == 201
    assert (await hook.send()).status_code == 401
    total = (await gateway.http.get(f"{path}/deliveries", params={"status": "started"})).json()["total"]
    assert total == 0


async def test_lists_are_paged(gateway: RunningGateway) -> None:
    made = sorted([(await a_hook(gateway.http, note="paged")).hook_id for _ in range(5)])
    found, query = [], {"q": "paged", "limit": "2"}
    while True:
        page = (await gateway.http.get("/hooks", params=query)).json()
        found += [each["hook_id"] for each in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert (found, page["total"]) == (made, 5)
    hook = await a_hook(gateway.http)
    for _ in range(5):
        await hook.started()
    kept = [each["delivery_id"] for each in await hook.deliveries(5)]
    first = (await gateway.http.get(f"/hooks/{hook.hook_id}/deliveries", params={"limit": 3})).json()
    rest = (
        await gateway.http.get(
            f"/hooks/{hook.hook_id}/deliveries", params={"limit": 3, "cursor": first["next_cursor"]}
        )
    ).json()
    assert [each["delivery_id"] for each in first["items"] + rest["items"]] == kept
    assert (rest["next_cursor"], rest["total"]) == (None, 5)


REFUSED_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "gitlab"}, "kind"),
    ({"hook_id": "a.b"}, "hook_id"),
    ({"map": {"a": "issue.title"}}, "map.a"),
    ({"map": {"a": 1}}, "map"),
    ({"only_if": {"x": 1}}, "only_if.x"),
    ({"idempotency": "/a~2"}, "idempotency"),
    ({"overlap": "queue"}, "overlap"),
    ({"secret": "tooweak"}, "secret"),
    ({"secret": 12345678901}, "secret"),
    ({"kind": "standard-webhooks", "secret": "not base64 at all"}, "secret"),
    ({"kind": "nats", "secret": "a secret of nobody"}, "secret"),
    ({"kind": "github", "signature": {"header": "X"}}, "signature"),
    ({"kind": "hmac", "signature": {"signed_text": "{timestamp}"}}, "signature.signed_text"),
    ({"kind": "hmac", "signature": {"algorithm": "md5"}}, "signature.algorithm"),
    ({"flow_name": ""}, "flow_name"),
    ({"workflow_yaml": "tasks: ["}, "workflow"),
    ({"unknown": 1}, "unknown"),
]


@pytest.mark.parametrize(("fields", "field"), REFUSED_FIELDS)
async def test_a_refused_field_is_named_and_nothing_is_stored(
    gateway: RunningGateway, fields: dict[str, Any], field: str
) -> None:
    body = {"hook_id": "refused-hook", "kind": "token", "flow_name": "noop", **fields}
    response = await gateway.http.post("/hooks", json=body)
    assert response.status_code == 422, response.text
    names = [each["field"] for each in response.json()["errors"]]
    assert any(name == field or name.startswith((f"{field}.", f"{field}[")) for name in names), names
    secret = fields.get("secret")
    assert secret is None or str(secret) not in response.text
    assert (await gateway.http.get("/hooks/refused-hook")).status_code == 404


async def test_the_number_of_hooks_and_actions_is_limited(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_hook(gateway.http)
    monkeypatch.setattr(hook_service, "MAX_HOOKS", 1)
    refused = await gateway.http.post(
        "/hooks", json={"hook_id": "more", "kind": "token", "flow_name": "noop"}
    )
    assert refused.status_code == 409
    assert "delete one first" in refused.json()["detail"]
    monkeypatch.setattr(action_service, "MAX_ACTIONS", 1)
    one = await gateway.http.put("/api/workflow-actions/one", json={"flow_name": "noop"})
    assert one.status_code == 200
    # Those that exist can be changed.
    assert (await gateway.http.put("/api/workflow-actions/one", json={"flow_name": "x"})).status_code == 200
    more = await gateway.http.put("/api/workflow-actions/more", json={"flow_name": "noop"})
    assert more.status_code == 422
    assert "delete one first" in more.text


async def test_without_a_key_a_hook_is_refused_with_the_cure(own_gateway: RunningGateway) -> None:
    http: httpx.AsyncClient = own_gateway.http
    body = {"hook_id": "h", "kind": "token", "flow_name": "noop"}
    refused = await http.post("/hooks", json=body)
    assert (refused.status_code, refused.json()["err_id"]) == (409, "ERR-PYOCO-0064")
    assert "secrets create-key" in refused.json()["detail"]
    assert "PYOCO_SECRETS_KEYS" in refused.json()["detail"]
    assert (await http.get("/hooks")).json()["total"] == 0
    # One without a secret needs no key.
    made = await http.post("/hooks", json={**body, "kind": "nats"})
    assert (made.status_code, made.json()["subject"]) == (201, "pyoco.events_in.=.h")


async def test_a_gateway_with_another_key_refuses_for_now(
    gateway: RunningGateway, shared_config: NatsBackendConfig
) -> None:
    """503: senders repeat it, when the operator has added the key."""
    hook: HookSender = await a_hook(gateway.http, "github")
    config = replace(shared_config, index_dir=f"{shared_config.index_dir}-other")
    async with running_gateway(config) as other:
        response = await hook.send(http=other.http)
    assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0065")


async def test_a_query_token_is_in_no_log(gateway: RunningGateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    hook = await a_hook(gateway.http)
    for token in (hook.secret, "a-wrong-token-of-a-sender"):
        await gateway.http.post(f"/hooks/{hook.hook_id}", params={"token": token}, json={})
        await gateway.http.post(f"/hooks/{hook.hook_id}", params={"token": token}, content=b"{")
    await hook.deliveries(3)
    # What the HTTP client of the test logs itself is not ours.
    ours = [str(vars(each)) for each in caplog.records if each.name.startswith("pyoco_server")]
    assert any("delivery started" in line for line in ours)
    assert not any(hook.secret in line or "a-wrong-token-of-a-sender" in line for line in ours)


async def counts(gateway: RunningGateway) -> dict[str, float]:
    page = Scrape((await gateway.http.get("/metrics")).text)
    statuses = ("started", "duplicate", "ignored", "refused", "failed")
    found = {status: page.value("pyoco_hook_deliveries_total", status=status) or 0.0 for status in statuses}
    return {**found, "hooks": page.value("pyoco_hooks") or 0.0}


async def test_deliveries_are_counted_by_what_became_of_them(gateway: RunningGateway) -> None:
    before = await counts(gateway)
    hook = await a_hook(gateway.http, "github", only_if={"/a": 1})
    await hook.send({"a": 1}, "d1")
    await hook.send({"a": 1}, "d1")
    await hook.send({"a": 2})
    await replace(hook, secret="a wrong secret").send({"a": 1})
    after = await counts(gateway)
    changes = {name: after[name] - before[name] for name in after}
    assert changes == {"started": 1, "duplicate": 1, "ignored": 1, "refused": 1, "failed": 0, "hooks": 1}
