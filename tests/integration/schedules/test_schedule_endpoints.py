"""The endpoints of schedules: create, read, list, change, pause, trigger, backfill and delete."""

import time
from typing import Any

import pytest

from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.stores.schedules.schedule_store import ScheduleStore
from pyoco_server.records.schedules.schedule_models import ScheduleSpec, schedule_key
from tests.support.problems import assert_field_problem, assert_problem
from tests.support.running.gateway import RunningGateway
from tests.support.samples.flow_yaml import VALID_FLOW_YAML
from tests.support.samples.schedules import a_schedule
from tests.support.scrape import Scrape
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

NIGHTLY = {"cron": ["0 2 * * *"], "timezone": "Asia/Tokyo"}


async def create(
    gateway: RunningGateway, schedule_id: str, spec: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    # No worker has this tag: its runs stay open.
    body = {"schedule_id": schedule_id, "flow_name": "noop", "tag": "unserved", "spec": spec or NIGHTLY}
    response = await gateway.http.post("/schedules", json={**body, **fields})
    assert response.status_code == 201, response.text
    created: dict[str, Any] = response.json()
    return created


async def get(gateway: RunningGateway, schedule_id: str) -> dict[str, Any]:
    response = await gateway.http.get(f"/schedules/{schedule_id}")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def listed(gateway: RunningGateway, **query: Any) -> list[str]:
    response = await gateway.http.get("/schedules", params=query)
    assert response.status_code == 200, response.text
    return [item["schedule_id"] for item in response.json()["items"]]


async def test_a_schedule_from_its_creation_to_its_deletion(shared_gateway: RunningGateway) -> None:
    http = shared_gateway.http
    created = await create(
        shared_gateway, "life", params={"region": "eu"}, tags=["etl"], timeout_sec=60, note="for accounting"
    )
    assert created["revision"] == 1
    assert created["params"] == {"region": "eu"}
    assert created["spec"] == {
        **{"cron": ["0 2 * * *"], "every_sec": None, "anchor": None, "at": [], "timezone": "Asia/Tokyo"},
        **{"start_at": None, "end_at": None, "jitter_sec": 0.0, "exclude": []},
    }
    assert all(text.endswith("T02:00:00+09:00") for text in created["next_times"])
    assert await get(shared_gateway, "life") == created
    [item] = (await http.get("/schedules", params={"q": "ACCOUNTING"})).json()["items"]
    assert (item["schedule_id"], item["tag"], item["tags"]) == ("life", "unserved", ["etl"])
    assert item["next_at"] is not None
    assert item["last_run_id"] is item["last_decision"] is None
    patch = {"overlap": "buffer_one", "spec": {"timezone": "UTC"}, "revision": 1}
    changed = (await http.patch("/schedules/life", json=patch)).json()
    assert (changed["revision"], changed["overlap"]) == (2, "buffer_one")
    assert changed["spec"] == {**created["spec"], "timezone": "UTC"}
    assert changed["params"] == {"region": "eu"}
    assert (await http.delete("/schedules/life")).json() == {"schedule_id": "life", "deleted": True}
    assert_problem(await http.get("/schedules/life"), 404, 47)
    assert await listed(shared_gateway, q="life") == []


async def test_defaults_are_those_of_a_submit(shared_gateway: RunningGateway) -> None:
    body = {"schedule_id": "plain", "flow_name": "noop", "spec": NIGHTLY}
    created = (await shared_gateway.http.post("/schedules", json=body)).json()
    assert (created["tag"], created["tags"], created["params"]) == ("default", [], {})
    patched = await shared_gateway.http.patch("/schedules/plain", json={"tag": "gpu", "tags": ["a"]})
    assert (patched.json()["tag"], patched.json()["tags"]) == ("gpu", ["a"])
    patched = await shared_gateway.http.patch("/schedules/plain", json={"tag": None, "tags": None})
    assert (patched.json()["tag"], patched.json()["tags"]) == ("default", [])


async def test_an_id_that_exists_is_a_conflict(shared_gateway: RunningGateway) -> None:
    before = await create(shared_gateway, "taken")
    body = {"schedule_id": "taken", "flow_name": "other", "spec": {"every_sec": 60}}
    problem = assert_problem(await shared_gateway.http.post("/schedules", json=body), 409, 48)
    assert "'taken' already" in problem["detail"]
    assert await get(shared_gateway, "taken") == before


async def test_a_stale_revision_is_a_conflict(shared_gateway: RunningGateway) -> None:
    http = shared_gateway.http
    await create(shared_gateway, "stale")
    assert (await http.patch("/schedules/stale", json={"note": "a", "revision": 1})).status_code == 200
    before = await get(shared_gateway, "stale")
    stale = await http.patch("/schedules/stale", json={"note": "b", "revision": 1})
    assert "at revision 2, not 1" in assert_problem(stale, 409, 48)["detail"]
    assert_problem(await http.delete("/schedules/stale", params={"revision": 1}), 409, 48)
    assert await get(shared_gateway, "stale") == before
    assert (await http.delete("/schedules/stale", params={"revision": 2})).status_code == 200


async def test_no_more_times_are_shown_than_runs_remain(shared_gateway: RunningGateway) -> None:
    assert len((await create(shared_gateway, "last-two", remaining_runs=2))["next_times"]) == 2
    changed = await shared_gateway.http.patch("/schedules/last-two", json={"remaining_runs": 0})
    assert changed.json()["next_times"] == []
    assert (await shared_gateway.http.get("/schedules/last-two/next")).json()["times"] == []


async def test_decisions_do_not_make_a_revision_stale(shared_gateway: RunningGateway) -> None:
    await create(shared_gateway, "busy", {"every_sec": 1})

    async def decided() -> bool:
        return bool((await get(shared_gateway, "busy"))["decisions"])

    await eventually(decided, describe="an occurrence is decided")
    changed = await shared_gateway.http.patch("/schedules/busy", json={"paused": True, "revision": 1})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["paused"], changed.json()["next_times"]) == (True, [])


async def test_a_change_that_changes_nothing_is_not_written(shared_gateway: RunningGateway) -> None:
    before = await create(shared_gateway, "same")
    same = {"flow_name": "noop", "spec": {"cron": ["0  2 * * *"]}, "overlap": "skip"}
    assert (await shared_gateway.http.patch("/schedules/same", json=same)).json() == before


@pytest.mark.parametrize(
    ("patch", "field", "says"),
    [
        ({"spec": {"cron": ["* *"]}}, "spec.cron[0]", "five fields"),
        ({"spec": {"cron": []}}, "spec", "give cron, every_sec or at"),
        ({"spec": {"end_at": "2020-01-01"}}, "spec", "give a later end_at"),
        ({"spec": {"start_at": "2030-02-01", "end_at": "2030-01-01"}}, "spec.end_at", "after start_at"),
        ({"catchup_window_sec": 1e9}, "catchup_window_sec", "a year"),
        ({"remaining_runs": -1}, "remaining_runs", "whole number"),
    ],
)
async def test_an_invalid_change_changes_nothing(
    shared_gateway: RunningGateway, patch: dict[str, Any], field: str, says: str
) -> None:
    response = await shared_gateway.http.get("/schedules/checked")
    before = response.json() if response.is_success else await create(shared_gateway, "checked")
    assert_field_problem(await shared_gateway.http.patch("/schedules/checked", json=patch), field, says)
    assert await get(shared_gateway, "checked") == before


async def test_a_schedule_of_a_flow_yaml(shared_gateway: RunningGateway) -> None:
    await create(shared_gateway, "yaml", workflow_yaml=VALID_FLOW_YAML)
    assert (await get(shared_gateway, "yaml"))["workflow_yaml"] == VALID_FLOW_YAML
    [item] = (await shared_gateway.http.get("/schedules", params={"q": "yaml"})).json()["items"]
    assert item["has_workflow_yaml"] is True
    run_id = (await shared_gateway.http.post("/schedules/yaml/trigger")).json()["run_id"]
    assert (await shared_gateway.get(run_id))["workflow_yaml_sha256"]


async def test_a_trigger_starts_a_run_with_the_cause(shared_gateway: RunningGateway) -> None:
    await create(shared_gateway, "triggered", params={"a": 1, "b": 2}, paused=True)
    response = await shared_gateway.http.post("/schedules/triggered/trigger", json={"params": {"b": 3}})
    triggered = response.json()
    assert triggered == {"schedule_id": "triggered", "run_id": triggered["run_id"], "outcome": "started"}
    run = await shared_gateway.get(triggered["run_id"])
    assert (run["status"], run["tag"], run["params"]) == ("PENDING", "unserved", {"a": 1, "b": 3})
    assert (run["cause"]["kind"], run["cause"]["id"]) == ("schedule", "triggered")
    stored = await get(shared_gateway, "triggered")
    assert stored["revision"] == 1
    assert stored["decisions"][-1]["by"] == "trigger"


async def test_a_trigger_respects_an_open_run_unless_told_otherwise(shared_gateway: RunningGateway) -> None:
    http = shared_gateway.http
    await create(shared_gateway, "occupied")
    first = (await http.post("/schedules/occupied/trigger")).json()["run_id"]
    refused = assert_problem(await http.post("/schedules/occupied/trigger"), 409, 49)
    assert first in refused["detail"]
    assert "`allow_all`" in refused["detail"]
    both = await http.post("/schedules/occupied/trigger", json={"overlap": "allow_all"})
    assert both.json()["outcome"] == "started"
    waiting = await http.post("/schedules/occupied/trigger", json={"overlap": "buffer_one"})
    assert waiting.json()["outcome"] == "buffered"
    assert_problem(await http.get(f"/runs/{waiting.json()['run_id']}"), 404, 5)


async def test_a_pause_is_repeatable_and_a_resume_clears_its_note(shared_gateway: RunningGateway) -> None:
    http = shared_gateway.http
    await create(shared_gateway, "held")
    paused = (await http.post("/schedules/held/pause", json={"note": "maintenance"})).json()
    assert (paused["paused"], paused["note"], paused["next_times"]) == (True, "maintenance", [])
    assert (await http.post("/schedules/held/pause", json={"note": "maintenance"})).json() == paused
    assert (await http.post("/schedules/held/pause")).json() == paused
    times = (await http.get("/schedules/held/next", params={"n": 2})).json()
    assert (len(times["times"]), times["timezone"]) == (2, "Asia/Tokyo")
    resumed = (await http.post("/schedules/held/resume")).json()
    assert (resumed["paused"], resumed["note"]) == (False, "")
    again = (await http.post("/schedules/held/resume")).json()
    assert again["revision"] == resumed["revision"]


async def test_a_backfill_counts_and_then_starts(shared_gateway: RunningGateway) -> None:
    http = shared_gateway.http
    spec = {"cron": ["0 */6 * * *"], "timezone": "Asia/Tokyo"}
    await create(shared_gateway, "filled", spec, flow_name="backfilled")
    period = {"from": "2026-01-01", "to": "2026-01-02", "overlap": "allow_all"}
    counted = (await http.post("/schedules/filled/backfill", json={**period, "dry_run": True})).json()
    assert (counted["count"], counted["dry_run"]) == (4, True)
    assert counted["times"][0] == "2026-01-01T00:00:00+09:00"
    assert (await get(shared_gateway, "filled"))["decisions"] == []
    started = (await http.post("/schedules/filled/backfill", json=period)).json()
    assert (started["count"], started["dry_run"]) == (4, False)

    async def runs() -> list[Any] | None:
        found: list[Any] = (await http.get("/runs", params={"flow": "backfilled"})).json()
        return found if len(found) == 4 else None

    await eventually(runs, describe="four runs are started")


async def test_backfills_are_listed_and_cancelled(shared_gateway: RunningGateway) -> None:
    await create(shared_gateway, "stopped", {"cron": ["@hourly"]})
    http, path = shared_gateway.http, "/schedules/stopped/backfills"
    assert (await http.get(path)).json() == {"items": []}
    body = {"from": "2026-01-01", "to": "2026-01-21T20:00"}
    counted = (await http.post("/schedules/stopped/backfill", json={**body, "dry_run": True})).json()
    assert (counted["count"], counted["backfill_id"]) == (500, None)
    backfill_id = (await http.post("/schedules/stopped/backfill", json=body)).json()["backfill_id"]

    async def first_started() -> bool:
        [item] = (await http.get(path)).json()["items"]
        return bool(item["started"] == 1)

    await eventually(first_started, describe="the first run of the backfill is started")
    [item] = (await http.get(path)).json()["items"]
    assert (item["backfill_id"], item["count"], item["remaining"]) == (backfill_id, 500, 499)
    assert (item["from"], item["to"], item["overlap"]) == (1767225600.0, 1769025600.0, "buffer_all")
    assert item["requested_by"] is None
    cancelled = (await http.delete(f"{path}/{backfill_id}")).json()
    assert (cancelled["started"], cancelled["skipped"]) == (1, 499)
    assert (await http.get(path)).json() == {"items": []}
    found = await get(shared_gateway, "stopped")
    [decision] = [each for each in found["decisions"] if each.get("reason") == "backfill_cancelled"]
    assert (decision["count"], decision["detail"]) == (499, "the backfill was cancelled")
    problem = assert_problem(await http.delete(f"{path}/{backfill_id}"), 404, 52)
    assert backfill_id in problem["detail"]
    assert_problem(await http.delete(f"/schedules/unknown/backfills/{backfill_id}"), 404, 47)


async def test_too_many_backfills_are_refused(shared_gateway: RunningGateway) -> None:
    await create(shared_gateway, "crowded", {"cron": ["@hourly"]})
    body = {"from": "2026-01-01", "to": "2026-01-02"}
    for _ in range(10):
        assert (await shared_gateway.http.post("/schedules/crowded/backfill", json=body)).status_code == 200
    refused = await shared_gateway.http.post("/schedules/crowded/backfill", json=body)
    assert "10 backfills are in progress" in assert_problem(refused, 409, 53)["detail"]


async def test_requests_with_a_key_are_repeated_without_effect(shared_gateway: RunningGateway) -> None:
    http = shared_gateway.http
    body = {"schedule_id": "keyed", "flow_name": "keyed", "tag": "unserved", "spec": {"cron": ["@daily"]}}
    period = {"from": "2026-01-01", "to": "2026-01-03", "overlap": "allow_all"}
    requests = [
        ("/schedules", body, "create"),
        ("/schedules/keyed/trigger", {"overlap": "allow_all"}, "trigger"),
        ("/schedules/keyed/backfill", period, "backfill"),
    ]
    for path, content, key in requests:
        first = await http.post(path, json=content, headers={"Idempotency-Key": key})
        again = await http.post(path, json=content, headers={"Idempotency-Key": key})
        assert first.is_success, first.text
        assert "Idempotent-Replayed" not in first.headers
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers["Idempotent-Replayed"] == "true"

    async def runs() -> list[Any] | None:
        found: list[Any] = (await http.get("/runs", params={"flow": "keyed"})).json()
        return found if len(found) >= 3 else None

    assert len(await eventually(runs, describe="the runs are started")) == 3
    stored = await get(shared_gateway, "keyed")
    assert stored["counts"] == {"started": 3}
    assert "requests" not in stored


async def test_a_key_of_another_request_is_refused(shared_gateway: RunningGateway) -> None:
    http = shared_gateway.http
    await create(shared_gateway, "rekeyed", overlap="allow_all")
    path, key = "/schedules/rekeyed/trigger", {"Idempotency-Key": "k"}
    await http.post(path, headers=key)
    assert_problem(await http.post(path, json={"params": {"a": 1}}, headers=key), 409, 26)
    period = {"from": "2026-01-01", "to": "2026-01-03"}
    assert_problem(await http.post("/schedules/rekeyed/backfill", json=period, headers=key), 409, 26)
    assert_field_problem(
        await http.post(path, headers={"Idempotency-Key": "a b"}), "Idempotency-Key", "ASCII"
    )
    assert (await get(shared_gateway, "rekeyed"))["counts"] == {"started": 1}
    # It was created without a key.
    body = {"schedule_id": "rekeyed", "flow_name": "noop", "spec": NIGHTLY}
    assert_problem(await http.post("/schedules", json=body, headers={"Idempotency-Key": "new"}), 409, 48)


@pytest.mark.parametrize(
    ("period", "field", "says"),
    [
        ({"from": "2026-01-02", "to": "2026-01-01"}, "to", "after from"),
        ({"from": "2026-01-01", "to": "2999-01-01"}, "to", "not in the future"),
        ({"from": "2000-01-01", "to": "2026-01-01"}, "to", "shorten it"),
        ({"from": "yesterday", "to": "2026-01-01"}, "from", "2027-01-31T17:00:00+09:00"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
async def test_an_impossible_backfill_is_refused(
    shared_gateway: RunningGateway, period: dict[str, Any], field: str, says: str, dry_run: bool
) -> None:
    if "hourly" not in await listed(shared_gateway):
        await create(shared_gateway, "hourly", {"cron": ["@hourly"]}, paused=True)
    body = {**period, "dry_run": dry_run}
    response = await shared_gateway.http.post("/schedules/hourly/backfill", json=body)
    assert_field_problem(response, field, says)
    assert (await get(shared_gateway, "hourly"))["backfills"] == []


async def test_lists_are_filtered_and_paged(shared_gateway: RunningGateway) -> None:
    for number in range(5):
        await create(
            shared_gateway,
            f"page-{number}",
            flow_name="paged",
            tags=["even" if number % 2 == 0 else "odd"],
            paused=number > 2,
        )
    assert await listed(shared_gateway, flow="paged", tag="odd") == ["page-1", "page-3"]
    assert await listed(shared_gateway, flow="paged", paused="true") == ["page-3", "page-4"]
    assert await listed(shared_gateway, flow="paged", paused="false", tag="unserved") == [
        "page-0",
        "page-1",
        "page-2",
    ]
    found: list[str] = []
    query: dict[str, Any] = {"flow": "paged", "limit": 2}
    while True:
        page = (await shared_gateway.http.get("/schedules", params=query)).json()
        found += [item["schedule_id"] for item in page["items"]]
        assert page["total"] == 5
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert found == [f"page-{number}" for number in range(5)]
    query["flow"] = "other"
    assert_problem(await shared_gateway.http.get("/schedules", params=query), 422, 17)


async def test_a_list_shows_the_last_run_and_its_status(shared_gateway: RunningGateway) -> None:
    await create(shared_gateway, "shown")
    run_id = (await shared_gateway.http.post("/schedules/shown/trigger")).json()["run_id"]
    await shared_gateway.http.post(f"/runs/{run_id}/cancel")

    async def cancelled() -> bool:
        [item] = (await shared_gateway.http.get("/schedules", params={"q": "shown"})).json()["items"]
        assert item["last_run_id"] == run_id
        return bool(item["last_run_status"] == "CANCELLED")

    await eventually(cancelled, describe="the list has the status of the run")


async def test_a_problem_is_shown(shared_gateway: RunningGateway) -> None:
    store, now = ScheduleStore(shared_gateway.inside.connection), time.time()
    # No decision fits into this record.
    text = "x" * (shared_gateway.inside.connection.max_record_bytes - 400)
    tick = ScheduleSpec(every_sec=1)
    await store.create(a_schedule("ill-1", spec=tick, cursor=now, params={"text": text}))
    # The search for the next time takes too long.
    spec = ScheduleSpec(every_sec=60, exclude=["0-29 * * * *", "30-59 * * * *"])
    await store.create(a_schedule("ill-2", spec=spec, cursor=now))

    async def shown() -> dict[str, dict[str, Any]] | None:
        page = (await shared_gateway.http.get("/schedules", params={"q": "ill-"})).json()
        items = {item["schedule_id"]: item for item in page["items"]}
        return items if len(items) == 2 and all(item["problem"] for item in items.values()) else None

    items = await eventually(shown, describe="both have a problem")
    assert "the NATS server accepts" in items["ill-1"]["problem"]
    assert (await get(shared_gateway, "ill-1"))["problem"] == items["ill-1"]["problem"]
    assert "no occurrence is found until 20" in items["ill-2"]["problem"]
    assert "exclude less" in (await get(shared_gateway, "ill-2"))["problem"]
    assert items["ill-2"]["next_at"] is None
    for name in items:
        await shared_gateway.http.delete(f"/schedules/{name}")


async def test_an_id_can_be_used_again(shared_gateway: RunningGateway) -> None:
    first = await create(shared_gateway, "phoenix")
    await shared_gateway.http.delete("/schedules/phoenix")
    second = await create(shared_gateway, "phoenix")
    assert first["incarnation"] != second["incarnation"]
    assert await listed(shared_gateway, q="phoenix") == ["phoenix"]


async def test_an_unreadable_schedule_is_a_conflict(shared_gateway: RunningGateway) -> None:
    connection = shared_gateway.inside.connection
    bucket = Bucket(connection, connection.config.schedules_kv_bucket)
    await bucket.create(schedule_key(None, "broken"), b"{}")
    assert_problem(await shared_gateway.http.get("/schedules/broken"), 409, 45)
    assert "broken" not in await listed(shared_gateway)


@pytest.mark.parametrize("schedule_id", ["unknown", "has.dot", "*", ">", "a%20b", "x" * 65])
async def test_an_unknown_id_is_a_404(shared_gateway: RunningGateway, schedule_id: str) -> None:
    assert_problem(await shared_gateway.http.get(f"/schedules/{schedule_id}"), 404, 47)


async def test_metrics_count_schedules_and_decisions(shared_gateway: RunningGateway) -> None:
    async def metrics() -> tuple[float, float]:
        page = Scrape((await shared_gateway.http.get("/metrics")).text)
        paused = page.value("pyoco_schedules", state="paused")
        started = page.value("pyoco_schedule_decisions_total", outcome="started")
        assert paused is not None
        assert started is not None
        return paused, started

    paused, started = await metrics()
    await create(shared_gateway, "counted", paused=True)
    await shared_gateway.http.post("/schedules/counted/trigger")
    assert await metrics() == (paused + 1, started + 1)
