"""Nobody answers in time; several people retry the run at once."""

from tests.simulation.executor import Ask, Step
from tests.simulation.faults import USUAL, WorldFault
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"waits"}),
    flows={"ask": [Step("a"), Ask("ask", timeout_sec=0.5), Step("b")]},
    fault_gap=200,
    mix={**USUAL, MessageFault.LOSE_REPLY: 12, WorldFault.LAGGING_REPLICA: 8},
)


async def play(users: Users) -> None:
    users.aim_faults_at("retry")
    run_id = await users.submit(users.any_gateway(), "ask", key="ask")
    if run_id is None:
        return
    for _ in range(2):
        if not await users.ended(run_id):
            return
        await users.together(
            *(users.retry(node, run_id) for node in users.world.gateways[: 1 + users.draw(2)])
        )
    await users.resume(users.any_gateway(), run_id, "yes", decision_id="yes")
