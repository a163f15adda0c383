"""The examples that wait for a person: approved, edited and rejected, in Python and as a flow.yaml."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.places import EXAMPLES
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker

EXAMPLE_FLOWS = EXAMPLES / "flows"
FLOWS = ["invoice", "invoice_approval"]


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(shared_gateway: RunningGateway) -> AsyncIterator[RunningGateway]:
    """With a worker that has the examples."""
    async with serving_worker(shared_gateway.inside.config, flows=EXAMPLE_FLOWS):
        yield shared_gateway


async def asked(gateway: RunningGateway, flow: str) -> dict[str, Any]:
    """The wait of a new run of the flow."""
    run_id = await gateway.submit(flow)
    waiting = await gateway.reaches(run_id, "WAITING_HUMAN", "FAILED")
    assert waiting["status"] == "WAITING_HUMAN", waiting["error"]
    [wait] = waiting["open_waits"]
    answer = await gateway.http.get(f"/waits/{wait['wait_id']}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def respond(gateway: RunningGateway, wait: dict[str, Any], **answer: Any) -> dict[str, Any]:
    answered = await gateway.http.post(f"/waits/{wait['wait_id']}/respond", json=answer)
    assert answered.status_code == 200, answered.text
    run = await gateway.ends(wait["run_id"])
    assert run["status"] == "COMPLETED", run["error"]
    return run


@pytest.mark.parametrize("flow", FLOWS)
async def test_an_invoice_is_approved(gateway: RunningGateway, flow: str) -> None:
    wait = await asked(gateway, flow)
    assert "is this payment right?" in wait["message"]
    assert wait["proposal"] == {"amount": 1250.0, "account": "4930"}
    run = await respond(gateway, wait, decision="approved", digest=wait["proposal_digest"])
    assert run["task_records"]["settle"]["output"] == "paid 1250.00 EUR, booked to 4930 (approved)"


@pytest.mark.parametrize("flow", FLOWS)
async def test_an_invoice_is_edited_within_its_schema(gateway: RunningGateway, flow: str) -> None:
    wait = await asked(gateway, flow)
    wrong = {"decision": "edited", "payload": {"amount": -1, "account": "49x"}}
    refused = await gateway.http.post(f"/waits/{wait['wait_id']}/respond", json=wrong)
    assert refused.status_code == 422, refused.text
    edited = {"amount": 1000.5, "account": "4940"}
    run = await respond(gateway, wait, decision="edited", payload=edited)
    assert run["task_records"]["settle"]["output"] == "paid 1000.50 EUR, booked to 4940 (edited)"


@pytest.mark.parametrize(
    ("flow", "task", "output"),
    [
        ("invoice", "settle", "not paid: paid already"),
        ("invoice_approval", "send_back", "sent back to the supplier: paid already"),
    ],
)
async def test_an_invoice_is_rejected(gateway: RunningGateway, flow: str, task: str, output: str) -> None:
    wait = await asked(gateway, flow)
    run = await respond(gateway, wait, decision="rejected", note="paid already")
    assert run["task_records"][task]["output"] == output
