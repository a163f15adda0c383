"""Workers die or stand still, and each job has one delivery only."""

from tests.simulation.executor import Step
from tests.simulation.faults import USUAL
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    flows={"chain": [Step("a", 0.5), Step("b", 1.0), Step("c", 0.5)]},
    settings={"consumer_max_deliver": 1, "worker_lost_after_sec": 0.0},
    faults=4,
    mix={**USUAL, MessageFault.PAUSE: 10, MessageFault.CUT_AFTER: 6, MessageFault.LATE: 6},
)


async def play(users: Users) -> None:
    for _ in range(2 + users.draw(2)):
        await users.submit(users.any_gateway(), "chain")
        await users.pause(1.0)
    # Until AckWait has passed.
    await users.world.sleep(6.0)
