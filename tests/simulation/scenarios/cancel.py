"""Runs are cancelled: in the queue, while they are executed, and several times at once."""

from tests.simulation.executor import Flow, Task, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {"slow": chain(Task("a", sec=1.0), Task("b", sec=2.0), Task("c", sec=1.0))}


async def play(world: World, users: Users) -> None:
    await world.gather(*(_run(world, users) for _ in range(2)))


async def _run(world: World, users: Users) -> None:
    run_id = await users.submit(world.any_gateway(), "slow")
    if run_id is None:
        return
    for _ in range(1 + world.draw(2)):
        await world.sleep(world.draw(40) / 10)
        await users.cancel(world.any_gateway(), run_id, force=not world.draw(4))
