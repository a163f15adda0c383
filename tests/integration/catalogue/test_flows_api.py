"""`/flows`, and new runs that are checked against the flows of live workers."""

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest
from pyoco.core.models import Flow

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.workers.flow_catalogue_store import FlowCatalogueStore
from pyoco_server.catalogue.flow_directory import FlowDirectory
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.workers.flow_models import (
    FlowCatalogue,
    FlowDescription,
    TaskDescription,
    encode_catalogue,
)
from pyoco_server.records.workers.worker_models import CatalogueReference
from pyoco_server.worker.ipc.protocol import Setup
from tests.support.broker.worker_records import a_record, put_record, worker_is
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway, flow_is
from tests.support.running.tenants import having_tenants
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

GREET = '''"""Says hello."""
from typing import Literal
from pyoco import task
from pyoco.core.models import Flow

@task
def say(name: str, tone: Literal["warm", "cold"] = "warm", times: list[int] = []):
    """The words."""
    return f"Hello, {name}!"

@task
def shout(say): ...

greet = Flow("greet") >> say >> shout
'''
STAYS_SEC = 600.0

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def gateway(own_gateway: RunningGateway) -> RunningGateway:
    return own_gateway


@pytest.fixture
def name() -> str:
    """Of a flow, its worker and the worker's tag, which no other test uses."""
    return f"greet-{uuid4().hex[:8]}"


def resolver(name: str) -> Flow:
    raise KeyError(name)


def folder_with(path: Path, **files: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / f"{name}.py").write_text(text)
    return path


async def submit(gateway: RunningGateway, query: str = "", **body: Any) -> httpx.Response:
    return await gateway.http.post(f"/runs{query}", json={"flow_name": "greet", **body})


async def submit_to(gateway: RunningGateway, name: str, query: str = "", **body: Any) -> httpx.Response:
    """Submit the flow of this name to the worker of this name."""
    return await submit(gateway, query, **{"flow_name": name, "tag": name, **body})


async def put_worker(
    gateway: RunningGateway, worker_id: str, catalogue: FlowCatalogue | None, **fields: Any
) -> CatalogueReference | None:
    """A live worker that has stored this catalogue."""
    connection = gateway.inside.connection
    reference = None
    if catalogue is not None:
        reference = await FlowCatalogueStore(connection).store(encode_catalogue(catalogue))
    record = a_record(worker_id, seen_at=time.time() + STAYS_SEC, catalogue=reference, **fields)
    await put_record(connection, record)
    return reference


def catalogue_of(*names: str, version: str = "v1", parameters: Any = None) -> FlowCatalogue:
    schema = msgspec.Raw(msgspec.json.encode(parameters))
    flows = [FlowDescription(name=name, parameters=schema) for name in names]
    return FlowCatalogue(version=version, flows=flows)


async def names_of(gateway: RunningGateway, **query: Any) -> list[str]:
    response = await gateway.http.get("/flows", params=query)
    assert response.status_code == 200, response.text
    return [flow["name"] for flow in response.json()["flows"]]


async def test_a_flow_is_described_with_its_workers(gateway: RunningGateway, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    async with serving_worker(gateway.inside.config, flows=folder, tags=["default", "gpu"]):
        flow = await flow_is(gateway, "greet", lambda flow: bool(flow["workers"]))
        [version] = flow["versions"]
        assert flow == {
            "name": "greet",
            "description": "Says hello.",
            "tags": ["default", "gpu"],
            "versions": [version],
            "versions_differ": False,
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "tone": {"enum": ["warm", "cold"], "default": "warm"},
                    "times": {"type": "array", "items": {"type": "integer"}, "default": []},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            "problem": None,
            "file": "greetings.py",
            "tasks": [
                {"name": "say", "description": "The words.", "after": []},
                {"name": "shout", "description": "", "after": ["say"]},
            ],
            "graph": {"nodes": ["say", "shout"], "edges": [{"source": "say", "target": "shout"}]},
            "workers": [
                {"worker_id": "worker", "state": "IDLE", "tags": ["default", "gpu"], "version": version}
            ],
            "last_failures": [],
        }
        [listed] = (await gateway.http.get("/flows")).json()["flows"]
        assert listed["workers"] == 1
        assert listed["parameters"] == flow["parameters"]


async def test_the_graph_of_a_run_is_known_before_it_starts(gateway: RunningGateway, tmp_path: Path) -> None:
    async def graph(run_id: str) -> tuple[str | None, dict[str, list[str]]]:
        found = (await gateway.http.get(f"/runs/{run_id}/graph")).json()
        assert found["run_id"] == run_id
        return found["source"], {task["name"]: task["after"] for task in found["tasks"]}

    later = {"delay_sec": 600}
    own = await gateway.submit("greet", **later)
    other = await gateway.submit("greet", tag="gpu", **later)
    unknown = await gateway.submit("nowhere", **later)
    assert await graph(own) == (None, {})
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    async with serving_worker(gateway.inside.config, flows=folder):
        await flow_is(gateway, "greet", lambda flow: bool(flow["workers"]))
        expected = {"say": [], "shout": ["say"]}
        assert await graph(own) == ("tag", expected)
        assert await graph(other) == ("other_tags", expected)
        assert await graph(unknown) == (None, {})
        # A flow.yaml brings a flow of its own, whatever its name.
        graph_text = "load >> switch(on=mode){fast: save; default: clean >> store}"
        source = f"flow: {{graph: '{graph_text}', defaults: {{mode: fast}}}}\ntasks: {{}}"
        submitted = await gateway.submit_yaml(source, flow_name="greet", delay_sec="600")
        assert await graph(submitted.json()["run_id"]) == (
            "flow_yaml",
            {"load": [], "save": ["load"], "clean": ["load"], "store": ["clean"]},
        )
        ended = await gateway.submit("greet", params={"name": "Ada"})
        await gateway.ends(ended)
        assert await graph(ended) == ("run", expected)
    missing = await gateway.http.get("/runs/00000000-0000-4000-8000-000000000000/graph")
    assert missing.status_code == 404


async def test_a_changed_folder_changes_the_catalogue_without_a_run(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    async with serving_worker(gateway.inside.config, flows=folder):
        before = await flow_is(gateway, "greet")
        (folder / "greetings.py").write_text(GREET.replace("Says hello", "Says more"))
        (folder / "second.py").write_text(GREET.replace('Flow("greet")', 'Flow("second")'))
        after = await flow_is(gateway, "greet", lambda flow: flow["description"] == "Says more.")
        assert after["versions"] != before["versions"]
        assert await names_of(gateway) == ["greet", "second"]
        await worker_is(gateway, flows=["greet", "second"])


async def test_a_file_that_breaks_is_logged_and_its_flows_are_listed_with_the_reason(
    gateway: RunningGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    async with serving_worker(gateway.inside.config, flows=folder):
        await flow_is(gateway, "greet", lambda flow: flow["problem"] is None)
        for broken in ("def (", "def (("):
            # The second change still knows the flows.
            (folder / "greetings.py").write_text(GREET + broken)
            (folder / f"other{len(broken)}.py").write_text(broken)
            await flow_is(gateway, f"other{len(broken)}")
            flow = (await gateway.http.get("/flows/greet")).json()
            assert "SyntaxError" in flow["problem"]
            assert flow["file"] == "greetings.py"
        assert "cannot load flows from greetings.py: SyntaxError" in caplog.text
        (folder / "greetings.py").write_text(GREET)
        await flow_is(gateway, "greet", lambda flow: flow["problem"] is None)


async def test_a_flow_that_cannot_be_described_is_listed(gateway: RunningGateway, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    broken = "version: 1\nflow: {graph: load}\ntasks:\n  load: {callable: 'nowhere_at_all:load'}\n"
    (folder / "broken.yaml").write_text(broken)
    async with serving_worker(gateway.inside.config, flows=folder):
        flow = await flow_is(gateway, "broken")
        assert flow["parameters"] is None
        assert flow["problem"] == "task 'load': there is no module 'nowhere_at_all' on this worker"
        assert (await submit(gateway, "?strict=1", flow_name="broken")).status_code == 200


async def test_an_unknown_flow_is_a_warning_or_refused(shared_gateway: RunningGateway, name: str) -> None:
    await put_worker(shared_gateway, name, catalogue_of(name, "invoice"), tags=[name])
    await flow_is(shared_gateway, name)
    wrong = f"{name}x"
    accepted = await submit_to(shared_gateway, name, flow_name=wrong)
    assert accepted.status_code == 200
    message = f"no live worker of the tag '{name}' has the flow '{wrong}'; did you mean '{name}'?"
    assert accepted.json()["warnings"] == [{"code": "flow_unknown", "message": message}]
    runs = len((await shared_gateway.http.get("/runs")).json())
    for query in ("?strict=1", "?strict=true"):
        problem = assert_problem(await submit_to(shared_gateway, name, query, flow_name=wrong), 404, 6)
        assert message in problem["detail"]
    assert len((await shared_gateway.http.get("/runs")).json()) == runs
    found = assert_problem(await shared_gateway.http.get("/flows/invoce"), 404, 6)
    assert "did you mean 'invoice'?" in found["detail"]


async def test_a_known_flow_has_no_warnings(shared_gateway: RunningGateway, name: str) -> None:
    await put_worker(shared_gateway, name, catalogue_of(name), tags=["default", name])
    await flow_is(shared_gateway, name)
    assert set((await submit(shared_gateway, flow_name=name)).json()) == {"run_id", "status"}
    assert set((await submit(shared_gateway, "?strict=1", flow_name=name)).json()) == {"run_id", "status"}
    assert set((await submit_to(shared_gateway, name, "?strict=0")).json()) == {"run_id", "status"}


async def test_a_tag_without_workers_is_a_warning(shared_gateway: RunningGateway, name: str) -> None:
    await put_worker(shared_gateway, name, catalogue_of(name), tags=[name])
    await flow_is(shared_gateway, name)
    [warning] = (await submit_to(shared_gateway, name, tag="no-such-tag")).json()["warnings"]
    assert warning["code"] == "no_worker"
    message = "no live worker has the tag 'no-such-tag'"
    assert warning["message"] == f"{message}: the run waits until one is started"
    problem = assert_problem(await submit_to(shared_gateway, name, "?strict=1", tag="no-such-tag"), 404, 6)
    assert f"{message}: start one, or submit without `strict`" in problem["detail"]
    assert "the run waits until" not in problem["detail"]


async def test_an_invalid_query_of_a_submit_is_refused(shared_gateway: RunningGateway) -> None:
    assert_problem(await submit(shared_gateway, "?strict=perhaps"), 422, 2)
    assert_problem(await submit(shared_gateway, "?stict=1"), 422, 2)


async def test_params_are_checked_with_their_paths(shared_gateway: RunningGateway, name: str) -> None:
    line = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Z]"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        },
        "required": ["name"],
        "additionalProperties": False,
        "$defs": {"Line": line},
    }
    await put_worker(shared_gateway, name, catalogue_of(name, parameters=schema), tags=[name])
    await flow_is(shared_gateway, name)
    params = {"name": "ada", "lines": [{"sku": "a"}, {"sku": 1}], "nam": 1}
    warnings = (await submit_to(shared_gateway, name, params=params)).json()["warnings"]
    assert {each["field"]: each["message"] for each in warnings} == {
        "params.lines[1].sku": "params.lines[1].sku: expected string, not 1",
        "params.nam": "params.nam: the flow has no such parameter; did you mean 'name'?",
    }
    problem = assert_problem(await submit_to(shared_gateway, name, "?strict=1", params=params), 422, 2)
    assert {each["field"]: each["message"] for each in problem["errors"]} == {
        "params.lines[1].sku": "expected string, not 1",
        "params.nam": "the flow has no such parameter; did you mean 'name'?",
        "params.name": '"ada" does not match the pattern "^[A-Z]"',
    }
    assert_problem(await submit_to(shared_gateway, name, "?strict=1"), 422, 2)
    accepted = await submit_to(
        shared_gateway, name, "?strict=1", params={"name": "Ada", "lines": [{"sku": "a"}]}
    )
    assert set(accepted.json()) == {"run_id", "status"}


async def test_keys_with_dots_and_digits_are_refused_with_their_path(
    shared_gateway: RunningGateway, name: str
) -> None:
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    schema = {"type": "object", "properties": {"m": numbers}}
    await put_worker(shared_gateway, name, catalogue_of(name, parameters=schema), tags=[name])
    await flow_is(shared_gateway, name)
    params = {"m": {"a": [], f"a.{'9' * 5000}": "s"}}
    problem = assert_problem(await submit_to(shared_gateway, name, "?strict=1", params=params), 422, 2)
    assert [each["field"] for each in problem["errors"]] == ["params.m.a", f"params.m.a.{'9' * 5000}"]


async def test_a_repeated_strict_submit_returns_its_run(shared_gateway: RunningGateway, name: str) -> None:
    """Also if the flow has disappeared meanwhile: the first response may have been lost."""
    await put_worker(shared_gateway, name, catalogue_of(name), tags=[name])
    headers = {"Idempotency-Key": name}
    body = {"flow_name": name, "tag": name}
    first = await shared_gateway.http.post("/runs?strict=1", json=body, headers=headers)
    assert first.status_code == 200, first.text
    await put_worker(shared_gateway, name, catalogue_of("other"), tags=[name])
    again = await shared_gateway.http.post("/runs?strict=1", json=body, headers=headers)
    assert again.json()["run_id"] == first.json()["run_id"]


async def test_params_that_one_version_takes_are_accepted(shared_gateway: RunningGateway, name: str) -> None:
    old = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    new = {"type": "object", "properties": {"b": {"type": "integer"}}, "additionalProperties": False}
    await put_worker(shared_gateway, name, catalogue_of(name, version="v1", parameters=old), tags=[name])
    await put_worker(
        shared_gateway, f"{name}-2", catalogue_of(name, version="v2", parameters=new), tags=[name]
    )
    await put_worker(
        shared_gateway, f"{name}-3", catalogue_of(name, version="v2", parameters=new), tags=[name]
    )
    flow = await flow_is(shared_gateway, name, lambda flow: len(flow["workers"]) == 3)
    # That of most workers is shown.
    assert (flow["versions"], flow["versions_differ"], flow["parameters"]) == (["v2", "v1"], True, new)
    for params in ({"a": 1}, {"b": 1}):
        assert "warnings" not in (await submit_to(shared_gateway, name, "?strict=1", params=params)).json()
    assert_problem(await submit_to(shared_gateway, name, "?strict=1", params={"c": 1}), 422, 2)


async def test_workers_without_a_catalogue_are_listed_by_name(
    shared_gateway: RunningGateway, name: str
) -> None:
    """Those of an earlier version; a worker with a resolver has no names either."""
    await put_worker(shared_gateway, name, None, flows=[name, "invoice"], tags=[name])
    flow = await flow_is(shared_gateway, name)
    assert (flow["versions"], flow["parameters"], flow["tasks"]) == ([], None, [])
    assert flow["workers"][0]["version"] is None
    assert (await submit_to(shared_gateway, name, "?strict=1")).status_code == 200
    assert_problem(await submit_to(shared_gateway, name, "?strict=1", flow_name="other"), 404, 6)
    await put_worker(shared_gateway, f"{name}-resolving", None, tags=[name])
    assert (await submit_to(shared_gateway, name, "?strict=1", flow_name="other")).status_code == 200
    assert "warnings" not in (await submit_to(shared_gateway, name, flow_name="other")).json()


async def test_a_worker_with_a_resolver_reports_no_flows(gateway: RunningGateway) -> None:
    setup = Setup.from_config(
        gateway.inside.config, resolver="tests.integration.catalogue.test_flows_api:resolver"
    )
    async with serving_worker(gateway.inside.config, setup=setup):
        await worker_is(gateway, state="IDLE")
        assert await names_of(gateway) == []
        assert (await submit(gateway, "?strict=1", flow_name="anything")).status_code == 200


async def test_lists_are_filtered_and_paged(gateway: RunningGateway) -> None:
    flows = [FlowDescription(name=f"flow-{number:02}", description=f"Text {number}") for number in range(7)]
    await put_worker(gateway, "one", FlowCatalogue(version="v1", flows=flows))
    await put_worker(gateway, "two", catalogue_of("gpu/only flow"), tags=["gpu"])
    await flow_is(gateway, "gpu%2Fonly flow")
    assert len(await names_of(gateway)) == 8
    assert await names_of(gateway, tag="gpu") == ["gpu/only flow"]
    assert await names_of(gateway, search="TEXT 3") == ["flow-03"]
    assert await names_of(gateway, search="FLOW-01") == ["flow-01"]
    found: list[str] = []
    query: dict[str, Any] = {"limit": 3, "tag": "default"}
    while True:
        page = (await gateway.http.get("/flows", params=query)).json()
        found += [flow["name"] for flow in page["flows"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert found == [flow.name for flow in flows]
    other = await gateway.http.get("/flows", params={**query, "tag": "gpu"})
    assert_problem(other, 422, 17)
    for bad in ({"limit": "0"}, {"limit": "1001"}, {"tag": "a.b"}, {"tga": "a"}):
        assert_problem(await gateway.http.get("/flows", params=bad), 422, 17)
    assert_problem(await gateway.http.get("/flows/x", params={"tag": "a b"}), 422, 2)


async def test_flows_that_only_have_runs_are_listed_without_workers(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    run_id = (await submit(gateway, flow_name="vanished")).json()["run_id"]
    async with serving_worker(gateway.inside.config, flows=folder):
        flow = await flow_is(gateway, "vanished", lambda flow: bool(flow["last_failures"]))
        assert flow["workers"] == []
        assert flow["statistics"]["24h"]["statuses"] == {"FAILED": 1}
        assert set(flow["statistics"]) == {"24h", "7d", "30d"}
        [failure] = flow["last_failures"]
        assert failure["run_id"] == run_id
        assert "vanished" in failure["error"]
    listed = await eventually_listed(gateway, "vanished")
    assert listed["workers"] == 0
    assert listed["statistics"]["24h"]["success_rate"] == 0.0


async def eventually_listed(gateway: RunningGateway, name: str) -> dict[str, Any]:
    """The list shares its statistics for a second."""

    async def there() -> dict[str, Any] | None:
        flows = (await gateway.http.get("/flows")).json()["flows"]
        return next((flow for flow in flows if flow["name"] == name and "statistics" in flow), None)

    return await eventually(there, describe=f"{name} in the list")


async def test_a_tenant_sees_flows_of_workers_but_not_the_runs_of_others(config: NatsBackendConfig) -> None:
    async with having_tenants(config, "acme", "rival") as (acme, rival):
        await put_worker(acme, "one", catalogue_of("greet"))
        await acme.submit("greet")
        await acme.submit("secret-flow")

        async def listed(tenant: RunningGateway) -> dict[str, Any]:
            response = await tenant.http.get("/flows")
            return {flow["name"]: flow for flow in response.json()["flows"]}

        async def is_there() -> bool:
            return "statistics" in (await listed(acme)).get("greet", {})

        await eventually(is_there, describe="the runs of acme")
        assert set(await listed(acme)) == {"greet", "secret-flow"}
        # Statistics do not wait for what the gateway knows of workers.
        await flow_is(rival, "greet")
        seen = await listed(rival)
        assert set(seen) == {"greet"}
        assert "statistics" not in seen["greet"]
        assert_problem(await rival.http.get("/flows/secret-flow"), 404, 6)
        assert "statistics" not in (await rival.http.get("/flows/greet")).json()


async def test_workers_with_the_same_code_share_one_catalogue(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    async with (
        serving_worker(gateway.inside.config, flows=folder, worker_id="one"),
        serving_worker(gateway.inside.config, flows=folder, worker_id="two"),
    ):
        await flow_is(gateway, "greet", lambda flow: len(flow["workers"]) == 2)
        stream = f"KV_{gateway.inside.config.flows_kv_bucket}"
        assert (await stream_state(gateway.inside.connection, stream)).messages == 1
        assert len(directory_of(gateway)._catalogues) == 1


def directory_of(gateway: RunningGateway) -> FlowDirectory:
    return gateway.inside.flows.directory


async def test_a_large_catalogue_is_stored_in_parts(gateway: RunningGateway) -> None:
    tasks = [TaskDescription(name=f"{time.monotonic_ns()}-{number}") for number in range(400)]
    flows = [
        FlowDescription(name=f"flow-{number:04}", tasks=tasks, description=str(hash((number, "x"))) * 20)
        for number in range(200)
    ]
    await put_worker(gateway, "one", FlowCatalogue(version="v1", flows=flows))
    flow = await flow_is(gateway, "flow-0199")
    assert len(flow["tasks"]) == 400
    assert len(await names_of(gateway, limit=1000)) == 200


@pytest.mark.parametrize("written", [b"", b"not compressed", b"x\x9c\x03\x00\x00\x00\x00\x01"])
async def test_a_catalogue_that_was_overwritten_leaves_the_names(
    shared_gateway: RunningGateway, name: str, written: bytes
) -> None:
    """Any worker may write into the bucket; the digest says what belongs there."""
    connection = shared_gateway.inside.connection
    reference = await FlowCatalogueStore(connection).store(encode_catalogue(catalogue_of(name, "hidden")))
    subject = f"$KV.{connection.config.flows_kv_bucket}.{reference.digest}.0"
    await publish_acked(connection, subject, written)
    record = a_record(name, seen_at=time.time() + STAYS_SEC, catalogue=reference, flows=[name])
    await put_record(connection, record)
    flow = await flow_is(shared_gateway, name)
    assert (flow["versions"], flow["parameters"]) == ([], None)


async def test_a_stopped_worker_takes_its_flows_with_it(gateway: RunningGateway, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    async with serving_worker(gateway.inside.config, flows=folder):
        await flow_is(gateway, "greet")

    async def gone() -> bool:
        return await names_of(gateway) == []

    await eventually(gone, describe="no flow")


async def test_catalogues_that_no_worker_uses_are_removed(gateway: RunningGateway) -> None:
    store = FlowCatalogueStore(gateway.inside.connection)
    used = await store.store(encode_catalogue(catalogue_of("greet")))
    unused = await store.store(encode_catalogue(catalogue_of("other")))
    assert await store.remove_unused({used.digest}, older_than_sec=3600.0) == 0
    assert await store.load(unused.digest) is not None
    assert await store.remove_unused({used.digest}, older_than_sec=-1.0) == 1
    assert await store.load(unused.digest) is None
    assert await store.load(used.digest) is not None
