"""Workers die, stand still or cannot start executors, with few deliveries for each job."""

from tests.simulation.executor import Flow, Task, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {"chain": chain(Task("a", sec=0.5), Task("b", sec=1.5), Task("c", sec=0.5))}
SETTINGS = {"consumer_max_deliver": 2}
FAULTS = ("worker crash", "worker pause", "broken executor", "refused writes")


async def play(world: World, users: Users) -> None:
    for _ in range(2 + world.draw(2)):
        await users.submit(world.any_gateway(), "chain")
        await world.sleep(world.draw(20) / 10)
