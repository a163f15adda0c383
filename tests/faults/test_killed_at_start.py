"""A gateway killed (SIGKILL) while it releases a run whose start has come: the run is executed once."""

from pathlib import Path

import httpx
import pytest

from tests.faults.chaos.execution_log import read_execution_log
from tests.faults.chaos.stack import Size, running_stack
from tests.faults.test_killed_commands import Deployment
from tests.support.waiting import LIMIT_SEC

# The first is between the compare-and-set and the publish, the second after both.
AT_RELEASE = [("run replaced", 1), ("job", 1)]


@pytest.mark.parametrize("others", [0, 1], ids=["one gateway", "two gateways"])
async def test_a_gateway_killed_inside_a_release_starts_the_run_once(tmp_path: Path, others: int) -> None:
    async with (
        running_stack(tmp_path, Size(gateways=1 + others, workers=1)) as stack,
        httpx.AsyncClient(base_url=stack.urls[0], timeout=LIMIT_SEC, verify=False) as http,
    ):
        deployment = Deployment(stack, http)
        gateway = stack.gateways["g1"]
        for crash_point, count in AT_RELEASE:
            job = {"flow_name": "noop", "delay_sec": 3.0}
            accepted = await deployment.answer("POST", "/runs", json=job)
            assert accepted["status"] == "SCHEDULED"
            gateway.kill()
            crashing = stack.crashing_gateway(crash_point, count)
            try:
                await crashing.start()
                if others == 0:
                    await crashing.killed_itself()
                else:
                    # Whichever of the two releases it.
                    await _ends(stack.urls[1], accepted["run_id"])
            finally:
                crashing.kill()
            await gateway.start()
            await deployment.ends(accepted["run_id"])
            run = await deployment.answer("GET", f"/runs/{accepted['run_id']}")
            assert run["start_time"] >= run["start_at"], crash_point
            executed = read_execution_log(stack.execution_log)[accepted["run_id"]]
            assert len(executed) == 1, (crash_point, executed)


async def _ends(url: str, run_id: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_SEC, verify=False) as http:
        watched = await http.get(f"/runs/{run_id}/watch", params={"timeout_sec": int(LIMIT_SEC)})
        assert "COMPLETED" in watched.text
