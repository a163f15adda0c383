"""An operator deletes ended runs with the tools of NATS, with and without a delete marker."""

from tests.simulation.executor import Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(flows={"one": [Step("a")]}, faults=1)


async def play(users: Users) -> None:
    for _ in range(3):
        run_id = await users.submit(users.any_gateway(), "one")
        if run_id is not None and await users.ended(run_id):
            users.delete_run(run_id, leave_marker=bool(users.draw(2)))
            await users.pause(2.0)
