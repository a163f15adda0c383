"""`pyoco-client signal`, `signals` and `event`."""

import json
from pathlib import Path

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.waiting import LIMIT_SEC, eventually_sync

NO_RUN = "00000000-0000-4000-8000-000000000000"


def waiting(http: PyocoHttpClient, flow: str, **params: object) -> str:
    """A run of the flow that waits."""
    run_id = http.submit_run(flow, params)["run_id"]
    eventually_sync(lambda: http.get_run(run_id)["status"] == "WAITING", describe="the run waits")
    return run_id


def output(http: PyocoHttpClient, run_id: str, task: str) -> object:
    assert http.wait(run_id, LIMIT_SEC)["status"] == "COMPLETED"
    record: dict[str, object] = http.get_tasks(run_id)["task_records"][task]
    return record["output"]


def test_a_signal_is_sent_listed_and_received(
    client: ClientCommand, http: PyocoHttpClient, tmp_path: Path
) -> None:
    run_id = waiting(http, "one_signal")
    file = tmp_path / "data.json"
    file.write_text('{"a": 1}')
    key = ("--idempotency-key", "k")
    sent = [client.json("signal", run_id, "go", "--json", f"@{file}", *key) for _ in range(2)]
    assert sent[0] == sent[1]
    assert output(http, run_id, "one_signal") == {"a": 1}
    listed = client.json("signals", run_id)["items"]
    assert [(each["signal_id"], each["data"], each["state"]) for each in listed] == [
        (sent[0]["signal_id"], {"a": 1}, "received")
    ]
    table = client("signals", run_id, "--output", "table").stdout
    assert "received" in table
    assert "one_signal" in table


def test_an_event_is_sent_and_received(client: ClientCommand, http: PyocoHttpClient) -> None:
    run_id = waiting(http, "one_event", order_id=41)
    data = json.dumps({"order": {"id": 41}})
    sent = [client.json("event", "order.paid", "--json", data, "--id", "cli-41") for _ in range(2)]
    assert sent == [{"event_id": "cli-41", "duplicate": False}, {"event_id": "cli-41", "duplicate": True}]
    assert output(http, run_id, "one_event") == {"order": {"id": 41}}
    table = client("event", "order.paid", "--id", "cli-41", "--output", "table").stdout
    assert "it was sent before" in table


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("signal", NO_RUN, "go"), "ERR-PYOCO-0005"),
        (("signal", NO_RUN, "a b"), "letters, digits"),
        (("signal", "x", "go"), "expected a run id"),
        (("signal", NO_RUN, "go", "--json", "{"), "is not JSON"),
        (("signal", NO_RUN, "go", "--json", "@/no/such/file"), "cannot read"),
        (("event", "a/b"), "letters, digits"),
        (("event", "x", "--id", "a b"), "visible ASCII"),
        (("signals", NO_RUN), "ERR-PYOCO-0005"),
    ],
)
def test_errors_say_what_was_expected(client: ClientCommand, arguments: tuple[str, ...], said: str) -> None:
    failed = client(*arguments)
    assert failed.returncode == 1
    assert said in failed.stderr


def test_an_ended_run_takes_no_signal(client: ClientCommand, ended_run: str) -> None:
    failed = client("signal", ended_run, "go")
    assert failed.returncode == 1
    assert "the run is COMPLETED" in failed.stderr
