"""A failed run is rerun, from its start and from its failed task."""

from pyoco_server.records.runs.run_models import RerunMode
from tests.simulation.executor import Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(flows={"fails": [Step("a"), Step("b"), Step("c", fails=frozenset(range(1, 20)))]})


async def play(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "fails", key="first")
    if run_id is None or not await users.ended(run_id):
        return
    await users.together(*(_again(users, run_id, number) for number in range(2)))


async def _again(users: Users, run_id: str, number: int) -> None:
    key = f"again-{number}" if users.draw(2) else None
    mode = (RerunMode.FAILED, RerunMode.START)[users.draw(2)]
    for _ in range(3):
        await users.pause(1.0)
        if await users.rerun(users.any_gateway(), run_id, mode, key=key) or key is None:
            return
