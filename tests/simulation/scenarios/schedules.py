"""A schedule starts runs while gateways die; people trigger, pause and resume it."""

from tests.simulation.executor import Flow, Task, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {"job": chain(Task("a", sec=0.3))}
FAULTS = ("clock jump",)


async def play(world: World, users: Users) -> None:
    await users.create_schedule(world.any_gateway(), "often", "job", every_sec=5.0)
    for number in range(2):
        await world.sleep(world.draw(60) / 10)
        await users.trigger(world.any_gateway(), "often", key=f"trigger-{number}")
    await world.sleep(6.0)
    await users.pause_schedule(world.any_gateway(), "often")
