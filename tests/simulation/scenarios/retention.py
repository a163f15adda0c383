"""Ended runs are removed while people rerun and retry them."""

from pyoco_server.records.models import RerunMode
from tests.simulation.executor import Ask, Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    flows={
        "fails": [Step("a"), Step("b"), Step("c", fails=frozenset(range(1, 20)))],
        "unanswered": [Step("a"), Ask("ask", timeout_sec=2.0), Step("b")],
    },
    settings={"run_retention_sec": 6.0},
)
FAULTS = ("clock jump",)


async def play(users: Users) -> None:
    await users.together(_rerun_late(users), _retry_late(users))


async def _rerun_late(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "fails")
    if run_id is not None and await users.ended(run_id):
        await users.pause(8.0)
        await users.rerun(users.any_gateway(), run_id, RerunMode.FAILED)


async def _retry_late(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "unanswered")
    if run_id is not None and await users.ended(run_id):
        await users.pause(8.0)
        await users.retry(users.any_gateway(), run_id)
        await users.resume(users.any_gateway(), run_id, "late", decision_id="late")
