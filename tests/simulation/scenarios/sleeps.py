"""Runs sleep, and start later, while gateways die and clocks jump."""

from tests.simulation.executor import Sleep, Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"waits"}),
    flows={"sleeper": [Step("a"), Sleep("nap", 2.0), Step("b")], "plain": [Step("a"), Step("b")]},
)


async def play(users: Users) -> None:
    await users.submit(users.any_gateway(), "sleeper")
    delayed = await users.submit(users.any_gateway(), "plain", start_at=users.world.wall + 2.5)
    if delayed is not None and not users.draw(3):
        await users.pause(3.0)
        await users.cancel(users.any_gateway(), delayed)
