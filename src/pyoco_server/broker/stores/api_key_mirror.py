"""A copy of the bucket of API keys, which knows as of when it is right.

Looking asks the leader how far there is to read, and reads what is new; the copy is right as of the moment
that the question was asked. Writes are heard of at once, but what is heard is only a hint to look: the write
may be refused, and the hint may be lost.

After an interruption the whole bucket is read: its server may have lost the newest writes, and used their
revisions for others since. There are few keys, and a missed revocation must not stay missed.
"""

import time
from collections.abc import Callable
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.renewable_subscription import RenewableSubscription
from pyoco_server.broker.jetstream.stream_reads import (
    EVERYTHING,
    StreamState,
    next_sequence,
    read_batch,
    stream_state,
)
from pyoco_server.broker.stores.api_keys import ApiKeyEntries

_NEVER: Final = float("-inf")


class ApiKeyMirror:
    def __init__(self, connection: Connection, on_hint: Callable[[], None] | None = None) -> None:
        bucket = connection.config.auth_kv_bucket
        self._connection = connection
        self._stream = f"KV_{bucket}"
        self._on_hint = on_hint
        self._subscription = RenewableSubscription(connection, self._on_write, f"$KV.{bucket}.key.*")
        self._created = ""
        self._revision = 0
        # The connection's count of interruptions when the last look began; None after one that failed.
        self._looked_at: int | None = None
        self.entries = ApiKeyEntries(connection.config)
        # By the monotonic clock.
        self.right_as_of = _NEVER

    async def look(self) -> bool:
        """Read what was written since; whether any key was. NatsUnavailable when that cannot be said."""
        if self._on_hint is not None:
            await self._subscription.renew()
        began = time.monotonic()
        interruptions = self._connection.interruptions
        looked_at, self._looked_at = self._looked_at, None
        state = await stream_state(self._connection, self._stream)
        changed = False
        if looked_at != interruptions or self._is_another(state):
            self._forget(state)
            changed = True
        changed |= await self._read(state)
        if len(self.entries.subjects) != state.messages:
            # Something was removed without a word, which only the whole bucket can tell.
            self._forget(state)
            await self._read(state)
            changed = True
        self._looked_at = interruptions
        self.right_as_of = began
        return changed

    def _on_write(self, _: Message) -> None:
        assert self._on_hint is not None
        self._on_hint()

    def _is_another(self, state: StreamState) -> bool:
        return state.created != self._created or state.last_sequence < self._revision

    def _forget(self, state: StreamState) -> None:
        self._created = state.created
        self._revision = 0
        self.entries = ApiKeyEntries(self._connection.config)

    async def _read(self, state: StreamState) -> bool:
        changed = False
        while self._revision < state.last_sequence:
            batch = await read_batch(self._connection, self._stream, EVERYTHING, after=self._revision)
            if not batch:
                await self._is_really_all(state)
                break
            changed |= self.entries.take(batch)
            self._revision = batch[-1].sequence
        return changed

    async def _is_really_all(self, state: StreamState) -> None:
        """Nothing more on one replica: then it lags, or the last messages were removed."""
        if missed := await next_sequence(self._connection, self._stream, after=self._revision):
            raise self._connection.unavailable(f"{self._stream}: a replica has not received {missed} yet")
        self._revision = state.last_sequence
