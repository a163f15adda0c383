"""The client library against a real gateway and worker."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pyoco_server.errors.error_table import Err
from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from tests.support.places import FLOWS, ROOT
from tests.support.programs import SERVER, WORKER, running
from tests.support.samples.flow_yaml import VALID_FLOW_YAML
from tests.support.waiting import eventually_sync

NO_RUN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def gateway_url(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway with a worker."""
    nats_url, folder = next(_unused_accounts), tmp_path_factory.mktemp("client")
    at_nats = ("--nats-url", nats_url)
    with (
        running(SERVER, "up", "--port", "0", *at_nats, cwd=folder) as (_, gateway),
        running(WORKER, "--flows", str(FLOWS), *at_nats, cwd=folder, PYTHONPATH=str(ROOT)),
    ):
        yield gateway["url"]


@pytest.fixture
def client(gateway_url: str) -> Iterator[PyocoHttpClient]:
    with PyocoHttpClient(gateway_url) as client:
        eventually_sync(lambda: client.health()["nats"]["ready"], describe="NATS is ready")
        eventually_sync(
            lambda: [each for each in client.list_flows(search="chain")["flows"] if each["workers"]],
            describe="the gateway knows the flows of the worker",
        )
        yield client


def test_a_run_is_submitted_and_waited_for(client: PyocoHttpClient) -> None:
    accepted = client.submit_run("chain", params={"x": 4}, tag="default", tags=["night", "small"])
    assert accepted == {"run_id": accepted["run_id"], "status": "PENDING"}
    ended = client.wait(accepted["run_id"], timeout_sec=20)
    assert ended["status"] == "COMPLETED"
    assert ended["params"] == {"x": 4}
    assert ended["tags"] == ["night", "small"]
    assert "task_records" not in ended

    run = client.get_run(accepted["run_id"], include=["records"])
    assert run["task_records"]["store"]["output"] == {"stored": 5}
    tasks = client.get_tasks(accepted["run_id"])
    assert tasks["tasks"] == {"load": "SUCCEEDED", "store": "SUCCEEDED"}
    assert tasks["task_records"]["load"]["stdout"] == "loading 4\n"


@pytest.mark.parametrize("text", [VALID_FLOW_YAML, VALID_FLOW_YAML.encode()], ids=["str", "bytes"])
def test_a_flow_yaml_is_submitted(client: PyocoHttpClient, text: str | bytes) -> None:
    run_id = client.submit_run_yaml(text, "batch", tag="default")["run_id"]
    ended = client.wait(run_id, timeout_sec=20)
    assert (ended["status"], ended["flow_name"]) == ("COMPLETED", "batch")


def test_following_a_run_gives_each_change_once(client: PyocoHttpClient, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    run_id = client.submit_run("waiting", params={"path": str(go_on)})["run_id"]
    seen = []
    for snapshot in client.follow(run_id, timeout_sec=20):
        seen.append((snapshot["status"], snapshot["tasks"].get("wait_for_file")))
        if seen[-1] == ("RUNNING", "RUNNING"):
            go_on.touch()
    assert seen[-1] == ("COMPLETED", "SUCCEEDED")
    assert len(seen) == len(set(seen))


def test_an_error_response_is_an_http_status_error_with_its_ids(client: PyocoHttpClient) -> None:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        client.submit_run("noop", tag="a.b")
    error = caught.value
    assert isinstance(error, PyocoHttpError)
    assert error.response.status_code == error.status == 422
    assert (error.err_id, error.msg_id) == ("ERR-PYOCO-0002", "MSG-PYOCO-0002")
    assert error.title == Err.INVALID_REQUEST.en
    assert [problem.field for problem in error.errors] == ["tag"]
    assert "ERR-PYOCO-0002 (422 Unprocessable" in str(error)


def test_an_error_in_a_flow_yaml_has_its_line_and_column(client: PyocoHttpClient) -> None:
    with pytest.raises(PyocoHttpError) as caught:
        client.submit_run_yaml("flow:\n  graph: load >> laod\ntasks:\n  load: {callable: 'm:f'}\n", "typo")
    (problem,) = caught.value.errors
    assert (problem.field, problem.value, problem.line, problem.column) == ("flow.graph", "'laod'", 2, 18)


@pytest.mark.parametrize(
    ("call", "run_id"),
    [("get_run", NO_RUN), ("get_run", "../health"), ("get_run", "a b/?x=1#y"), ("wait", NO_RUN)],
)
def test_an_unknown_run_is_a_404(client: PyocoHttpClient, call: str, run_id: str) -> None:
    with pytest.raises(PyocoHttpError) as caught:
        getattr(client, call)(run_id)
    # A slash in an id makes another path, which has no error id.
    assert (caught.value.status, caught.value.err_id) == (404, None if "/" in run_id else "ERR-PYOCO-0005")


def test_errors_are_in_the_language_of_the_client(gateway_url: str) -> None:
    with PyocoHttpClient(gateway_url, language="ja") as client, pytest.raises(PyocoHttpError) as caught:
        client.get_tasks(NO_RUN)
    assert caught.value.title == Err.RUN_NOT_FOUND.ja


def test_the_loopback_is_reached_without_the_proxy_of_the_environment(
    gateway_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with PyocoHttpClient(gateway_url) as client:
        assert client.health()["status"] == "ok"


def test_runs_are_listed_watched_and_explained(client: PyocoHttpClient) -> None:
    before = client.list_runs_vnext(1)
    run_id = client.submit_run("noop", tag="nobody", tags=["listed"])["run_id"]
    assert [run["run_id"] for run in client.list_runs(tag="listed")] == [run_id]
    assert [run["run_id"] for run in client.list_runs(tag="listed", updated_after=1.0)] == [run_id]
    page = client.list_runs_vnext(tag="listed", total=True)
    assert (page["total"], page["next_cursor"]) == (1, None)
    found = client.explain(run_id)
    assert (found["status"], found["findings"][0]["code"]) == ("PENDING", "no_worker_for_tag")

    events = client.watch_runs(after=before["position"], tag="listed")
    first = next(iter(events))
    assert (first["event"], first["snapshot"]["run_id"]) == ("snapshot", run_id)
    client.cancel_run(run_id, "enough")
    assert [run["status"] for run in client.watch_run(run_id)][-1] == "CANCELLED"


def test_a_run_that_changes_between_two_pages_is_not_left_out(client: PyocoHttpClient) -> None:
    ids = {client.submit_run("noop", tag="nobody", tags=["moving"])["run_id"] for _ in range(4)}
    runs = client.iter_runs(2, tag="moving")
    found = [next(runs)["run_id"]]
    for run_id in ids - set(found):
        client.cancel_run(run_id, "moved")
    found += [run["run_id"] for run in runs]
    assert (len(found), set(found)) == (4, ids)


def test_workers_and_metrics_are_read(client: PyocoHttpClient) -> None:
    workers = client.list_workers()
    assert {worker["state"] for worker in workers} <= {"IDLE", "RUNNING"}
    one = client.get_worker(workers[0]["worker_id"])
    assert one["worker_id"] == workers[0]["worker_id"]
    assert client.update_worker(one["worker_id"], hidden=True)["hidden"] is True
    assert one["worker_id"] not in [worker["worker_id"] for worker in client.list_workers()]
    assert client.update_worker(one["worker_id"], hidden=False)["hidden"] is False
    assert "pyoco_workers_alive_total 1" in client.metrics()


def test_dead_letters_are_read_replayed_and_deleted(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("failing")["run_id"]
    assert client.wait(run_id, 20)["status"] == "FAILED"
    letter = eventually_sync(
        lambda: next(iter(client.iter_dlq(run_id=run_id)), None), describe="the letter is there"
    )
    assert client.get_dlq(letter["seq"]) == letter
    assert client.list_dlq(1, reason=["execution_error", "timeout"])["items"]
    again = client.replay_dlq(letter["seq"], mode="failed")
    assert (again["origin_run_id"], again["deleted"]) == (run_id, False)
    assert client.delete_dlq(letter["seq"]) == {"seq": letter["seq"], "deleted": True}
    with pytest.raises(PyocoHttpError, match="ERR-PYOCO-0027"):
        client.get_dlq(letter["seq"])


def test_a_bulk_cancel_after_a_dry_run(client: PyocoHttpClient) -> None:
    ids = [client.submit_run("noop", tag="nobody", tags=["bulk"])["run_id"] for _ in range(3)]
    counted = client.bulk_cancel({"tag": "bulk"}, "enough", dry_run=True)
    assert (counted["matched"], counted["operation"]) == (3, None)
    assert counted["token"]
    begun = client.bulk_cancel({"tag": "bulk"}, "enough", token=counted["token"])["operation"]
    assert begun is not None
    eventually_sync(lambda: client.get_bulk(begun["bulk_id"])["state"] == "COMPLETED", describe="it is done")
    assert {client.wait(run_id, 10)["cancel_reason"] for run_id in ids} == {"enough"}
    assert begun["bulk_id"] in [each["bulk_id"] for each in client.list_bulk()["items"]]
    assert client.stop_bulk(begun["bulk_id"])["state"] == "COMPLETED"
