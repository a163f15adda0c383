"""Runs are cancelled: in the queue, while they are executed, and several times at once."""

from tests.simulation.executor import Step
from tests.simulation.faults import USUAL
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    flows={"slow": [Step("a", 0.5), Step("b", 1.0), Step("c", 0.5)]},
    fault_gap=200,
    mix={**USUAL, MessageFault.LOSE_REPLY: 10},
)


async def play(users: Users) -> None:
    users.aim_faults_at("cancel")
    await users.together(*(_cancelled_run(users) for _ in range(3)))


async def _cancelled_run(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "slow")
    if run_id is None:
        return
    for _ in range(1 + users.draw(2)):
        await users.pause(2.0)
        await users.cancel(users.any_gateway(), run_id, force=not users.draw(4))
