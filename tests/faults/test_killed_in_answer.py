"""A gateway killed (SIGKILL) inside an answer, at each point between its writes.

Real processes: the one gateway there is dies at that point, and another one starts when it is dead. The
answer counts once, the run continues, and the receiver of notifications hears of it.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.resources import ensure_resources
from pyoco_server.broker.stores.wait_events import WaitEvents
from pyoco_server.broker.stores.wait_store import StoredWait, WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.wait_models import WaitState
from tests.faults.chaos.service import Service
from tests.support.broker.nats_server import NatsServer
from tests.support.places import FLOWS, ROOT
from tests.support.programs import SERVER, WORKER, environment
from tests.support.running.notifying import all_done
from tests.support.waiting import eventually
from tests.support.webhooks import WebhookReceiver, webhook_receiver

LIMIT_SEC = 90.0
DYING = "tests.support.running.crashing_gateway"
ANSWER = {"payload": {"ok": True}, "decision_id": "click"}


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as found:
        yield found


@dataclass
class Stage:
    """NATS, a worker, and gateways one after the other at their own addresses."""

    folder: Path
    env: dict[str, str]
    connection: Connection
    http: httpx.AsyncClient
    gateway: Service | None = None

    async def start_gateway(self, crash_point: str | None = None) -> None:
        """One that serves, or that dies at this crash point."""
        name = f"gateway-{crash_point or 'heir'}".replace(" ", "-")
        module, *options = (SERVER,) if crash_point is None else (DYING, crash_point, "1")
        self.gateway = Service(name, module, *options, "up", "--port", "0", folder=self.folder, env=self.env)
        self.http.base_url = httpx.URL((await self.gateway.start())["url"])

        async def ready() -> bool:
            return (await self.http.get("/health?ready=1")).status_code == 200

        await eventually(ready, describe="the gateway is ready")

    async def post(self, path: str, body: dict[str, Any], **headers: str) -> Any:
        """The answer to a request that is repeated while it is answered with 503."""

        async def answered() -> httpx.Response | None:
            answer = await self.http.post(path, json=body, headers=headers)
            return None if answer.status_code == 503 else answer

        answer = await eventually(answered, describe=f"POST {path} is answered")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def get(self, path: str) -> Any:
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def reaches(self, run_id: str, *statuses: str) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            run: dict[str, Any] = await self.get(f"/runs/{run_id}")
            return run if run["status"] in statuses else None

        return await eventually(there, describe=f"the run is {' or '.join(statuses)}")

    async def gateway_dies_of(self, path: str, body: dict[str, Any]) -> None:
        """The client gets no answer, and the gateway is dead."""
        assert self.gateway is not None
        with pytest.raises(httpx.TransportError):
            await self.post(path, body)
        await self.gateway.killed_itself()

    async def wait(self, run_id: str) -> StoredWait:
        [wait] = await WaitStore(self.connection).of_run_from_leader(run_id)
        return wait


@asynccontextmanager
async def running_stage(folder: Path, receiver: WebhookReceiver) -> AsyncIterator[Stage]:
    nats = NatsServer(folder / "nats")
    nats.start()
    settings = {
        "PYOCO_NATS_URL": nats.url,
        "PYOCO_SWEEP_INTERVAL_SEC": "0.5",
        "PYOCO_NOTIFY_URL": receiver.url,
        "PYOCO_LOAD_DOTENV": "0",
    }
    connection = Connection(NatsBackendConfig.from_env(settings), name="faults")
    connection.add_hook(lambda: ensure_resources(connection))
    env = environment(**settings, PYTHONPATH=str(ROOT), PYOCO_INDEX_DIR=str(folder / "index"))
    worker = Service("worker", WORKER, "--flows", str(FLOWS), "--worker-id", "w1", folder=folder, env=env)
    http = httpx.AsyncClient(timeout=LIMIT_SEC, verify=False)
    stage = Stage(folder, env, connection, http)
    try:
        await connection.start()
        await connection.wait_ready(LIMIT_SEC)
        await worker.start()
        yield stage
    finally:
        await http.aclose()
        worker.kill()
        if stage.gateway is not None:
            stage.gateway.kill()
        await connection.close()
        nats.stop()


REPEATED_TWICE = ["answer stored", "repeated"]


@pytest.mark.parametrize(
    ("moments", "path", "client_repeats"),
    [
        (["answer checked"], "respond", True),
        (["answer stored"], "respond", True),
        (["answer stored"], "respond", False),
        (["answer stored"], "resume", True),
        (["answer reported"], "respond", True),
        (["answer reported"], "respond", False),
        (["run queued"], "respond", True),
        (["run queued"], "respond", False),
        # The client repeats its answer, and that gateway dies as well.
        (REPEATED_TWICE, "resume", True),
        (REPEATED_TWICE, "respond", False),
    ],
    ids=lambda value: " then ".join(value) if isinstance(value, list) else str(value),
)
async def test_an_answer_counts_once_and_is_reported(
    tmp_path: Path, receiver: WebhookReceiver, path: str, moments: list[str], client_repeats: bool
) -> None:
    notes = tmp_path / "notes"
    async with running_stage(tmp_path, receiver) as stage:
        await stage.start_gateway(moments[0])
        wish = {"flow_name": "approval", "params": {"notes": str(notes)}}
        run_id = (await stage.post("/runs", wish, **{"Idempotency-Key": "one-run"}))["run_id"]
        run = await stage.reaches(run_id, "WAITING_HUMAN")
        wait_id = run["open_waits"][0]["wait_id"]
        url, body = f"/waits/{wait_id}/respond", ANSWER
        if path == "resume":
            url = "/resume"
            body = {"runId": run_id, "payload": ANSWER["payload"], "decisionId": ANSWER["decision_id"]}

        await stage.gateway_dies_of(url, body)
        for crash_point in moments[1:]:
            await stage.start_gateway(crash_point)
            await stage.gateway_dies_of(url, body)
        decided_before = (await stage.wait(run_id)).record
        assert decided_before.state == (
            WaitState.OPEN if moments == ["answer checked"] else WaitState.ANSWERED
        )

        await stage.start_gateway()
        if client_repeats:
            assert (await stage.post(url, body))["success"]
        ended = await stage.reaches(run_id, "COMPLETED", "FAILED", "CANCELLED")
        assert (ended["status"], ended["attempt"]) == ("COMPLETED", 2)
        if client_repeats:
            # Days later it is the same answer still.
            assert (await stage.post(f"/waits/{wait_id}/respond", ANSWER))["repeated"]
        await expect_reported_once(stage, receiver, run_id)
        decided = (await stage.wait(run_id)).record
    assert notes.read_text().split() == ["prepare", "tell", "pay"]
    assert (decided.state, decided.payload) == (WaitState.ANSWERED, ANSWER["payload"])
    if decided_before.state is WaitState.ANSWERED:
        assert decided == decided_before


async def expect_reported_once(stage: Stage, receiver: WebhookReceiver, run_id: str) -> None:
    """Both events are delivered, each under one id, and nothing is left to be published."""
    wait_id = (await stage.wait(run_id)).record.wait_id
    expected = {f"{wait_id}.opened", f"{wait_id}.answered"}
    await eventually(lambda: set(receiver.ids()) >= expected, describe="the receiver heard of both")

    async def outbox_is_empty() -> bool:
        return not (await stage.wait(run_id)).outbox

    await eventually(outbox_is_empty, describe="the outbox is empty")
    await all_done(stage.connection)
    assert set(receiver.ids()) == expected
    events = await WaitEvents(stage.connection).of_run(run_id)
    assert [event.kind.value for event in events] == ["opened", "answered"]
