"""Keeps deliveries so that they can be looked at and processed again. Recording never delays a response.

Of refused deliveries, and of NATS messages that wait for the end of a run, only the number is kept, one
record per hook and minute: they cannot displace the others, and what strangers send is not stored.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.triggers.delivery_store import DeliveryStore, HookInstance
from pyoco_server.errors import PyocoError
from pyoco_server.errors.error_table import Err
from pyoco_server.records.triggers.hook_models import (
    DeliveryContent,
    DeliveryStatus,
    DeliverySummary,
    HookRecord,
)
from pyoco_server.triggers.hooks.delivery_counter import DeliveryCounter
from pyoco_server.triggers.hooks.signatures import Incoming, Refusal, proof_headers

log = logging.getLogger(__name__)

REDACTED: Final = "[redacted]"
_SECRET_NAME: Final = re.compile(r"authorization|cookie|token|secret|signature|api-?key|password", re.I)
_CONCURRENT: Final = 16
# While NATS is slow, no more wait in memory; the others are not kept.
_MAX_WAITING: Final = 1000
_MAX_HEADERS: Final = 100


class DeliveryRecorder:
    def __init__(self, connection: Connection, *, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._store = DeliveryStore(connection)
        self._body_max_bytes = connection.config.hook_delivery_body_max_bytes
        self._key_header = connection.config.http_api_key_header.lower()
        self._clock = clock
        self._writing: set[asyncio.Task[None]] = set()
        self._limit = asyncio.Semaphore(_CONCURRENT)
        self.counter = DeliveryCounter(self._write_counted)
        # Deliveries that were not kept.
        self.dropped = 0

    async def start(self) -> None:
        """Nothing runs until the first delivery."""

    async def close(self) -> None:
        """Wait for what is being written."""
        self.counter.end_all()
        if self._writing:
            await asyncio.wait(self._writing)

    def keep(
        self, hook: HookRecord, summary: DeliverySummary, delivery: Incoming, content: DeliveryContent
    ) -> None:
        """Keep it soon. `content` has what is not in the delivery itself."""
        body = delivery.body if len(delivery.body) <= self._body_max_bytes else None
        secret_names = proof_headers(hook.kind, hook.signature) | {self._key_header}
        content.headers = _redacted(delivery.headers, secret_names)
        content.query = _redacted(delivery.query, frozenset())
        content.body = body
        self._write_soon(instance_of(hook), summary, content, refused=False)

    def count_refused(self, hook: HookRecord, why: Refusal, client_ip: str | None) -> None:
        summary = DeliverySummary(
            at=self._clock(),
            status=DeliveryStatus.REFUSED,
            http_status=401,
            reason=why.value,
            client_ip=client_ip,
        )
        self.count(hook, summary)

    def count(self, hook: HookRecord, summary: DeliverySummary) -> None:
        """Count it without storing its content."""
        self.counter.add(instance_of(hook), summary)

    def _write_counted(self, hook: HookInstance, summary: DeliverySummary) -> None:
        self._write_soon(hook, summary, DeliveryContent(body=None), refused=True)

    def _write_soon(
        self, hook: HookInstance, summary: DeliverySummary, content: DeliveryContent, *, refused: bool
    ) -> None:
        if len(self._writing) >= _MAX_WAITING:
            self.dropped += 1
            return
        task = asyncio.create_task(self._write(hook, summary, content, refused=refused))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(
        self, hook: HookInstance, summary: DeliverySummary, content: DeliveryContent, *, refused: bool
    ) -> None:
        async with self._limit:
            try:
                await self._store.add(hook, summary, content, refused=refused)
            except PyocoError as error:
                self.dropped += 1
                extra = Err.NATS_UNAVAILABLE.log_fields(hook_id=hook.hook_id, run_id=summary.run_id)
                log.warning("a delivery is not kept: %s", error, extra=extra)


def instance_of(hook: HookRecord) -> HookInstance:
    return HookInstance(hook.tenant_id, hook.hook_id, hook.incarnation)


def _redacted(values: Mapping[str, str], secret_names: frozenset[str]) -> dict[str, str]:
    """Values whose name suggests a secret are replaced."""
    return {
        name: REDACTED if name in secret_names or _SECRET_NAME.search(name) else value
        for name, value in list(values.items())[:_MAX_HEADERS]
    }
