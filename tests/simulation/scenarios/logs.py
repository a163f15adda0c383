"""Logs are followed to their end while runs are cancelled in the same moment."""

from tests.simulation.executor import Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(flows={"chain": [Step(name, 0.3, prints=f"{name} begins") for name in "ab"]}, faults=2)


async def play(users: Users) -> None:
    await users.together(*(_followed_run(users) for _ in range(3)))


async def _followed_run(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "chain")
    if run_id is not None:
        await users.together(users.follow_log(users.any_gateway(), run_id), _cancel_at_its_end(users, run_id))


async def _cancel_at_its_end(users: Users, run_id: str) -> None:
    await users.when_executed(run_id, "b")
    await users.world.sleep(0.2 + users.draw(200) / 1000)
    await users.cancel(users.any_gateway(), run_id)
