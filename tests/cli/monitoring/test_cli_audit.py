"""`pyoco-client audit`."""

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand


def test_a_cancel_is_listed_with_who_did_it(
    client: ClientCommand, http: PyocoHttpClient, ended_run: str
) -> None:
    client.json("cancel", ended_run, "--reason", "from the terminal")
    http.cancel_run(ended_run)
    by_python, by_cli = client.json("audit", "--run", ended_run, "--since", "2h", "--action", "run.cancel")
    assert (by_cli["via"], by_cli["details"]) == ("cli", {"reason": "from the terminal"})
    assert by_python["via"] == "python"
    assert by_cli["target"] == {"kind": "run", "id": ended_run, "name": "chain"}
    listed = client.table("audit", "--actor", "anonymous", "--run", ended_run, "--limit", "1", columns=200)
    assert "anonymous (127.0.0.1)" in listed
    assert "run.cancel" in listed
    assert client.json("audit", "--run", ended_run, "--outcome", "refused", "--all") == []
    assert client("audit", "--run", ended_run, "--json").stdout.startswith("[")
    assert [each["id"] for each in http.iter_audit(1, run_id=ended_run)] == [by_python["id"], by_cli["id"]]


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
