"""Runs whose workers stand still for longer than AckWait, and go on."""

from tests.simulation.executor import Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(flows={"chain": [Step(name, 0.3) for name in "abcde"]})
FAULTS = ("pause",)


async def play(users: Users) -> None:
    for _ in range(2):
        await users.submit(users.any_gateway(), "chain")
        await users.pause(1.0)
