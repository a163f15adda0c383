"""Logs are followed to their end while several want to write it."""

from tests.simulation.executor import Flow, Task, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {"chain": chain(Task("a", sec=0.5), Task("b", sec=1.0), Task("c", sec=0.5))}


async def play(world: World, users: Users) -> None:
    run_id = await users.submit(world.any_gateway(), "chain")
    if run_id is None:
        return
    follower = world.gateways[0]
    await world.gather(users.follow_log(follower, run_id), _cancel_at_its_end(world, users, run_id))


async def _cancel_at_its_end(world: World, users: Users, run_id: str) -> None:
    await world.sleep(1.0 + world.draw(20) / 10)
    await world.gather(*(users.cancel(node, run_id) for node in world.gateways))
