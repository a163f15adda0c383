"""The examples that are programs of their own do what they say."""

import signal
import sys
from pathlib import Path

from pyoco_server.http_client import PyocoHttpClient
from tests.support.places import EXAMPLES
from tests.support.programs import SERVER, running, started
from tests.support.waiting import eventually_sync


def test_a_worker_inside_a_program(nats_url: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "run_worker.py")]
    with (
        running(SERVER, "up", "--port", "0", "--nats-url", nats_url) as (_, gateway),
        started(command, cwd=tmp_path, PYTHONUNBUFFERED="1", PYOCO_NATS_URL=nats_url) as program,
        PyocoHttpClient(gateway["url"]) as client,
    ):
        eventually_sync(lambda: client.health()["nats"]["ready"], describe="NATS is ready")
        program.writes("waiting for runs")
        run_id = client.submit_run("double", params={"number": 21})["run_id"]
        assert client.wait(run_id, 15)["status"] == "COMPLETED"
        assert client.get_tasks(run_id)["task_records"]["double"]["output"] == 42

        unknown = client.wait(client.submit_run("triple")["run_id"], 15)
        assert (unknown["status"], unknown["reason"]) == ("FAILED", "flow_not_found")
        program.send(signal.SIGTERM)
        assert program.end() == 0
    assert "Traceback" not in program.stderr
