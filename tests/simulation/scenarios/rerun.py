"""A failed run is rerun, from its start and from its failed task."""

from pyoco_server.records.models import RerunMode
from tests.simulation.executor import Flow, Task, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {"fails": chain(Task("a"), Task("b"), Task("c", fails=True))}


async def play(world: World, users: Users) -> None:
    run_id = await users.submit(world.any_gateway(), "fails", key="first")
    if run_id is None or not await world.ended(run_id):
        return
    await world.gather(*(_again(world, users, run_id, number) for number in range(2)))


async def _again(world: World, users: Users, run_id: str, number: int) -> None:
    key = f"again-{number}" if world.draw(2) else None
    mode = (RerunMode.FAILED, RerunMode.START)[world.draw(2)]
    for _ in range(3):
        await world.sleep(world.draw(10) / 10)
        if await users.rerun(world.any_gateway(), run_id, mode, key=key) or key is None:
            return
