"""`pyoco-client audit`."""

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.waiting import LIMIT_SEC


def test_a_cancel_is_listed_with_who_did_it(client: ClientCommand, http: PyocoHttpClient) -> None:
    # A run of its own: other tests rerun the shared one, which is audited too.
    run_id = http.wait(http.submit_run("chain", {"x": 4})["run_id"], LIMIT_SEC)["run_id"]
    client.json("cancel", run_id, "--reason", "from the terminal")
    http.cancel_run(run_id)
    by_python, by_cli = client.json("audit", "--run", run_id, "--since", "2h", "--action", "run.cancel")
    assert (by_cli["via"], by_cli["details"]) == ("cli", {"reason": "from the terminal"})
    assert by_python["via"] == "python"
    assert by_cli["target"] == {"kind": "run", "id": run_id, "name": "chain"}
    listed = client.table("audit", "--actor", "anonymous", "--run", run_id, "--limit", "1", columns=200)
    assert "anonymous (127.0.0.1)" in listed
    assert "run.cancel" in listed
    assert client.json("audit", "--run", run_id, "--outcome", "refused", "--all") == []
    assert client("audit", "--run", run_id, "--json").stdout.startswith("[")
    assert [each["id"] for each in http.iter_audit(1, run_id=run_id)] == [by_python["id"], by_cli["id"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--outcome", "good"), "outcome"),
        (("--run", "x"), "run_id"),
        (("--since", "then"), "--since"),
        (("--all", "--limit", "2"), "either --limit or --all"),
    ],
)
def test_a_wrong_filter_is_named(client: ClientCommand, arguments: tuple[str, ...], said: str) -> None:
    failed = client("audit", *arguments)
    assert (failed.returncode != 0, failed.stdout) == (True, "")
    assert said in failed.stderr
