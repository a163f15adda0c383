"""The client library against a real gateway and worker; and against what is not a gateway at all."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pyoco_server.errors import Err
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient, PyocoHttpError

from .support.http_stub import answer, stub
from .support.programs import SERVER, WORKER, running
from .support.waiting import eventually_sync
from .support.workers import FLOWS

NO_RUN = "00000000-0000-4000-8000-000000000000"
YAML = """
flow:
  graph: open_batch
  defaults: {orders: [1, 2]}
tasks:
  open_batch: {callable: "order_tasks:open_batch"}
"""
EXAMPLE_FLOWS = Path(__file__).parents[1] / "examples" / "flows"


@pytest.fixture(scope="module")
def gateway_url(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway with a worker of the test flows behind it."""
    nats_url, folder = next(_unused_accounts), tmp_path_factory.mktemp("client")
    at_nats = ("--nats-url", nats_url)
    with (
        running(SERVER, "up", "--port", "0", *at_nats, cwd=folder) as (_, gateway),
        running(WORKER, "--flows", str(FLOWS), *at_nats, cwd=folder),
        running(WORKER, "--flows", str(EXAMPLE_FLOWS), "--tag", "examples", *at_nats, cwd=folder),
    ):
        yield gateway["url"]


@pytest.fixture
def client(gateway_url: str) -> Iterator[PyocoHttpClient]:
    with PyocoHttpClient(gateway_url) as client:
        eventually_sync(lambda: client.health()["nats"]["ready"], within=10, describe="NATS is ready")
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


@pytest.mark.parametrize("text", [YAML, YAML.encode()], ids=["str", "bytes"])
def test_a_flow_yaml_is_submitted(client: PyocoHttpClient, text: str | bytes) -> None:
    run_id = client.submit_run_yaml(text, "batch", tag="examples")["run_id"]
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


def test_a_wait_ends_at_its_limit_and_says_how_the_run_is(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("noop", tag="nobody-serves-this")["run_id"]
    with pytest.raises(TimeoutError, match=f"run {run_id} is still PENDING after 0.2 s; it goes on"):
        client.wait(run_id, timeout_sec=0.2)


def test_an_error_answer_is_an_http_status_error_with_the_ids(client: PyocoHttpClient) -> None:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        client.submit_run("noop", tag="a.b")
    error = caught.value
    assert isinstance(error, PyocoHttpError)
    assert error.response.status_code == error.status == 422
    assert (error.err_id, error.msg_id) == ("ERR-PYOCO-0002", "MSG-PYOCO-0002")
    assert error.title == Err.INVALID_REQUEST.en
    assert [problem.field for problem in error.errors] == ["tag"]
    assert "ERR-PYOCO-0002 (422 Unprocessable" in str(error)


def test_a_mistake_in_a_flow_yaml_comes_with_its_place(client: PyocoHttpClient) -> None:
    with pytest.raises(PyocoHttpError) as caught:
        client.submit_run_yaml("flow:\n  graph: a >> bb\ntasks:\n  a: {callable: 'm:f'}\n", "typo")
    (problem,) = caught.value.errors
    assert (problem.field, problem.value, problem.line, problem.column) == ("flow.graph", "'bb'", 2, 15)


@pytest.mark.parametrize("run_id", [NO_RUN, "../health", "a b/?x=1#y"])
def test_a_run_that_is_not_there_is_a_404(client: PyocoHttpClient, run_id: str) -> None:
    with pytest.raises(PyocoHttpError) as caught:
        client.get_run(run_id)
    assert (caught.value.status, caught.value.err_id) in {(404, "ERR-PYOCO-0005"), (404, None)}


def test_errors_speak_the_language_that_was_asked_for(gateway_url: str) -> None:
    with PyocoHttpClient(gateway_url, language="ja") as client, pytest.raises(PyocoHttpError) as caught:
        client.get_tasks(NO_RUN)
    assert caught.value.title == Err.RUN_NOT_FOUND.ja


def test_a_proxy_of_the_environment_is_not_asked_for_the_loopback(
    gateway_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with PyocoHttpClient(gateway_url) as client:
        assert client.health()["status"] == "ok"


def test_nobody_there_names_the_address_but_not_its_password() -> None:
    with (
        PyocoHttpClient("http://user:secret@127.0.0.1:1") as client,
        pytest.raises(GatewayUnreachable) as caught,
    ):
        client.health()
    assert caught.value.error is Err.GATEWAY_UNREACHABLE
    assert "http://127.0.0.1:1: " in str(caught.value)
    assert "secret" not in str(caught.value)


def test_what_is_no_gateway_is_recognised() -> None:
    with (
        stub([(200, "text/html", "<h1>Hello</h1>")]) as (url, _),
        PyocoHttpClient(url) as client,
        pytest.raises(GatewayUnreachable, match=r"no pyoco-server gateway .*text/html"),
    ):
        client.health()


def test_an_error_page_of_a_proxy_is_shown_as_it_is() -> None:
    with (
        stub([(502, "text/html", "<h1>Bad Gateway</h1>")]) as (url, _),
        PyocoHttpClient(url) as client,
        pytest.raises(PyocoHttpError) as caught,
    ):
        client.health()
    assert (caught.value.err_id, caught.value.errors) == (None, [])
    assert caught.value.detail == "<h1>Bad Gateway</h1>"


@pytest.mark.parametrize(
    "address", ["", "localhost:8000", "ftp://127.0.0.1", "http://", "http://[::1", "http://u:secret@[::1"]
)
def test_an_address_that_can_be_none_is_refused_at_once(address: str) -> None:
    with pytest.raises(
        ValueError, match=r"is no address of a gateway; wanted a URL such as http://"
    ) as caught:
        PyocoHttpClient(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["ключ", "secret\nX-Other: 1", " secret", "secret\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="wanted visible ASCII characters") as caught:
        PyocoHttpClient(api_key=key)
    assert key.strip() not in str(caught.value)


def test_the_api_key_is_sent_in_its_header() -> None:
    with stub([answer(status="ok")]) as (url, seen):
        with PyocoHttpClient(url, api_key="k-123", api_key_header="X-Team-Key") as client:
            client.health()
        with PyocoHttpClient(url) as client:
            client.health()
    assert seen[0]["x-team-key"] == "k-123"
    assert not any("key" in name for name in seen[1])


def test_a_wait_outlives_a_gateway_that_is_away_for_a_moment() -> None:
    away = (503, "application/problem+json", json.dumps({"title": "x", "err_id": "ERR-PYOCO-0003"}))
    running_run, ended_run = answer(status="RUNNING", tasks={}), answer(status="COMPLETED", tasks={})
    with (
        stub([running_run, away, away, ended_run]) as (url, seen),
        PyocoHttpClient(url) as client,
    ):
        assert client.wait(NO_RUN, timeout_sec=20)["status"] == "COMPLETED"
    assert len(seen) == 4
