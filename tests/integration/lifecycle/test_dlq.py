"""Dead letters over HTTP: list, get, replay, delete."""

import time
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.runs import dead_letters
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, TaskStatus, new_run_id
from pyoco_server.runs.bulk import letter_operations
from pyoco_server.runs.bulk.letter_operations import LetterFilter, letter_page, matching_letters
from tests.integration.lifecycle.test_rerun import YAML, YAML_DIGEST, end
from tests.integration.lifecycle.test_submit import queued_job
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import ended, write_many
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


def letter(**fields: Any) -> DeadLetter:
    given = {"timestamp": 1000.0, "reason": "execution_error", "error": "ValueError: it broke", **fields}
    return DeadLetter(**given)


async def put(gateway: RunningGateway, *letters: DeadLetter) -> int:
    """The sequence of the last one."""
    for each in letters:
        await gateway.inside.dead_letters.publish(each, tag=each.tag or "default")
    return (await stream_state(gateway.inside.connection, "PYOCO_DLQ")).last_sequence


async def dlq(gateway: RunningGateway, **query: Any) -> dict[str, Any]:
    response = await gateway.http.get("/dlq", params=query)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page


async def seqs(gateway: RunningGateway, **query: Any) -> list[int]:
    page = await dlq(gateway, **query)
    assert page["next_cursor"] is None
    return [item["seq"] for item in page["items"]]


async def test_a_failed_run_leaves_a_letter(config: NatsBackendConfig, gateway: RunningGateway) -> None:
    assert await dlq(gateway) == {"items": [], "next_cursor": None}
    submitted_at = time.time()
    async with serving_worker(config):
        run_id = (await gateway.ends(await gateway.submit("failing", tags=["night"])))["run_id"]
    [item] = (await dlq(gateway))["items"]
    assert submitted_at <= item.pop("timestamp") <= time.time()
    assert "it broke" in item.pop("error")
    assert item == {
        "seq": 1,
        "reason": "execution_error",
        "run_id": run_id,
        "flow_name": "failing",
        "tag": "default",
        "tags": ["night"],
        "worker_id": "worker",
        "num_delivered": 1,
        "subject": "pyoco.work.default",
        "tenant_id": None,
        "replayable": True,
        "rerun": None,
        "closed": False,
    }
    one = await gateway.http.get("/dlq/1")
    assert one.json() == (await dlq(gateway))["items"][0]


RUN_ID = new_run_id()
LETTERS = (
    letter(run_id=RUN_ID, flow_name="etl", worker_id="w1", timestamp=1000.0),
    letter(reason="flow_not_found", error="no flow 'x'", flow_name="report", tag="gpu", timestamp=2000.0),
    letter(reason="invalid_job", error=None, timestamp=3000.0),
)


async def test_every_filter_selects_its_letters(gateway: RunningGateway) -> None:
    await put(gateway, *LETTERS)
    for query, found in (
        ({}, [3, 2, 1]),
        ({"reason": "invalid_job"}, [3]),
        ({"reason": "invalid_job, execution_error"}, [3, 1]),
        ({"reason": "nothing_such"}, []),
        ({"tag": "gpu"}, [2]),
        ({"tag": "default"}, [3, 1]),
        ({"flow": "etl"}, [1]),
        ({"run_id": RUN_ID}, [1]),
        ({"worker": "w1"}, [1]),
        ({"since": "2000"}, [3, 2]),
        ({"until": "2000"}, [2, 1]),
        ({"since": "1500", "until": "2500.5"}, [2]),
        ({"q": "BROKE"}, [1]),
        ({"q": RUN_ID[:13]}, [1]),
        ({"q": "repor"}, [2]),
        ({"q": "w1", "tag": "gpu"}, []),
        ({"seq": "3"}, [3]),
        ({"seq": "1, 3,99"}, [3, 1]),
        ({"seq": "1,2", "flow": "etl"}, [1]),
        ({"state": "open"}, [3, 2, 1]),
        ({"state": "closed"}, []),
    ):
        assert await seqs(gateway, **query) == found, query


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"tag": "*"}, "tag"),
        ({"reason": ",,"}, "reason"),
        ({"reason": ""}, "reason"),
        ({"tag": "a.b"}, "tag"),
        ({"run_id": "1"}, "run_id"),
        ({"since": "yesterday"}, "since"),
        ({"until": "-1"}, "until"),
        ({"since": "nan"}, "since"),
        ({"since": "inf"}, "since"),
        ({"q": ""}, "q"),
        ({"q": "x" * 201}, "q"),
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"cursor": "abc"}, "cursor"),
        ({"cursor": "0"}, "cursor"),
        ({"cursor": str(2**64)}, "cursor"),
        ({"raeson": "timeout"}, "raeson"),
        ({"seq": ""}, "seq"),
        ({"seq": "1,x"}, "seq"),
        ({"seq": "-1"}, "seq"),
        ({"seq": ",".join(["1"] * 501)}, "seq"),
        ({"state": "done"}, "state"),
        ([("tag", "a"), ("tag", "b")], "tag"),
    ],
)
async def test_an_invalid_query_is_refused(shared_gateway: RunningGateway, query: Any, field: str) -> None:
    [error] = assert_problem(await shared_gateway.http.get("/dlq", params=query), 422, 17)["errors"]
    assert error["field"] == field


async def test_pages_are_stable_while_letters_change(gateway: RunningGateway) -> None:
    await put(gateway, *(letter(error=str(number)) for number in range(7)))
    first = await dlq(gateway, limit=2)
    await put(gateway, letter(error="new"))
    assert (await gateway.http.delete("/dlq/4")).status_code == 200
    second = await dlq(gateway, limit=2, cursor=first["next_cursor"])
    # The one where the next page begins.
    assert (await gateway.http.delete("/dlq/3")).status_code == 200
    third = await dlq(gateway, limit=2, cursor=second["next_cursor"])
    pages = [[item["seq"] for item in page["items"]] for page in (first, second, third)]
    assert (pages, third["next_cursor"]) == ([[7, 6], [5, 3], [2, 1]], None)


async def test_a_stream_with_gaps_is_read_to_its_end(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_NARROW", 2)
    monkeypatch.setattr(dead_letters, "_BATCH", 2)
    letters = gateway.inside.dead_letters
    await put(gateway, *(letter(tag="gpu" if number % 5 == 0 else "cpu") for number in range(1, 31)))
    for seq in (1, 2, 11, 12, 13, 14, 30):
        await letters.delete(seq)
    everything = [seq for seq in range(29, 2, -1) if seq not in (11, 12, 13, 14)]
    assert await seqs(gateway) == everything
    assert await seqs(gateway, tag="gpu") == [25, 20, 15, 10, 5]
    found = await matching_letters(letters, LetterFilter(tag="gpu"), limit=3)
    assert [item.name for item in found] == ["25", "20", "15"]


async def test_one_page_reads_a_bounded_number(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_NARROW", 4)
    monkeypatch.setattr(letter_operations, "_PAGE_READS", 4)
    await put(gateway, letter(flow_name="rare"), *(letter() for _ in range(9)))
    letter_filter = LetterFilter(flow="rare")
    before, found, pages = None, [], 0
    while pages == 0 or before is not None:
        page = await letter_page(gateway.inside.dead_letters, letter_filter, before=before, limit=5)
        found += [stored.seq for stored in page.letters]
        before, pages = page.before, pages + 1
    assert (found, pages) == ([1], 3)


async def test_a_foreign_message_is_listed_as_invalid(gateway: RunningGateway) -> None:
    published_at = time.time()
    await publish_acked(gateway.inside.connection, "pyoco.dlq.default", b"\xffnonsense")
    [item] = (await dlq(gateway))["items"]
    assert (item["reason"], item["tag"], item["replayable"]) == ("unreadable", "default", False)
    assert published_at <= item["timestamp"] <= time.time()
    assert (await gateway.http.get("/dlq/1")).json()["reason"] == "unreadable"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("seq", ["999", "0", "-1", "x", "9" * 30, "1.5", "١"])
@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
async def test_an_unknown_letter_is_a_404(shared_gateway: RunningGateway, method: str, seq: str) -> None:
    path = f"/dlq/{seq}/replay" if method == "POST" else f"/dlq/{seq}"
    assert_problem(await shared_gateway.http.request(method, path), 404, 27)


async def test_deleting_a_letter_keeps_its_run(gateway: RunningGateway) -> None:
    run_id = await end(gateway, await gateway.submit("chain"))
    await put(gateway, letter(run_id=run_id), letter())
    response = await gateway.http.delete("/dlq/1")
    assert response.json() == {"seq": 1, "deleted": True}
    assert await seqs(gateway) == [2]
    assert_problem(await gateway.http.delete("/dlq/1"), 404, 27)
    assert (await gateway.get(run_id))["status"] == "FAILED"


async def test_a_replay_is_a_new_run_of_the_same_work(gateway: RunningGateway) -> None:
    origin = await end(gateway, (await gateway.submit_yaml(YAML, tag="gpu")).json()["run_id"])
    await put(gateway, letter(run_id=origin, tag="gpu"))
    response = await gateway.http.post("/dlq/1/replay")
    assert response.status_code == 200, response.text
    accepted = response.json()
    assert accepted == {
        "seq": 1,
        "run_id": accepted["run_id"],
        "status": "PENDING",
        "origin_run_id": origin,
        "deleted": False,
    }
    run = await gateway.get(accepted["run_id"])
    assert (run["tag"], run["rerun_mode"], run["params"]) == ("gpu", "start", {"x": 41})
    assert await Journal(gateway.inside.connection).document("gpu", accepted["run_id"], YAML_DIGEST) == YAML
    job = await queued_job(gateway)
    assert (job.run_id, job.workflow_yaml) == (accepted["run_id"], YAML)
    assert await seqs(gateway) == [1]


async def test_a_replay_from_the_failed_tasks_deletes_the_letter(gateway: RunningGateway) -> None:
    origin = await end(gateway, await gateway.submit("chain"))
    await put(gateway, letter(run_id=origin))
    response = await gateway.http.post("/dlq/1/replay", json={"mode": "failed", "delete": True})
    assert response.json()["deleted"] is True
    assert (await gateway.get(response.json()["run_id"]))["rerun_mode"] == "failed"
    assert await seqs(gateway) == []


async def without_flow_yaml(gateway: RunningGateway) -> str:
    run_id = await end(gateway, (await gateway.submit_yaml(YAML)).json()["run_id"])
    await Journal(gateway.inside.connection).remove(run_id)
    return run_id


async def open_run(gateway: RunningGateway) -> str:
    return await gateway.submit("noop")


async def without_failed_tasks(gateway: RunningGateway) -> str:
    return await end(gateway, await gateway.submit("noop"), RunStatus.COMPLETED, {"a": TaskStatus.SUCCEEDED})


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("run", "body", "reason"),
    [
        (None, {"delete": True}, "names no run"),
        (RUN_ID, {"delete": True}, f"run {RUN_ID} of dead letter {{seq}} is not stored"),
        ("a.*", {}, "is not stored"),
        (without_flow_yaml, {}, "flow.yaml"),
        (open_run, {}, "is PENDING"),
        (without_failed_tasks, {"mode": "failed"}, "nothing failed"),
    ],
    ids=["no run", "deleted run", "invalid id", "no flow.yaml", "open run", "no failed task"],
)
async def test_a_letter_that_cannot_be_replayed_is_kept(
    shared_gateway: RunningGateway, run: Any, body: dict[str, Any], reason: str
) -> None:
    run_id = await run(shared_gateway) if callable(run) else run
    seq = await put(shared_gateway, letter(run_id=run_id))
    response = await shared_gateway.http.post(f"/dlq/{seq}/replay", json=body)
    assert reason.format(seq=seq) in assert_problem(response, 409, 28)["detail"]
    assert (await shared_gateway.http.get(f"/dlq/{seq}")).status_code == 200


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "body", [{"mode": "task"}, {"mode": "begin"}, {"mode": None}, {"delete": "yes"}, {"x": 1}]
)
async def test_an_invalid_replay_is_refused(shared_gateway: RunningGateway, body: dict[str, Any]) -> None:
    seq = await put(shared_gateway, letter(run_id=RUN_ID))
    response = await shared_gateway.http.post(f"/dlq/{seq}/replay", json=body)
    [error] = assert_problem(response, 422, 2)["errors"]
    assert error["field"] == next(iter(body))


async def test_every_request_is_a_503_without_nats(own_nats: NatsServer, config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        own_nats.kill()
        for method, path in (
            ("GET", "/dlq"),
            ("GET", "/dlq/1"),
            ("DELETE", "/dlq/1"),
            ("POST", "/dlq/1/replay"),
        ):
            assert_problem(await gateway.http.request(method, path), 503, 3)


async def with_runs(gateway: RunningGateway, *runs: RunSnapshot) -> None:
    """These runs, and a letter for each that failed."""
    await write_many(gateway.inside.connection, list(runs))
    failed = [run for run in runs if run.status is RunStatus.FAILED]
    await put(gateway, *(letter(run_id=run.run_id, flow_name=run.flow_name) for run in failed))


async def test_a_letter_is_closed_when_a_rerun_of_its_run_has_completed(gateway: RunningGateway) -> None:
    first, alone = ended(RunStatus.FAILED), ended(RunStatus.FAILED)
    again = ended(RunStatus.FAILED, at=2000.0, origin_run_id=first.run_id)
    await with_runs(gateway, first, alone, again)
    items = {item["run_id"]: item for item in (await dlq(gateway, state="open"))["items"]}
    assert items[first.run_id]["rerun"] == {"run_id": again.run_id, "status": "FAILED"}
    assert items[alone.run_id]["rerun"] is None
    assert not any(item["closed"] for item in items.values())

    # A rerun of the rerun closes the letters of both; what is rerun after that opens neither again.
    good = ended(RunStatus.COMPLETED, at=3000.0, origin_run_id=again.run_id)
    bad = ended(RunStatus.CANCELLED, at=4000.0, origin_run_id=first.run_id)
    await write_many(gateway.inside.connection, [good, bad])
    closed = (await dlq(gateway, state="closed"))["items"]
    assert {item["run_id"] for item in closed} == {first.run_id, again.run_id}
    assert [item["rerun"] for item in closed] == [{"run_id": good.run_id, "status": "COMPLETED"}] * 2
    [still_open] = (await dlq(gateway, state="open"))["items"]
    assert (still_open["run_id"], still_open["closed"]) == (alone.run_id, False)
    one = await gateway.http.get(f"/dlq/{closed[0]['seq']}")
    assert one.json() == closed[0]


async def test_pages_of_open_letters_have_no_closed_ones(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_NARROW", 2)
    monkeypatch.setattr(dead_letters, "_BATCH", 2)
    failed = [ended(RunStatus.FAILED, at=float(1000 + number)) for number in range(7)]
    reruns = [ended(at=3000.0, origin_run_id=run.run_id) for run in failed[::2]]
    await with_runs(gateway, *failed, *reruns)
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = await dlq(gateway, state="open", limit=2, **({"cursor": cursor} if cursor else {}))
        found += [item["run_id"] for item in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert sorted(found) == sorted(run.run_id for run in failed[1::2])


async def test_selected_letters_are_deleted_and_no_others(gateway: RunningGateway) -> None:
    done, left = ended(RunStatus.FAILED), ended(RunStatus.FAILED)
    await with_runs(gateway, done, left, ended(at=2000.0, origin_run_id=done.run_id))
    await put(gateway, letter(), letter())
    counted = await gateway.http.post("/dlq/delete", params={"seq": "3,4"}, json={"dry_run": True})
    assert counted.json()["matched"] == 2
    closed = await gateway.http.post("/dlq/delete", params={"state": "closed"}, json={"dry_run": True})
    assert (closed.json()["matched"], closed.json()["sample"]) == (1, ["1"])
    deleted = await gateway.http.post("/dlq/delete", params={"seq": "3,4"}, json={"expected_count": 2})
    assert deleted.status_code == 200, deleted.text

    async def both_are_gone() -> bool:
        return await seqs(gateway) == [2, 1]

    await eventually(both_are_gone, describe="the two letters are deleted")
