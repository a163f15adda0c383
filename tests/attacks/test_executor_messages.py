"""A task that writes to the sockets of its executor: its run fails, and nothing else does."""

import base64
import struct

import pytest

from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.ipc.protocol import Outcome, Printed, frame, packet
from tests.support.running.gateway import RunningGateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEEP_RECORD = b'{"output":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
ATTACKS = {
    "a record nested 5,000 deep": frame(Outcome(status="COMPLETED", task_records={"a": DEEP_RECORD})),
    "a record that is not JSON": frame(Outcome(status="COMPLETED", task_records={"a": b"NaN"})),
    "an unknown status": frame(Outcome(status="HACKED")),
    "an unknown state of a task": frame(Outcome(status="COMPLETED", tasks={"a": "HACKED"})),
    "a wait without a question": frame(Outcome(status="WAITING_HUMAN")),
    "a message of 4 GB": struct.pack("!I", 2**32 - 1) + b"x",
    "no message": struct.pack("!I", 5) + b"hello",
    "lines that are none": frame(Printed(lines=[5])),  # type: ignore[list-item]
}


async def is_unharmed(gateway: RunningGateway, worker: PyocoNatsWorker) -> None:
    """The worker executes other runs, and nothing that is stored is unreadable."""
    assert (await gateway.run("noop"))["status"] == "COMPLETED"
    assert (await gateway.http.get("/health")).json()["unreadable"] == {}


@pytest.mark.parametrize("data", ATTACKS.values(), ids=ATTACKS)
async def test_an_invalid_message_fails_the_run_that_sent_it(
    data: bytes, shared_gateway: RunningGateway, shared_worker: PyocoNatsWorker
) -> None:
    run = await shared_gateway.run("writes-to-sockets", params={"data": base64.b64encode(data).decode()})
    assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")
    assert "sent an invalid message, and was ended" in run["error"]
    await is_unharmed(shared_gateway, shared_worker)


async def test_an_invalid_message_on_the_other_channel_fails_the_run(
    shared_gateway: RunningGateway, shared_worker: PyocoNatsWorker
) -> None:
    """It is read when the process has exited."""
    data = base64.b64encode(packet(Outcome(status="HACKED"))).decode()
    run = await shared_gateway.run("writes-to-sockets", params={"data": data, "kind": "packets"})
    assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")
    await is_unharmed(shared_gateway, shared_worker)
