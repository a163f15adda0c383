"""A stage on which several players act on NATS at once, one request at a time, in an order drawn by a seed.

Whoever wants to send a request waits for its turn; the request of the one whose turn it is is answered before
the next turn. A player can be killed at any request: before it is sent, or before its answer is seen.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from random import Random
from typing import Any, cast

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message


class Killed(BaseException):
    """As by kill -9: nothing of the player's own is executed after it."""


class Player:
    """Somebody with a connection of its own to NATS, through the stage."""

    def __init__(
        self,
        name: str,
        connection: Connection,
        stored: list[tuple[str, bytes]],
        *,
        dies_at: int | None,
        unseen: bool,
    ) -> None:
        self.name = name
        self._real = connection
        self._dies_at = dies_at
        # The request at which it dies is sent, and the answer not seen.
        self._unseen = unseen
        self._turns = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._step_over = asyncio.Event()
        self._dead = False
        self._stored = stored
        self.task: asyncio.Task[Any] | None = None

    @property
    def connection(self) -> Connection:
        return cast(Connection, self)

    @property
    def wants_a_turn(self) -> bool:
        return bool(self._waiting)

    async def step(self) -> None:
        """Let it make one request."""
        self._step_over.clear()
        self._waiting.popleft().set_result(None)
        await self._step_over.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def request(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Message:
        dies = await self._turn()
        try:
            reply = await self._real.request(subject, payload, headers)
        finally:
            self._step_over.set()
        if not subject.startswith("$JS.") and b'"error"' not in reply.data:
            self._stored.append((subject, payload))
        if dies:
            self._die()
        return reply

    async def request_many(self, subject: str, payload: bytes = b"") -> AsyncIterator[Message]:
        dies = await self._turn()
        try:
            async for message in self._real.request_many(subject, payload):
                if "Status" in (message.headers or {}):
                    self._step_over.set()
                    if dies:
                        self._die()
                yield message
        finally:
            self._step_over.set()

    async def _turn(self) -> bool:
        """Wait for it; whether the player dies before it sees the answer."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn
        self._turns += 1
        dies = self._turns == self._dies_at
        if self._dead or (dies and not self._unseen):
            self._step_over.set()
            self._die()
        return dies

    def _die(self) -> None:
        self._dead = True
        raise Killed(self.name)


class Stage:
    def __init__(self, rng: Random, connections: list[Connection], *, mortality: float) -> None:
        self._rng = rng
        self._connections = connections
        self._mortality = mortality
        # How likely it is that whoever had a turn has the next one as well.
        self._persistence = rng.choice((0.0, 0.5, 0.9))
        self._players: list[Player] = []
        # Writes that were stored, in their order: subject and payload.
        self._stored: list[tuple[str, bytes]] = []

    def enter(
        self, name: str, act: Callable[[Connection], Awaitable[Any]], *, immortal: bool = False
    ) -> None:
        """Have somebody act, as soon as it is its turn."""
        mortal = self._rng.random() < self._mortality and not immortal
        dies_at = self._rng.randint(1, 12) if mortal else None
        connection = self._rng.choice(self._connections)
        unseen = self._rng.random() < 0.5
        player = Player(name, connection, self._stored, dies_at=dies_at, unseen=unseen)
        player.task = asyncio.ensure_future(act(player.connection))
        self._players.append(player)

    async def play(self) -> dict[str, Any]:
        """Until all are done; what each had in the end, be it an exception."""
        last: Player | None = None
        while True:
            alive = [player for player in self._players if player.task is not None and not player.task.done()]
            if not alive:
                break
            ready = [player for player in alive if player.wants_a_turn]
            if len(ready) < len(alive):
                # It is on the way to its next request, or to its end.
                await asyncio.sleep(0)
                continue
            if last not in ready or self._rng.random() >= self._persistence:
                last = self._rng.choice(ready)
            assert last is not None
            await last.step()
        tasks = [player.task for player in self._players if player.task is not None]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return {player.name: outcome for player, outcome in zip(self._players, outcomes, strict=True)}

    def writes(self, subject: str) -> list[bytes]:
        """What was stored under the subject, by whomever, in its order."""
        return [payload for at, payload in self._stored if at == subject]
