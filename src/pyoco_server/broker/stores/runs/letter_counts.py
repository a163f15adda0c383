"""How many dead letters each tenant has; a later count reads only the letters that are new since."""

import asyncio
from sys import intern

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamState, stream_state
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters


class LetterCounts:
    def __init__(self, connection: Connection, letters: DeadLetters) -> None:
        self._connection = connection
        self._letters = letters
        self._lock = asyncio.Lock()
        self._created = ""
        # By sequence.
        self._tenants: dict[int, str | None] = {}
        self._read_to = 0

    async def of(self, tenant: str) -> int:
        async with self._lock:
            state = await stream_state(self._connection, self._connection.config.dlq_stream)
            if state.created != self._created:
                self._forget()
                self._created = state.created
            await self._read(state)
            if len(self._tenants) != state.messages:
                # Some were deleted: a sequence does not show which.
                self._forget()
                await self._read(state)
            return sum(owner == tenant for owner in self._tenants.values())

    def _forget(self) -> None:
        self._tenants, self._read_to = {}, 0

    async def _read(self, state: StreamState) -> None:
        self._tenants = {seq: who for seq, who in self._tenants.items() if seq >= state.first_sequence}
        lowest = max(self._read_to + 1, state.first_sequence)
        async for stored in self._letters.between(lowest, state.last_sequence):
            owner = stored.letter.tenant_id
            self._tenants[stored.seq] = None if owner is None else intern(owner)
        self._read_to = state.last_sequence
