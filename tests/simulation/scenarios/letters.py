"""Dead letters are replayed and removed."""

from tests.simulation.executor import Step
from tests.simulation.faults import USUAL
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    flows={"fails": [Step("a", fails=frozenset(range(1, 20)))]},
    settings={"dlq_publish_execution_error": True},
    fault_gap=60,
    mix={**USUAL, MessageFault.LOSE_REPLY: 12},
)


async def play(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "fails", key="first")
    if run_id is None or not await users.ended(run_id):
        return
    for _ in range(3):
        for letter in (await users.letters(users.any_gateway()))[:1]:
            await users.replay(users.any_gateway(), letter)
            await users.pause(1.0)
