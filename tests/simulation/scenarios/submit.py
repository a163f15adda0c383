"""Clients submit runs, with and without an idempotency key, and repeat what was not answered."""

from tests.simulation.executor import Flow, Task, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {"chain": chain(Task("a"), Task("b"), Task("c"))}


async def play(world: World, users: Users) -> None:
    await world.gather(*(_client(world, users, number) for number in range(3)))


async def _client(world: World, users: Users, number: int) -> None:
    key = f"key-{number}" if world.draw(3) else None
    for _ in range(4):
        await world.sleep(world.draw(20) / 10)
        run_id = await users.submit(world.any_gateway(), "chain", key=key)
        if key is None or (run_id is not None and not world.draw(3)):
            return
