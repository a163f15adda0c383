"""Results of runs, through a worker and a gateway: whole, in ranges, and with reasons where there is none."""

import hashlib
import logging
from dataclasses import replace
from typing import Any

import httpx
import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, newest_message
from pyoco_server.broker.stores.runs import run_object_store
from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpError, RunFailed
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.worker import PyocoNatsWorker
from tests.flows.returning import returning_bytes
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZE = 3_000_001
CONTENT = bytes(range(256)) * (SIZE // 256) + b"x" * (SIZE % 256)


@pytest.fixture
def gateway(working_gateway: RunningGateway) -> RunningGateway:
    return working_gateway


async def result(gateway: RunningGateway, flow: str, **params: Any) -> tuple[dict[str, Any], httpx.Response]:
    """An ended run, and what its result is."""
    run = await gateway.run(flow, params=params)
    return run, await gateway.http.get(f"/runs/{run['run_id']}/result")


@pytest.mark.parametrize(
    ("kind", "media_type", "content", "shown"),
    [
        ("no bytes", "application/octet-stream", b"", ""),
        ("no text", "application/json", b'""', ""),
        ("none", "application/json", b"null", None),
        ("bytes", "application/octet-stream", b"\x00\xff", "AP8="),
        ("byte array", "application/octet-stream", b"abc", "YWJj"),
        ("numbers", "application/json", b"[1.0,null]", [1.0, None]),
        ("object", "application/json", '{"a":[1,{"b":"ä"}]}'.encode(), {"a": [1, {"b": "ä"}]}),
    ],
)
async def test_small_values(
    gateway: RunningGateway, kind: str, media_type: str, content: bytes, shown: Any
) -> None:
    run, response = await result(gateway, "returning", kind=kind)
    assert (response.status_code, response.content) == (200, content)
    assert response.headers["content-type"] == media_type
    assert response.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    assert run["result"] == {
        "task": "give",
        "type": "json" if media_type.endswith("json") else "bytes",
        "bytes": len(content),
        "value": shown,
        "is_cut": False,
    }
    same = await gateway.http.get(f"/runs/{run['run_id']}/tasks/give/output")
    assert same.content == content


async def test_a_large_value_is_served_whole_and_in_ranges(gateway: RunningGateway) -> None:
    run, whole = await result(gateway, "returning-bytes", size=SIZE)
    path, digest = f"/runs/{run['run_id']}/result", hashlib.sha256(CONTENT).hexdigest()
    assert whole.content == CONTENT
    assert (whole.headers["etag"], whole.headers["content-length"]) == (f'"{digest}"', str(SIZE))
    shown = run["result"]
    assert (shown["type"], shown["bytes"], shown["is_cut"]) == ("bytes", SIZE, True)
    assert "value" not in shown
    assert "reason" not in shown
    head = await gateway.http.head(path)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(SIZE))
    for header, start, stop in (("0-9", 0, 10), ("2000000-", 2_000_000, SIZE), ("-5", SIZE - 5, SIZE)):
        part = await gateway.http.get(path, headers={"Range": f"bytes={header}"})
        assert (part.status_code, part.content) == (206, CONTENT[start:stop])
        assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{SIZE}"
    beyond = await gateway.http.get(path, headers={"Range": f"bytes={SIZE}-"})
    assert_problem(beyond, 416, 2)
    assert beyond.headers["content-range"] == f"bytes */{SIZE}"
    known = await gateway.http.get(path, headers={"If-None-Match": f'"{digest}"'})
    assert (known.status_code, known.content) == (304, b"")
    other = await gateway.http.get(path, headers={"Range": "bytes=0-9", "If-Range": '"another"'})
    assert (other.status_code, len(other.content)) == (200, SIZE)


async def test_a_result_is_served_while_replicas_lag(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller has seen that the run is completed."""
    run = await gateway.run("returning-bytes", params={"size": SIZE})
    get = RunStore.get

    async def running(self: RunStore, run_id: str) -> StoredRun | None:
        stored = await get(self, run_id)
        if stored is None:
            return None
        before = structs.replace(stored.snapshot, status=RunStatus.RUNNING, task_records={})
        return StoredRun(before, stored.revision)

    async def parts_only(connection: Connection, stream: str, subject: str) -> StreamMessage | None:
        return None if subject.endswith(".record") else await newest_message(connection, stream, subject)

    monkeypatch.setattr(RunStore, "get", running)
    monkeypatch.setattr(run_object_store, "newest_message", parts_only)
    for path in ("result", "tasks/give_bytes/output"):
        response = await gateway.http.get(f"/runs/{run['run_id']}/{path}")
        assert response.content == CONTENT, response.text


async def test_a_large_text_is_json(gateway: RunningGateway) -> None:
    run, response = await result(gateway, "returning-text", size=100_000)
    assert response.headers["content-type"] == "application/json"
    assert response.json() == "ä" * 100_000
    assert run["result"]["preview"].startswith('"ää')
    records = (await gateway.http.get(f"/runs/{run['run_id']}/tasks")).json()["task_records"]
    assert records["give_text"]["output_object"]["bytes"] == len(response.content)


async def test_a_value_between_is_shown_by_its_beginning(gateway: RunningGateway) -> None:
    """It is in the record of its task, and too large for `GET /runs/{run_id}`."""
    run, response = await result(gateway, "returning-text", size=10_000)
    assert response.json() == "ä" * 10_000
    assert run["result"]["is_cut"]
    assert run["result"]["preview"].startswith('"ää')
    run, response = await result(gateway, "returning-bytes", size=10_000)
    assert len(response.content) == 10_000
    assert run["result"]["preview"].startswith("AAEC")


async def test_the_flow_names_the_task_of_its_result(gateway: RunningGateway) -> None:
    run, response = await result(gateway, "returning-the-first")
    assert response.json() == "wanted"
    assert run["result"]["task"] == "wanted"
    output = await gateway.http.get(f"/runs/{run['run_id']}/tasks/later/output")
    assert output.json() == "after wanted"


async def test_a_flow_yaml_names_the_task_of_its_result(gateway: RunningGateway) -> None:
    source = """
version: 1
flow:
  graph: "one >> two"
tasks:
  one: {callable: "tests.flows.returning:wanted", result: RESULT}
  two: {callable: "tests.flows.returning:later", inputs: {wanted: $node.one.output}}
"""
    accepted = await gateway.submit_yaml(source.replace("RESULT", "true"))
    run = await gateway.ends(accepted.json()["run_id"])
    assert (run["status"], run["result"]["value"]) == ("COMPLETED", "wanted")
    refused = await gateway.submit_yaml(source.replace("RESULT", "maybe"))
    assert_problem(refused, 422, 2)
    assert refused.json()["errors"][0]["field"] == "tasks.one.result"
    twice = source.replace("RESULT", "true").replace("inputs:", "result: true, inputs:")
    refused = await gateway.submit_yaml(twice)
    assert_problem(refused, 422, 2)
    assert "one" in refused.json()["errors"][0]["message"]


async def test_a_run_without_a_result_says_why(gateway: RunningGateway) -> None:
    run, response = await result(gateway, "failing-after-text", size=100_000)
    assert "result" not in run
    assert_problem(response, 404, 71)
    assert "FAILED" in response.json()["detail"]
    assert "it has 100000 characters" in response.json()["detail"]
    loaded = await gateway.http.get(f"/runs/{run['run_id']}/tasks/load_text/output")
    assert loaded.json() == "x" * 100_000
    for task, why in (("fail_with", "has not returned: it is FAILED"), ("x", "has no task 'x'")):
        missing = await gateway.http.get(f"/runs/{run['run_id']}/tasks/{task}/output")
        assert_problem(missing, 404, 71)
        assert why in missing.json()["detail"]
    unknown = await gateway.http.get("/runs/00000000-0000-4000-8000-000000000000/result")
    assert_problem(unknown, 404, 5)


async def test_a_run_that_has_not_ended_has_no_result(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("returning", tag="nobody")
    response = await gateway.http.get(f"/runs/{run_id}/result")
    assert_problem(response, 404, 71)
    assert "it is PENDING" in response.json()["detail"]


@pytest.mark.parametrize("limit", [0, 99_999])
async def test_a_value_above_the_limit_is_cut_and_the_run_completes(
    config: NatsBackendConfig, limit: int
) -> None:
    config = replace(config, result_max_bytes=limit)
    async with running_gateway(config) as gateway, serving_worker(config):
        run, response = await result(gateway, "returning-bytes", size=100_000)
    assert run["status"] == "COMPLETED"
    assert run["result"]["reason"] == f"it takes 100000 bytes, and PYOCO_RESULT_MAX_BYTES={limit}"
    assert_problem(response, 404, 71)
    assert f"PYOCO_RESULT_MAX_BYTES={limit}" in response.json()["detail"]


async def test_a_value_that_was_removed_is_not_found(gateway: RunningGateway) -> None:
    run, _ = await result(gateway, "returning-bytes", size=SIZE)
    await RunObjects(gateway.inside.connection).remove_run(run["run_id"])
    response = await gateway.http.get(f"/runs/{run['run_id']}/result")
    assert_problem(response, 404, 71)
    assert "was removed" in response.json()["detail"]


async def test_a_value_that_is_removed_while_it_is_sent_ends_the_connection(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    run, _ = await result(gateway, "returning-bytes", size=40_000_000)
    received: list[int] = []

    async def read() -> None:
        async with gateway.http.stream("GET", f"/runs/{run['run_id']}/result") as response:
            async for block in response.aiter_raw():
                if not received:
                    await RunObjects(gateway.inside.connection).remove_run(run["run_id"])
                received.append(len(block))

    with pytest.raises(httpx.RemoteProtocolError):
        await read()
    assert 0 < sum(received) < 40_000_000
    assert any("was cut off" in each.message for each in caplog.records if each.levelno == logging.WARNING)


async def test_a_client_that_goes_away_ends_the_reading(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = await result(gateway, "returning-bytes", size=40_000_000)
    parts: list[str] = []
    read = RunObjects._part

    async def counting(self: RunObjects, subject: str, *rest: Any) -> bytes:
        parts.append(subject)
        return await read(self, subject, *rest)

    monkeypatch.setattr(RunObjects, "_part", counting)
    path = f"/runs/{run['run_id']}/result"
    async with (
        httpx.AsyncClient(base_url=gateway.http.base_url) as leaving,
        leaving.stream("GET", path) as response,
    ):
        await anext(response.aiter_raw())
    # A later request was answered: by then the first one has noticed that its client is gone, or never will.
    assert (await gateway.http.get(path, headers={"Range": "bytes=0-9"})).is_success
    assert len(parts) < 40_000_000 // 131_072


async def test_the_clients_return_values(gateway: RunningGateway, tmp_path: Any) -> None:
    async with AsyncPyocoHttpClient(str(gateway.http.base_url)) as client:
        assert await client.run("returning", kind="object") == {"a": [1, {"b": "ä"}]}
        assert await client.run("returning", kind="none") is None
        assert await client.run("returning", kind="no bytes") == b""
        assert await client.run("returning-bytes", size=SIZE) == CONTENT
        with pytest.raises(RunFailed, match=r"is FAILED: .*it has 5 characters") as failure:
            await client.run("failing-after-text", size=5)
        failed = failure.value.run_id
        assert (failure.value.status, failure.value.reason) == ("FAILED", "execution_error")
        assert await client.result(failed, "load_text") == "xxxxx"
        with pytest.raises(PyocoHttpError, match="FAILED"):
            await client.result(failed)
        run = await client.submit_run("returning-bytes", {"size": SIZE})
        await client.wait(run["run_id"])
        with (tmp_path / "value").open("wb") as file:
            assert await client.download_result(run["run_id"], file) == SIZE
    assert (tmp_path / "value").read_bytes() == CONTENT


async def test_an_embedded_worker_stores_large_values(
    gateway: RunningGateway,
) -> None:
    worker = await PyocoNatsWorker.connect(
        gateway.inside.config, flow_resolver=lambda _: returning_bytes, worker_id="inside", tags=["inside"]
    )
    try:
        run_id = await gateway.submit("returning-bytes", tag="inside", params={"size": SIZE})
        assert await worker.run_once(10.0) == run_id
    finally:
        await worker.close()
    assert (await gateway.http.get(f"/runs/{run_id}/result")).content == CONTENT


async def test_a_forged_snapshot_does_not_show_the_objects_of_another_tag(gateway: RunningGateway) -> None:
    run, _ = await result(gateway, "returning-bytes", size=SIZE)
    store = gateway.inside.runs.store
    stored = await store.get_from_leader(run["run_id"])
    assert stored is not None
    stored.snapshot.tag = "other"
    await store.replace(stored.snapshot, revision=stored.revision)
    response = await gateway.http.get(f"/runs/{run['run_id']}/result")
    assert_problem(response, 404, 71)
    assert "not as a gateway accepted it" in response.json()["detail"]
