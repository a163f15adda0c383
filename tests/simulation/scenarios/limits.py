"""Runs with a time limit, on machines whose clocks differ and jump."""

from tests.simulation.executor import Step
from tests.simulation.faults import USUAL, WorldFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    flows={
        "quick": [Step("a", 0.5), Step("b", 1.0), Step("c", 0.5)],
        "long": [Step("a", 2.0), Step("b", 15.0)],
    },
    mix={**USUAL, WorldFault.CLOCK_JUMP: 10},
)


async def play(users: Users) -> None:
    await users.submit(users.any_gateway(), "quick", timeout_sec=10.0)
    await users.pause(1.0)
    await users.submit(users.any_gateway(), "long", timeout_sec=5.0)
    await users.world.sleep(2.0)
