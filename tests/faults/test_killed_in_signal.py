"""A gateway killed (SIGKILL) while it handles a signal or an event, at each point between its writes.

The only gateway kills itself at that point, and another one is started then. What was stored is received
once, and the run continues.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.waits.mailbox_store import MailboxStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus, WaitKind
from pyoco_server.records.waits.wait_models import NO_DEADLINE
from tests.faults.crashing_deployment import Deployment, crashing_deployment
from tests.support.running.waiting_runs import waiting_run
from tests.support.waiting import eventually

DATA: dict[str, Any] = {"n": 1}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployment(
    shared_config: NatsBackendConfig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    folder = tmp_path_factory.mktemp("deployment")
    async with crashing_deployment(shared_config, folder, PYOCO_SWEEP_INTERVAL_SEC="0.5") as started:
        yield started


@pytest.mark.parametrize(
    ("kind", "crash_point"),
    [
        (WaitKind.EVENT, "event stored"),
        (WaitKind.EVENT, "answer stored"),
        (WaitKind.EVENT, "run queued"),
        (WaitKind.SIGNAL, "signal stored"),
        (WaitKind.SIGNAL, "signal taken"),
        (WaitKind.SIGNAL, "answer stored"),
        (WaitKind.SIGNAL, "run queued"),
    ],
)
async def test_what_was_stored_is_received_once(
    deployment: Deployment, kind: WaitKind, crash_point: str
) -> None:
    connection: Connection = deployment.connection
    await deployment.start_gateway(crash_point)
    topic = crash_point.replace(" ", "-")
    run = await waiting_run(connection, {"kind": kind, "topic": topic, "deadline_at": NO_DEADLINE})
    path, body = f"/runs/{run.run_id}/signals/{topic}", DATA
    if kind is WaitKind.EVENT:
        path, body = "/events", {"name": topic, "data": DATA, "id": "e"}
    # Only some of the points come before the response.
    try:
        await deployment.http.post(path, json=body)
    except httpx.TransportError:
        assert crash_point.endswith("stored") or crash_point.endswith("taken")
    assert deployment.gateway is not None
    await deployment.gateway.killed_itself()
    async with deployment.successor():
        await run.has_states("answered")
        await run.has_jobs(1)

        async def goes_on() -> bool:
            return (await run.now()).status is RunStatus.PENDING

        await eventually(goes_on, describe="the run goes on")
    assert (await run.wait()).payload == DATA
    if kind is WaitKind.SIGNAL:
        [signal] = (await MailboxStore(connection).get(run.run_id)).mailbox.signals
        wait = await run.wait()
        assert (signal.taken_by, signal.signal_id) == (wait.wait_id, wait.decision_id)
    assert len(await run.jobs()) == 1
