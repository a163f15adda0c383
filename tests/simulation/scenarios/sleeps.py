"""Runs sleep, and start later, while gateways die and clocks jump."""

from pyoco_server.records.models import WaitKind
from tests.simulation.executor import Flow, Task, Wait, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {
    "sleeper": chain(Task("a"), Task("nap", wait=Wait(kind=WaitKind.SLEEP, sec=4.0)), Task("b")),
    "plain": chain(Task("a"), Task("b")),
}
FAULTS = ("clock jump",)


async def play(world: World, users: Users) -> None:
    await users.submit(world.any_gateway(), "sleeper")
    delayed = await users.submit(world.any_gateway(), "plain", start_at=world.server_time + 5.0)
    if delayed is not None and not world.draw(3):
        await world.sleep(4.0 + world.draw(20) / 10)
        await users.cancel(world.any_gateway(), delayed)
