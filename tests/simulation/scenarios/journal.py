"""Connections are cut and workers die while they store what their runs have done."""

from tests.simulation.executor import Step
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    flows={"chain": [Step(name, 0.1) for name in "abcdef"]},
    faults=5,
    fault_gap=4,
    mix={
        MessageFault.CUT_BEFORE: 6,
        MessageFault.CUT_AFTER: 2,
        MessageFault.CRASH_BEFORE: 3,
        MessageFault.CRASH_AFTER: 2,
        MessageFault.LOSE_REPLY: 2,
    },
)


async def play(users: Users) -> None:
    for _ in range(3):
        await users.submit(users.any_gateway(), "chain")
    await users.world.sleep(2.0)
