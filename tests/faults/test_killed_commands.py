"""A gateway killed (SIGKILL) after each write of a bulk operation, a replay and a retry.

The gateway starts again and the client repeats its request. Each item is executed once.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.waits.wait_models import WaitState
from tests.faults.chaos.execution_log import read_execution_log
from tests.faults.chaos.stack import Size, Stack, running_stack
from tests.integration.human.test_wait_retry import failed_run
from tests.support.waiting import LIMIT_SEC, eventually

SIZE = Size(gateways=1, workers=1)
LETTERS = 3

IN_REPLAY = [("key held", 1), ("run created", 1), ("job", 1), ("key accepted", 1), ("letter deleted", 1)]
IN_BULK = [
    ("key held", 1),
    ("part of a bulk operation", 1),
    ("bulk operation", 1),
    ("key accepted", 1),
    # From here on the gateway crashes after its response, between the writes of the items.
    ("progress of a bulk operation", 1),
    ("run created", 1),
    ("job", 2),
    ("letter deleted", 1),
    ("item", 2),
    ("progress of a bulk operation", 2),
]
IN_RETRY = [("run replaced", 1), ("wait event", 1), ("wait", 1), ("letter deleted", 1)]


class Deployment:
    """The deployment, as its clients see it."""

    def __init__(self, stack: Stack, http: httpx.AsyncClient) -> None:
        self.stack = stack
        self.http = http
        self.letters = DeadLetters(stack.connection)

    async def answer(self, method: str, path: str, **request: Any) -> Any:
        """The response to a request that is repeated until there is one."""

        async def answered() -> httpx.Response | None:
            try:
                response = await self.http.request(method, path, **request)
            except httpx.TransportError:
                return None
            return None if response.status_code == 503 else response

        response = await eventually(answered, describe=f"{method} {path} is answered")
        assert response.status_code == 200, response.text
        return response.json()

    async def crash_and_retry(self, crash_point: str, count: int, path: str, **request: Any) -> Any:
        """Send a request to a gateway that kills itself at the crash point; return the reply to the retry."""
        gateway = self.stack.gateways["g1"]
        gateway.kill()
        crashing = self.stack.crashing_gateway(crash_point, count)
        try:
            await crashing.start()
            await self._send_once(path, **request)
            await crashing.killed_itself()
        finally:
            crashing.kill()
        await gateway.start()
        return await self.answer("POST", path, **request)

    async def _send_once(self, path: str, **request: Any) -> None:
        """Retry a 503: the gateway was not ready yet, and has not reached the crash point."""

        async def received() -> bool:
            try:
                return (await self.http.post(path, **request)).status_code == 200
            except httpx.TransportError:
                return True

        await eventually(received, describe=f"POST {path} is received")

    async def dead_letter_of_ended_run(self) -> tuple[int, str]:
        run_id = (await self.answer("POST", "/runs", json={"flow_name": "noop"}))["run_id"]
        await self.ends(run_id)
        letter = DeadLetter(timestamp=time.time(), reason="test", error="it broke", run_id=run_id)
        await self.letters.publish(letter, tag="default")
        [item] = (await self.answer("GET", "/dlq", params={"run_id": run_id}))["items"]
        return item["seq"], run_id

    async def ends(self, run_id: str) -> None:
        async def ended() -> bool:
            return bool((await self.answer("GET", f"/runs/{run_id}"))["status"] == "COMPLETED")

        await eventually(ended, describe=f"run {run_id} has ended")

    async def repeated_once(self, *origins: str) -> None:
        """Each of these was repeated by one run, which was executed once."""
        listed = await self.answer("GET", "/runs", params={"limit": 200})
        repeats = [run for run in listed if run["origin_run_id"] in origins]
        assert Counter(run["origin_run_id"] for run in repeats) == dict.fromkeys(origins, 1)
        for run in repeats:
            await self.ends(run["run_id"])
        log = read_execution_log(self.stack.execution_log)
        assert [len(log[run["run_id"]]) for run in repeats] == [1] * len(origins)


@asynccontextmanager
async def running_deployment(folder: Path) -> AsyncIterator[Deployment]:
    async with (
        running_stack(folder, SIZE) as stack,
        httpx.AsyncClient(base_url=stack.urls[0], timeout=LIMIT_SEC, verify=False) as http,
    ):
        yield Deployment(stack, http)


async def test_a_gateway_killed_inside_a_replay_repeats_the_run_once(tmp_path: Path) -> None:
    async with running_deployment(tmp_path) as deployment:
        for crash_point, count in IN_REPLAY:
            seq, origin = await deployment.dead_letter_of_ended_run()
            request = {"json": {"delete": True}, "headers": {"Idempotency-Key": f"replay-{seq}"}}
            answer = await deployment.crash_and_retry(crash_point, count, f"/dlq/{seq}/replay", **request)
            assert (answer["origin_run_id"], answer["deleted"]) == (origin, True), crash_point
            await deployment.repeated_once(origin)
            assert await deployment.letters.get(seq) is None, crash_point
            assert await deployment.answer("POST", f"/dlq/{seq}/replay", **request) == answer


async def test_a_gateway_killed_inside_a_bulk_operation_does_each_item_once(tmp_path: Path) -> None:
    async with running_deployment(tmp_path) as deployment:
        for number, (crash_point, count) in enumerate(IN_BULK):
            letters = [await deployment.dead_letter_of_ended_run() for _ in range(LETTERS)]
            request = {
                "json": {"expected_count": LETTERS, "delete": True},
                "headers": {"Idempotency-Key": f"bulk-{number}"},
            }
            answer = await deployment.crash_and_retry(crash_point, count, "/dlq/replay", **request)
            bulk_id, matched = answer["operation"]["bulk_id"], answer["matched"]
            record = await _finished(deployment, bulk_id)
            assert (record["state"], record["failed"]) == ("COMPLETED", 0), (crash_point, record)
            assert record["done"] + record["skipped"] == matched == LETTERS, (crash_point, record)
            await deployment.repeated_once(*(run_id for _, run_id in letters))
            assert [await deployment.letters.get(seq) for seq, _ in letters] == [None] * LETTERS, crash_point
            begun = (await deployment.answer("GET", "/bulk"))["items"]
            assert len(begun) == number + 1, (crash_point, begun)


async def _finished(deployment: Deployment, bulk_id: str) -> dict[str, Any]:
    async def finished() -> dict[str, Any] | None:
        record: dict[str, Any] = await deployment.answer("GET", f"/bulk/{bulk_id}")
        return None if record["state"] == "RUNNING" else record

    return await eventually(finished, describe="the bulk operation is over")


async def test_a_gateway_killed_inside_a_retry_asks_once(tmp_path: Path) -> None:
    async with running_deployment(tmp_path) as deployment:
        connection = deployment.stack.connection
        for crash_point, count in IN_RETRY:
            run = await failed_run(connection)
            answer = await deployment.crash_and_retry(crash_point, count, f"/runs/{run.run_id}/retry")
            assert answer["status"] == "WAITING_HUMAN", crash_point
            [expected] = [wait["wait_id"] for wait in answer["open_waits"]]
            waits = [wait.record for wait in await WaitStore(connection).of_run_from_leader(run.run_id)]
            opened = [wait.wait_id for wait in waits if wait.state is WaitState.OPEN]
            assert (opened, len(waits)) == ([expected], 2), crash_point
            assert (await deployment.answer("GET", "/dlq", params={"run_id": run.run_id}))["items"] == [], (
                crash_point
            )
