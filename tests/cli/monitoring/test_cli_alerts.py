"""`pyoco-client alerts`: applied from a file, tested, muted, their history shown, deleted."""

from pathlib import Path

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.waiting import eventually_sync
from tests.support.webhooks import webhook_receiver

FILE = """
alerts:
  - alert_id: cli-queue
    condition: queue_age
    tag: cli-nobody
    after_sec: 1
    channels: [{name: ops, kind: webhook, url_env: OPS_URL}]
    note: of a test
"""


def test_an_alert_is_applied_fires_and_is_muted(
    client: ClientCommand, http: PyocoHttpClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(FILE)
    missing = client("alerts", "apply", "-f", str(path))
    assert (missing.returncode, "OPS_URL" in missing.stderr) == (1, True)
    with webhook_receiver() as receiver:
        monkeypatch.setenv("OPS_URL", receiver.url)
        applied = client.json("alerts", "apply", "-f", str(path))
        assert [each["alert_id"] for each in applied] == ["cli-queue"]
        assert "queue_age" in client.table("alerts", "apply", "-f", str(path))

        assert "delivered" in client.table("alerts", "test", "cli-queue")
        receiver.statuses.append(500)
        failed = client("alerts", "test", "cli-queue", "--channel", "ops")
        assert (failed.returncode, "answered with 500" in failed.stdout) == (1, True)

        # No worker has the tag: the run stays in the queue.
        http.submit_run("chain", {"x": 1}, tag="cli-nobody")
        eventually_sync(lambda: client.json("alerts", "history", "cli-queue"), describe="the alert has fired")
        assert "firing" in client.table("alerts", "list", "--search", "cli-queue")
        assert "oldest queued run" in client.table("alerts", "history", "cli-queue")
    shown = client.table("alerts", "show", "cli-queue")
    assert "127.0.0.1 (fingerprint" in shown
    assert receiver.url not in shown
    muted = client.json("alerts", "mute", "cli-queue", "--for", "2h", "--note", "a move")
    assert muted["mute"]["note"] == "a move"
    assert "muted" in client.table("alerts", "list")
    assert client.json("alerts", "unmute", "cli-queue")["mute"] is None
    assert client.json("alerts", "delete", "cli-queue")["deleted"] is True
    assert "ERR-PYOCO-0073" in client("alerts", "show", "cli-queue").stderr
