"""Clients submit runs, with and without an idempotency key, and repeat what was not answered."""

from tests.simulation.executor import Step
from tests.simulation.faults import USUAL
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    flows={"chain": [Step("a"), Step("b"), Step("c")]},
    fault_gap=100,
    mix={**USUAL, MessageFault.LOSE_REPLY: 10},
)


async def play(users: Users) -> None:
    await users.together(*(_client(users, number) for number in range(3)))


async def _client(users: Users, number: int) -> None:
    key = f"key-{number}" if users.draw(2) else None
    for _ in range(4):
        await users.pause(1.0)
        run_id = await users.submit(users.any_gateway(), "chain", key=key)
        if key is None or (run_id is not None and users.draw(3)):
            return
