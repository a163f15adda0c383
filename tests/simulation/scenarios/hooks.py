"""Other systems deliver events to hooks, and repeat what was not answered, while gateways die."""

from typing import Final

from pyoco_server.records.triggers.hook_models import HookKind, HookOverlap
from tests.simulation.executor import Step
from tests.simulation.faults import USUAL
from tests.simulation.hook_senders import HookSenders
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

_SECRETS_KEY: Final = "YSBrZXkgb2YgdGhlIHNpbXVsYXRpb24sIDMyIGJ5dGU="
SHAPE = Shape(
    services=frozenset({"triggers", "hooks"}),
    flows={"job": [Step("a", 0.3)]},
    settings={"secrets_keys": _SECRETS_KEY},
    fault_gap=60,
    mix={**USUAL, MessageFault.CRASH_AFTER: 8, MessageFault.LOSE_REPLY: 6},
)


async def play(users: Users) -> None:
    senders = HookSenders(users)
    users.aim_faults_at("delivery")
    await senders.prepare("web", "job", HookKind.TOKEN, HookOverlap.ALLOW)
    await senders.prepare("single", "job", HookKind.TOKEN, HookOverlap.REJECT)
    await senders.prepare("queue", "job", HookKind.NATS, HookOverlap.ALLOW)
    await users.together(
        _at_both_gateways(users, senders),
        senders.deliver("single", "delivery-2"),
        senders.deliver("single", "delivery-3"),
        _messages(users, senders),
    )


async def _at_both_gateways(users: Users, senders: HookSenders) -> None:
    await users.together(
        *(senders.send_once(node, "web", "delivery-1") for node in users.world.gateways),
    )
    await senders.deliver("web", "delivery-1")


async def _messages(users: Users, senders: HookSenders) -> None:
    for number in (4, 5):
        for _ in range(1 + users.draw(2)):
            await senders.publish("queue", f"delivery-{number}")
            await users.pause(1.0)
