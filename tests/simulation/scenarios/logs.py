"""Logs are followed to their end while several want to write it."""

from tests.simulation.executor import Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(flows={"chain": [Step(name, 0.5, prints=f"{name} begins") for name in "abc"]})


async def play(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "chain")
    if run_id is not None:
        await users.together(users.follow_log(users.any_gateway(), run_id), _cancel_at_its_end(users, run_id))


async def _cancel_at_its_end(users: Users, run_id: str) -> None:
    await users.pause(3.0)
    await users.together(*(users.cancel(node, run_id) for node in users.world.gateways))
