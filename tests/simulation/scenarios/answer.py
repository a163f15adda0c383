"""People answer, too late, twice and at the same time; unanswered runs are retried.

The only worker is busy with other runs, so that a run that continues is queued for a while.
"""

from tests.simulation.executor import Ask, Step
from tests.simulation.faults import USUAL, WorldFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"waits"}),
    workers=1,
    flows={
        "two": [Step("a"), Ask("first", timeout_sec=4.0), Ask("second", timeout_sec=4.0), Step("b")],
        "busy": [Step("a", 1.0)],
    },
    fault_gap=60,
    mix={**USUAL, WorldFault.LAGGING_REPLICA: 8},
)


async def play(users: Users) -> None:
    users.aim_faults_at("answer", "retry")
    await users.together(_asking_run(users), _other_runs(users))


async def _other_runs(users: Users) -> None:
    for _ in range(users.draw(4)):
        await users.pause(2.0)
        await users.submit(users.any_gateway(), "busy")


async def _asking_run(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "two")
    if run_id is None:
        return
    for number in range(4):
        await users.pause(1.5)
        for _ in range(1 + users.draw(2)):
            await users.resume(users.any_gateway(), run_id, number, decision_id=f"{run_id}-{number}")
        if not users.draw(3):
            retries = (users.retry(users.any_gateway(), run_id) for _ in range(1 + users.draw(2)))
            await users.together(*retries)
