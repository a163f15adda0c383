"""The same workflow events arrive at two gateways; retry jobs of refused ones are executed by both."""

from pyoco_server.records.triggers.trigger_models import TemplateOverlap
from tests.simulation.executor import Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"triggers", "workflow_events"}),
    flows={"booking": [Step("a", 0.5)]},
    settings={"workflow_event_retry_base_delay_seconds": 2},
)


async def play(users: Users) -> None:
    users.aim_faults_at("workflow_event", "drain")
    one, other = users.world.gateways
    for template_id, overlap in (("any", TemplateOverlap.ALLOW), ("single", TemplateOverlap.FORBID)):
        while not await users.prepare_template(one, template_id, "booking", overlap):
            await users.world.sleep(1.0)
    await users.together(_repeated(users, "any", "event-1"), _refused(users))
    await users.together(users.drain_retries(one), users.drain_retries(other))
    await users.pause(1.0)
    await users.send_workflow_event(users.any_gateway(), "single", key="event-3")


async def _repeated(users: Users, template_id: str, key: str) -> None:
    """At both gateways at once, then once more."""
    await users.together(
        *(users.send_workflow_event(node, template_id, key=key) for node in users.world.gateways)
    )
    await users.pause(1.0)
    await users.send_workflow_event(users.any_gateway(), template_id, key=key)


async def _refused(users: Users) -> None:
    """The second event arrives while the run of the first is open: it becomes a retry job."""
    run_id = await users.send_workflow_event(users.any_gateway(), "single", key="event-2")
    await users.send_workflow_event(users.any_gateway(), "single", key="event-3")
    if run_id is not None:
        await users.ended(run_id)
