"""People answer, too late, twice and at the same time; unanswered runs are retried."""

from tests.simulation.executor import Ask, Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    flows={"two": [Step("a"), Ask("first", timeout_sec=8.0), Ask("second", timeout_sec=8.0), Step("b")]}
)


async def play(users: Users) -> None:
    await users.together(*(_asking_run(users) for _ in range(1 + users.draw(2))))


async def _asking_run(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "two")
    if run_id is None:
        return
    for number in range(4):
        await users.pause(4.0)
        for _ in range(1 + users.draw(2)):
            await users.resume(users.any_gateway(), run_id, number, decision_id=f"{run_id}-{number}")
        if not users.draw(3):
            retries = (users.retry(users.any_gateway(), run_id) for _ in range(1 + users.draw(2)))
            await users.together(*retries)
