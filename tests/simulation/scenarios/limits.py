"""Runs with a time limit, on machines whose clocks differ and jump."""

from tests.simulation.executor import Flow, Task, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {
    "quick": chain(Task("a", sec=0.5), Task("b", sec=1.0), Task("c", sec=0.5)),
    "long": chain(Task("a", sec=5.0), Task("b", sec=30.0)),
}
FAULTS = ("clock jump",)


async def play(world: World, users: Users) -> None:
    await users.submit(world.any_gateway(), "quick", timeout_sec=20.0)
    await world.sleep(world.draw(20) / 10)
    await users.submit(world.any_gateway(), "long", timeout_sec=10.0)
