"""The interface of a peer, and of the product."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from benchmarks.harness.http_load import Load

SLOTS = 4  # tasks at once, for every peer
WARM_UP_RUNS = 50
# Of a sustained load: submits pause while so many wait, so that the slowest part decides.
MOST_QUEUED = 1_500


@dataclass(frozen=True)
class Sustained:
    """What a load that goes on has brought."""

    ended: int
    seconds: float
    # Of each submit.
    latencies: list[float]


class Work(StrEnum):
    """What a no-op is: the same Pyoco flow everywhere, or the bare function that a library is made for."""

    FLOW = "flow"
    FUNCTION = "function"


class Stack(Protocol):
    """A peer that runs: its broker, its gateway where it has one, and its workers."""

    @property
    def processes(self) -> dict[str, list[int]]:
        """Process ids of each part: `broker`, `gateway`, `worker`, `driver`. A peer may lack some."""

    @property
    def kinds_of_work(self) -> tuple[Work, ...]:
        """What it can be given; a server of flows executes nothing else."""

    async def submit(self, *, runs: int, connections: int, limit_sec: float, work: Work = Work.FLOW) -> Load:
        """Submit no-op runs, from so many connections at once."""

    async def sustain(self, *, seconds: float, connections: int) -> Sustained:
        """Submit no-op runs for so long, with at most MOST_QUEUED in the queue."""

    async def wait(self, *, limit_sec: float) -> int:
        """Until all that was submitted has ended; how many have not when the time is up."""

    async def stamp(self, *, runs: int, every_sec: float, stamps: Path) -> None:
        """Submit runs at a steady pace; each appends when it was sent and when it started."""

    async def chain(self, *, tasks: int, task_sec: float, limit_sec: float) -> float:
        """Seconds from the submit of a chain until it is known to have ended."""


class Peer(Protocol):
    """What can be measured."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def setup(self) -> str:
        """What works: processes and slots."""

    @property
    def durability(self) -> str:
        """What of a run survives a crash, with the settings measured here."""

    @property
    def done(self) -> str:
        """When a run counts as ended."""

    def prepare(self) -> dict[str, str]:
        """Have everything installed, and return the versions. NotMeasured says what is missing."""

    def start(self, folder: Path, *, workers: bool) -> AbstractAsyncContextManager[Stack]:
        """Start it with its data in `folder`, warm when it has workers; it ends with the context."""
