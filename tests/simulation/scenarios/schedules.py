"""A schedule starts runs while gateways die and clocks jump; people trigger it."""

from tests.simulation.executor import Step
from tests.simulation.faults import USUAL, WorldFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"schedules"}),
    flows={"job": [Step("a", 0.2)]},
    fault_gap=30,
    mix={**USUAL, WorldFault.CLOCK_JUMP: 4},
)


async def play(users: Users) -> None:
    if not await users.create_schedule(users.any_gateway(), "often", "job", every_sec=2.0):
        return
    for number in range(2):
        await users.pause(2.0)
        for _ in range(1 + users.draw(2)):
            await users.trigger(users.any_gateway(), "often", key=f"trigger-{number}")
    await users.world.sleep(2.0)
