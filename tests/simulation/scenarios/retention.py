"""Ended runs are removed while people rerun and retry them."""

from pyoco_server.records.runs.run_models import RerunMode
from tests.simulation.executor import Ask, Step
from tests.simulation.faults import USUAL, WorldFault
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"waits"}),
    flows={
        "fails": [Step("a"), Step("b"), Step("c", fails=frozenset(range(1, 20)))],
        "unanswered": [Step("a"), Ask("ask", timeout_sec=0.5), Step("b")],
    },
    settings={"run_retention_sec": 1.5},
    faults=2,
    fault_gap=100,
    mix={**USUAL, WorldFault.CLOCK_JUMP: 8, MessageFault.LATE: 8},
)


async def play(users: Users) -> None:
    users.aim_faults_at("rerun", "retry")
    await users.together(*(_rerun_late(users) for _ in range(3)), _retry_late(users))


async def _rerun_late(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "fails")
    if run_id is not None and await users.ended(run_id):
        await _about_its_removal(users)
        await users.rerun(users.any_gateway(), run_id, RerunMode.FAILED)


async def _retry_late(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "unanswered")
    if run_id is not None and await users.ended(run_id):
        await _about_its_removal(users)
        await users.retry(users.any_gateway(), run_id)
        await users.resume(users.any_gateway(), run_id, "late", decision_id=f"{run_id}-late")


async def _about_its_removal(users: Users) -> None:
    """The sweep removes it some time in two seconds."""
    await users.world.sleep(1.0 + users.draw(250) / 100)
