"""NATS loses its newest messages, or a stream is created again; users go on."""

from tests.simulation.executor import Flow, Task, Wait, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {
    "chain": chain(Task("a", sec=0.3), Task("b", sec=0.3)),
    "ask": chain(Task("a", sec=0.2), Task("ask", wait=Wait(sec=20.0)), Task("b", sec=0.2)),
}
FAULTS = ("lost tail",)


async def play(world: World, users: Users) -> None:
    for flow in ("chain", "ask", "chain", "chain"):
        run_id = await users.submit(world.any_gateway(), flow)
        await world.sleep(world.draw(20) / 10)
        if flow == "ask" and run_id is not None:
            await users.resume(world.any_gateway(), run_id, "yes", decision_id="yes")
