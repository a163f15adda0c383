"""Ended runs are removed while people rerun and retry them."""

from pyoco_server.records.models import RerunMode
from tests.simulation.executor import Flow, Task, Wait, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {
    "fails": chain(Task("a"), Task("b"), Task("c", fails=True)),
    "unanswered": chain(Task("a"), Task("ask", wait=Wait(sec=2.0)), Task("b")),
}
SETTINGS = {"run_retention_sec": 6.0}
FAULTS = ("clock jump",)


async def play(world: World, users: Users) -> None:
    await world.gather(*(_run(world, users, flow) for flow in ("fails", "unanswered")))


async def _run(world: World, users: Users, flow: str) -> None:
    run_id = await users.submit(world.any_gateway(), flow)
    if run_id is None or not await world.ended(run_id):
        return
    await world.sleep(4.0 + world.draw(50) / 10)
    if flow == "fails":
        await users.rerun(world.any_gateway(), run_id, RerunMode.FAILED)
    else:
        await users.retry(world.any_gateway(), run_id)
        await world.sleep(1.0)
        await users.resume(world.any_gateway(), run_id, "late", decision_id="late")
