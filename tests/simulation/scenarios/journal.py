"""Parallel tasks of runs whose workers stand still for longer than AckWait, and go on."""

from tests.simulation.executor import Flow, Task
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {
    "branches": (
        Task("a", sec=0.2),
        Task("left", ("a",), sec=0.4),
        Task("right", ("a",), sec=0.4),
        Task("join", ("left", "right"), sec=1.0),
        Task("last", ("join", "a"), sec=0.3),
    ),
}
FAULTS = ("worker pause", "worker crash")


async def play(world: World, users: Users) -> None:
    for _ in range(2):
        await users.submit(world.any_gateway(), "branches")
        await world.sleep(world.draw(10) / 10)
