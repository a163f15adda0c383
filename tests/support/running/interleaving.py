"""Several participants that send requests to NATS, one at a time, in an order drawn from a seed.

A participant that wants to send a request waits for its turn; the request is answered before the next turn. A
participant can be killed at any request: before it is sent, or before the reply is seen.
"""

import asyncio
import os
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.connections import connected


class Killed(BaseException):
    """Like kill -9: nothing of the participant is executed after it."""


class Participant:
    """A connection to NATS whose requests are scheduled."""

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
        # The request at which it dies is sent, and the reply is not seen.
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
    def is_waiting(self) -> bool:
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
        """Wait for it; return whether the participant dies before it sees the reply."""
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


class RequestScheduler:
    def __init__(self, rng: Random, connections: list[Connection], *, kill_probability: float) -> None:
        self._rng = rng
        self._connections = connections
        self._kill_probability = kill_probability
        # How likely it is that the participant of the last turn gets the next one as well.
        self._persistence = rng.choice((0.0, 0.5, 0.9))
        self._participants: list[Participant] = []
        # Writes that were stored, in their order: subject and payload.
        self._stored: list[tuple[str, bytes]] = []

    def add(
        self, name: str, act: Callable[[Connection], Awaitable[Any]], *, never_killed: bool = False
    ) -> None:
        """Add a participant; `act` gets its connection."""
        is_killed = self._rng.random() < self._kill_probability and not never_killed
        dies_at = self._rng.randint(1, 12) if is_killed else None
        connection = self._rng.choice(self._connections)
        unseen = self._rng.random() < 0.5
        participant = Participant(name, connection, self._stored, dies_at=dies_at, unseen=unseen)
        participant.task = asyncio.ensure_future(act(participant.connection))
        self._participants.append(participant)

    async def run(self) -> dict[str, Any]:
        """Run until all are done; return the result or the exception of each."""
        last: Participant | None = None
        while True:
            alive = [
                participant
                for participant in self._participants
                if participant.task is not None and not participant.task.done()
            ]
            if not alive:
                break
            ready = [participant for participant in alive if participant.is_waiting]
            if len(ready) < len(alive):
                # It is on the way to its next request, or to its end.
                await asyncio.sleep(0)
                continue
            if last not in ready or self._rng.random() >= self._persistence:
                last = self._rng.choice(ready)
            assert last is not None
            await last.step()
        tasks = [each.task for each in self._participants if each.task is not None]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return {
            participant.name: outcome
            for participant, outcome in zip(self._participants, outcomes, strict=True)
        }

    def writes(self, subject: str) -> list[bytes]:
        """What was stored under the subject, in order."""
        return [payload for at, payload in self._stored if at == subject]


@dataclass(frozen=True)
class Seeds:
    """The orders that a test draws: `count` of them, others in each test run."""

    # The environment variable that names a single seed, to repeat what has failed.
    variable: str
    first: int
    count: int
    is_single: bool

    @classmethod
    def drawn(cls, variable: str, *, count: int) -> "Seeds":
        """INTERLEAVINGS=20000 in the environment draws more."""
        count = int(os.environ.get("INTERLEAVINGS", count))
        if single := os.environ.get(variable):
            return cls(variable, int(single), 1, is_single=True)
        # The processes of one test run must agree on it.
        shared = int(os.environ.get("PYTEST_XDIST_TESTRUNUID") or secrets.token_hex(8), 16)
        return cls(variable, shared % 10**6 * count, count, is_single=False)


async def outcomes_of(
    seeds: Seeds,
    interleaving: Callable[[int, list[Connection]], Awaitable[str]],
    config: NatsBackendConfig,
    *,
    concurrency: int,
) -> Counter[str]:
    """How often each outcome occurred; an exception has a note that names its seed."""
    outcomes: Counter[str] = Counter()
    left = list(range(seeds.first, seeds.first + seeds.count))

    async def run_some(connections: list[Connection]) -> None:
        while left:
            seed = left.pop()
            try:
                outcomes[await interleaving(seed, connections)] += 1
            except BaseException as error:
                error.add_note(f"repeat it with {seeds.variable}={seed}")
                raise

    async with connected(config) as one, connected(config) as other, asyncio.TaskGroup() as tasks:
        for _ in range(concurrency):
            tasks.create_task(run_some([one, other]))
    assert outcomes.total() == seeds.count
    return outcomes
