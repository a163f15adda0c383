"""`pyoco-client health`, and how commands report a NATS that cannot write."""

import json
from pathlib import Path

from tests.support.broker.full_disk import disk_full
from tests.support.broker.nats_server import NatsServer
from tests.support.commands import ClientCommand, call_client
from tests.support.programs import SERVER, running
from tests.support.waiting import eventually_sync


def test_a_healthy_gateway_is_shown_as_ready(client: ClientCommand) -> None:
    assert client.json("health")["storage"] == {"ready": True, "cause": None, "detail": "", "low": []}
    rows = dict(line.split(maxsplit=1) for line in client.table("health").splitlines())
    assert rows["NATS"].strip() == "ready"
    assert rows["index"].strip() == "ready"


def test_commands_name_a_full_disk_as_the_cause(own_nats: NatsServer, tmp_path: Path) -> None:
    gateway = ("up", "--port", "0", "--nats-url", own_nats.url)
    with running(SERVER, *gateway, cwd=tmp_path, PYOCO_NATS_REQUEST_TIMEOUT_SEC="1.5") as (_, facts):
        server = ("--server", facts["url"])
        eventually_sync(lambda: call_client(*server, "health").returncode == 0, describe="it is ready")
        with disk_full(own_nats.pid):

            def refused() -> str | None:
                done = call_client(*server, "submit", "--flow-name", "noop")
                assert done.returncode == 1, done.stdout
                return done.stderr if "ERR-PYOCO-0046" in done.stderr else None

            shown = eventually_sync(refused, describe="the cause is known")
        assert "ERR-PYOCO-0046 NATS cannot write" in shown
        assert "its disk is full" in shown
        assert "restart the NATS server" in shown
        done = call_client(*server, "health", "--output", "table")
        assert done.returncode == 1
        assert "not ready: it cannot write: its disk is full" in " ".join(done.stdout.split())
        assert json.loads(call_client(*server, "health").stdout)["storage"]["cause"] == "not_stored"
