"""`pyoco-client rerun`."""

import json

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.waiting import LIMIT_SEC, eventually_sync


def test_a_rerun_is_accepted_like_a_submit(client: ClientCommand, ended_run: str) -> None:
    done = client.run("rerun", "--run-id", ended_run)
    accepted = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (accepted["status"], accepted["origin_run_id"]) == ("PENDING", ended_run)
    assert "PENDING" in client.table("rerun", "--run-id", ended_run)


def test_a_rerun_can_be_waited_for(client: ClientCommand, ended_run: str) -> None:
    words = ("rerun", "--run-id", ended_run, "--from", "start", "--wait", "--timeout-sec", "30")
    run = client.json(*words)
    assert (run["status"], run["params"]) == ("COMPLETED", {"x": 4})
    assert (run["origin_run_id"], run["rerun_mode"]) == (ended_run, "start")


def test_a_rerun_from_what_failed_or_from_a_task(client: ClientCommand, ended_run: str) -> None:
    failed = json.loads(client("submit", "--flow-name", "failing", "--wait").stdout)["run_id"]
    again = client("rerun", "--run-id", failed, "--from", "failed", "--wait")
    run = json.loads(again.stdout)
    assert (again.returncode, run["status"], run["rerun_mode"]) == (1, "FAILED", "failed")
    run = client.json("rerun", "--run-id", ended_run, "--task", "store", "--wait")
    assert (run["status"], run["rerun_mode"], run["rerun_task"]) == ("COMPLETED", "task", "store")
    assert f"{ended_run} (from store)" in client.table("get", "--run-id", run["run_id"])


def test_a_rerun_keeps_the_answers_of_people(client: ClientCommand, http: PyocoHttpClient) -> None:
    origin = http.submit_run("ask")["run_id"]

    def asks(run_id: str) -> bool:
        return http.get_run(run_id)["status"] == "WAITING_HUMAN"

    eventually_sync(lambda: asks(origin), describe="the run asks")
    client.json("resume", origin, "--json", '"yes"')
    http.wait(origin, LIMIT_SEC)
    kept = client.json("rerun", origin, "--keep-answers", "--wait")
    assert (kept["status"], kept["origin_run_id"]) == ("COMPLETED", origin)
    asked_again = client.json("rerun", origin)["run_id"]
    eventually_sync(lambda: asks(asked_again), describe="without it, the rerun asks")
    http.cancel_run(asked_again)

    eventually_sync(
        lambda: http.list_runs(origin=origin, status=["COMPLETED"]), describe="the rerun is in the list"
    )
    words = ("--origin", origin, "--status", "COMPLETED", "--keep-answers", "--yes", "--wait")
    started = client.json("bulk", "rerun", *words)
    assert (started["keep_answers"], started["done"]) == (True, 1)
    eventually_sync(lambda: http.list_runs(origin=kept["run_id"]), describe="its rerun is in the list")
    repeated = http.list_runs(origin=kept["run_id"])
    assert [http.wait(run["run_id"], LIMIT_SEC)["status"] for run in repeated] == ["COMPLETED"]


def test_a_rerun_with_other_params(client: ClientCommand, http: PyocoHttpClient) -> None:
    origin = http.submit_run("chain", {"x": 4, "region": "us"})["run_id"]
    http.wait(origin, LIMIT_SEC)
    for words, params in (
        (("--param", "x=5"), {"x": 5, "region": "us"}),
        (("--params", '{"x": 6}'), {"x": 6}),
        (("--params", '{"x": 6, "y": 1}', "--param", "x=7"), {"x": 7, "y": 1}),
    ):
        run = client.json("rerun", origin, *words, "--wait")
        assert (run["status"], run["params"]) == ("COMPLETED", params)
    assert client.json("rerun", origin, "--param", "x=4")["params_changed"] is False
    assert client.json("rerun", origin, "--param", "x=5")["params_changed"] is True
    assert "params_changed" not in client.json("rerun", origin)
    assert "use mode 'start'" in client.error("rerun", origin, "--task", "store", "--param", "x=5")
    assert "count=3" in client.error("rerun", origin, "--param", "x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "stroe"), "task='stroe': the run has no such task. Did you mean 'store'?"),
        (("--from", "failed"), "nothing failed in this run"),
    ],
)
def test_a_rerun_that_the_gateway_rejects_is_explained(
    client: ClientCommand, ended_run: str, arguments: tuple[str, ...], message: str
) -> None:
    assert message in client.error("rerun", "--run-id", ended_run, *arguments)


def test_a_rerun_of_a_run_that_has_not_ended_is_explained(client: ClientCommand) -> None:
    run_id = client.json("submit", "--flow-name", "noop", "--tag", "nobody")["run_id"]
    error = client.error("rerun", "--run-id", run_id)
    assert "ERR-PYOCO-0025" in error
    assert "is PENDING; wait for its end" in error
