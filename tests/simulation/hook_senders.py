"""What other systems do: they send deliveries to hooks, over HTTP and over NATS, until they are accepted."""

from typing import Final

import msgspec

from pyoco_server.broker.stores.triggers.hook_messages import subject_of
from pyoco_server.errors import HookConflict
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.records.triggers.hook_models import HookKind, HookOverlap
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.triggers.hooks.hook_receiver import DeliveryOutcome
from pyoco_server.triggers.hooks.signatures import TOKEN_HEADER, Incoming
from tests.simulation.jetstream import headers
from tests.simulation.node import GatewayNode
from tests.simulation.users import Users

_SECRET: Final = "a secret of the hook"
# Of a delivery: how often it is sent, and how long its sender waits in between.
_MOST_SENDS: Final = 8
_AGAIN_SEC: Final = 1.0


class HookSenders:
    """They act as users; the body of a delivery is its id, so that its run can be found by it."""

    def __init__(self, users: Users) -> None:
        self._users = users

    async def prepare(self, hook_id: str, flow: str, kind: HookKind, overlap: HookOverlap) -> None:
        """Create a hook, and repeat that until it is there."""

        async def act(gateway: Gateway) -> bool:
            secret = None if kind is HookKind.NATS else _SECRET
            try:
                await gateway.hooks.service.create(
                    hook_id, ANYBODY, secret, kind=kind, flow_name=flow, tag="default", overlap=overlap
                )
            except HookConflict:
                # An earlier request has created it, and was not answered.
                return True
            return True

        while not await self._users.send("hook", self._users.any_gateway(), act):
            await self._users.world.sleep(0.5)

    async def deliver(self, hook_id: str, delivery_id: str) -> None:
        """Over HTTP, until it is accepted; sometimes once more."""
        for _ in range(_MOST_SENDS):
            if await self.send_once(self._users.any_gateway(), hook_id, delivery_id) is not None:
                break
            await self._users.world.sleep(_AGAIN_SEC)
        if self._users.draw(2):
            await self._users.pause(1.0)
            await self.send_once(self._users.any_gateway(), hook_id, delivery_id)

    async def send_once(self, node: GatewayNode, hook_id: str, delivery_id: str) -> DeliveryOutcome | None:
        sent_headers = {TOKEN_HEADER: _SECRET, "idempotency-key": delivery_id}
        delivery = Incoming(sent_headers, msgspec.json.encode(delivery_id))
        return await self._users.send(
            "delivery",
            node,
            lambda gateway: gateway.hooks.receiver.receive(hook_id, delivery),
            key=delivery_id,
            created=lambda done: (
                {} if done is None else {"run_id": done.run_id, "is_duplicate": done.is_duplicate}
            ),
        )

    async def publish(self, hook_id: str, delivery_id: str) -> None:
        """Over NATS, as soon as the server is there."""
        world = self._users.world
        while not world.network.server_is_up:
            await world.sleep(_AGAIN_SEC)
        subject = subject_of(world.gateways[0].config, None, hook_id)
        head = headers.encoded({"Nats-Msg-Id": delivery_id})
        world.server.receive(None, subject, msgspec.json.encode(delivery_id), head, "")
