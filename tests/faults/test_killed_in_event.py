"""A gateway killed (SIGKILL) while it processes a workflow event, at each point between its writes.

The only gateway kills itself at that point, and another one is started then. The sender, which got no answer,
repeats the event: one run, and the answer says that it is a duplicate.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from tests.faults.crashing_deployment import Deployment, crashing_deployment
from tests.support.running.workflow_events import ACTIONS, EVENTS, TEMPLATES, template

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployment(
    shared_config: NatsBackendConfig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    async with crashing_deployment(shared_config, tmp_path_factory.mktemp("deployment")) as started:
        yield started


@pytest.mark.parametrize(
    ("crash_point", "was_started"),
    [
        ("receipt reserved", False),
        ("run created", True),
        ("job", True),
        ("run of a hook", True),
        ("audit row", True),
    ],
)
async def test_a_repeated_event_finds_its_one_run(
    deployment: Deployment, crash_point: str, was_started: bool
) -> None:
    await deployment.start_gateway(crash_point)
    template_id = crash_point.replace(" ", "-")
    http = deployment.http
    assert (await http.put(f"{ACTIONS}/close", json={"flow_name": "noop"})).status_code == 200
    ym: dict[str, Any] = {"year": 2300 + len(crash_point), "month": 1}
    assert (await http.post(TEMPLATES, json=template(template_id, **ym))).status_code == 200
    event: dict[str, Any] = {"template_id": template_id, "idempotency_key": "k", "payload": 1}
    with pytest.raises(httpx.TransportError):
        await http.post(EVENTS, json=event)
    assert deployment.gateway is not None
    await deployment.gateway.killed_itself()

    async with deployment.successor():
        runs = f"/runs?cause=event:template:{template_id}"
        assert len(await deployment.get(runs)) == int(was_started)
        answer = await deployment.post(EVENTS, event)
        assert (answer["duplicate"], answer["triggered"]) == (True, False)
        assert [run["run_id"] for run in await deployment.get(runs)] == [answer["run_id"]]
        run = await deployment.get(f"/runs/{answer['run_id']}")
        assert (run["status"], run["params"]["payload"]) == ("PENDING", 1)
        # The row of the start is there, however early the first gateway died.
        month = await deployment.get(f"{EVENTS}/summary?ym={ym['year']}-01")
        assert (month["by_status"]["success"], month["by_status"]["skipped"]) == (1, 1)
