"""NATS loses its newest messages in a power failure; users continue."""

from tests.simulation.executor import Ask, Step
from tests.simulation.faults import USUAL, WorldFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"waits"}),
    flows={"chain": [Step("a", 0.3), Step("b", 0.3)], "ask": [Step("a", 0.2), Ask("ask", timeout_sec=10.0)]},
    faults=2,
    mix={**USUAL, WorldFault.POWER_FAILURE: 20},
)


async def play(users: Users) -> None:
    for flow in ("chain", "ask", "chain", "chain"):
        run_id = await users.submit(users.any_gateway(), flow)
        await users.pause(1.0)
        if flow == "ask" and run_id is not None:
            await users.resume(users.any_gateway(), run_id, "yes", decision_id="yes")
