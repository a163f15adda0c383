"""A gateway killed (SIGKILL) while it handles an answer, at each point between its writes.

The only gateway kills itself at that point, and another one is started then. The answer counts once, the run
continues, and the notifications are delivered.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.waits.wait_models import WaitState
from tests.faults.chaos.service import Service
from tests.faults.crashing_deployment import Deployment, crashing_deployment
from tests.support.places import FLOWS
from tests.support.programs import WORKER
from tests.support.running.notifying import all_delivered
from tests.support.running.waiting_runs import wait_events_of
from tests.support.waiting import eventually
from tests.support.webhooks import WebhookReceiver, webhook_receiver

ANSWER = {"payload": {"ok": True}, "decision_id": "click"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def receiver() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployment(
    shared_config: NatsBackendConfig, receiver: WebhookReceiver, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    folder = tmp_path_factory.mktemp("deployment")
    settings = {
        "PYOCO_SWEEP_INTERVAL_SEC": "0.5",
        "PYOCO_NOTIFY_URL": receiver.url,
        # What a killed gateway was sending is sent again five seconds after this.
        "PYOCO_NOTIFY_TIMEOUT_SEC": "1",
    }
    async with crashing_deployment(shared_config, folder, **settings) as deployment:
        flows = ("--flows", str(FLOWS), "--worker-id", "w1")
        worker = Service("worker", WORKER, *flows, folder=folder, env=deployment.env)
        await worker.start()
        try:
            yield deployment
        finally:
            worker.kill()


REPEATED_TWICE = ["answer stored", "repeated"]


@pytest.mark.parametrize(
    ("crash_points", "path", "client_repeats"),
    [
        (["answer checked"], "respond", True),
        (["answer stored"], "respond", False),
        (["answer stored"], "resume", True),
        (["answer reported"], "respond", False),
        (["answer reported"], "respond", True),
        (["run queued"], "respond", True),
        (["run queued"], "respond", False),
        # The client repeats its answer, and that gateway crashes as well.
        (REPEATED_TWICE, "resume", True),
        (REPEATED_TWICE, "respond", False),
    ],
    ids=lambda value: " then ".join(value) if isinstance(value, list) else str(value),
)
async def test_an_answer_counts_once_and_is_reported(
    deployment: Deployment,
    receiver: WebhookReceiver,
    tmp_path: Path,
    path: str,
    crash_points: list[str],
    client_repeats: bool,
) -> None:
    notes = tmp_path / "notes"
    await deployment.start_gateway(crash_points[0])
    submission = {"flow_name": "approval", "params": {"notes": str(notes)}}
    run_id = (await deployment.post("/runs", submission, **{"Idempotency-Key": str(tmp_path)}))["run_id"]
    run = await deployment.reaches(run_id, "WAITING_HUMAN")
    wait_id = run["open_waits"][0]["wait_id"]
    url, body = f"/waits/{wait_id}/respond", ANSWER
    if path == "resume":
        url = "/resume"
        body = {"runId": run_id, "payload": ANSWER["payload"], "decisionId": ANSWER["decision_id"]}

    await deployment.gateway_crashes_on(url, body)
    for crash_point in crash_points[1:]:
        await deployment.start_gateway(crash_point)
        await deployment.gateway_crashes_on(url, body)
    decided_before = (await deployment.wait(run_id)).record
    is_decided = crash_points != ["answer checked"]
    assert decided_before.state == (WaitState.ANSWERED if is_decided else WaitState.OPEN)

    async with deployment.successor():
        if client_repeats:
            assert (await deployment.post(url, body))["success"]
        ended = await deployment.reaches(run_id, "COMPLETED", "FAILED", "CANCELLED")
        assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
        await expect_continued_once(deployment, run_id)
        # A later repetition is recognised too.
        assert (await deployment.post(f"/waits/{wait_id}/respond", ANSWER))["repeated"]
        await expect_reported_once(deployment, receiver, run_id)
    decided = (await deployment.wait(run_id)).record
    assert notes.read_text().split() == ["prepare", "tell", "pay"]
    assert (decided.state, decided.payload) == (WaitState.ANSWERED, ANSWER["payload"])
    if is_decided:
        assert decided == decided_before


async def expect_continued_once(deployment: Deployment, run_id: str) -> None:
    """A worker has claimed the run twice: after its submit, and after the answer."""
    stored = await RunStore(deployment.connection).get_from_leader(run_id)
    assert stored is not None
    assert (stored.snapshot.attempt, stored.snapshot.continuations) == (2, 1)


async def expect_reported_once(deployment: Deployment, receiver: WebhookReceiver, run_id: str) -> None:
    """Both events are delivered, each under one id, and nothing is left to be published."""
    wait_id = (await deployment.wait(run_id)).record.wait_id
    expected = {f"{wait_id}.opened", f"{wait_id}.answered"}

    def received() -> set[str]:
        return {event_id for event_id in receiver.ids() if event_id.startswith(wait_id)}

    await eventually(lambda: received() >= expected, describe="both notifications are received")

    async def outbox_is_empty() -> bool:
        return not (await deployment.wait(run_id)).outbox

    await eventually(outbox_is_empty, describe="the outbox is empty")
    await all_delivered(deployment.connection)
    assert received() == expected
    events = await wait_events_of(deployment.connection, run_id)
    assert [event.kind.value for event in events] == ["opened", "answered"]
