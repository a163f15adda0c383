"""People answer, too late, twice and at the same time; unanswered runs are retried."""

from tests.simulation.executor import Flow, Task, Wait, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {
    "two": chain(Task("a"), Task("first", wait=Wait(sec=8.0)), Task("second", wait=Wait(sec=8.0)), Task("b")),
    "both": (
        Task("left", wait=Wait(sec=6.0)),
        Task("right", wait=Wait(sec=12.0)),
        Task("end", after=("left", "right")),
    ),
}


async def play(world: World, users: Users) -> None:
    flows = ("two", "two", "both")
    await world.gather(*(_run(world, users, flow) for flow in flows[: 1 + world.draw(3)]))


async def _run(world: World, users: Users, flow: str) -> None:
    run_id = await users.submit(world.any_gateway(), flow)
    if run_id is None:
        return
    for number in range(6):
        await world.sleep(world.draw(40) / 10)
        payload, decision_id = number, f"{run_id}-{number}"
        for _ in range(1 + world.draw(2)):
            await users.resume(world.any_gateway(), run_id, payload, decision_id=decision_id)
        if not world.draw(3):
            await world.gather(*(users.retry(world.any_gateway(), run_id) for _ in range(1 + world.draw(2))))
