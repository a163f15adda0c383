"""Which streams do not store what is published to them, and why.

A server whose disk is full still answers everything but publishes to the streams concerned: those are not
answered at all. Here a connection keeps what is known about that; `storage/write_health.py` finds it out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyoco_server.errors import NatsCannotWrite


class WriteCause(StrEnum):
    DISK_FULL = "disk_full"
    # There is space again, but the server stores nothing until it is restarted.
    STORE_STOPPED = "store_stopped"
    # A server whose disk is unknown here does not store: one of the two above.
    NOT_STORED = "not_stored"
    # A limit of the server, the account or the stream.
    LIMIT_REACHED = "limit_reached"


@dataclass(frozen=True, slots=True)
class WriteProblem:
    cause: WriteCause
    detail: str
    since: float
    streams: tuple[str, ...]
    # What the subjects of these streams begin with.
    subjects: tuple[str, ...]

    def error(self) -> NatsCannotWrite:
        return NatsCannotWrite(self.detail)


# Of a publish: its subject, and why it was refused; empty if it was not answered.
FailureListener = Callable[[str, str], None]


class WriteState:
    def __init__(self) -> None:
        self.problem: WriteProblem | None = None
        self._listener: FailureListener | None = None

    def listen(self, listener: FailureListener) -> None:
        self._listener = listener

    def check(self, subjects: Sequence[str]) -> None:
        """NatsCannotWrite if a publish to one of these would fail for a known reason."""
        problem = self.problem
        if problem is not None and any(subject.startswith(problem.subjects) for subject in subjects):
            raise problem.error()

    def refused(self, subject: str, why: str) -> NatsCannotWrite:
        """The error for a publish that was refused for lack of space."""
        self._report(subject, why)
        return self._known(subject) or NatsCannotWrite(f"its storage limit is reached ({why})")

    def unanswered(self, subject: str) -> NatsCannotWrite | None:
        """The error for a request that was not answered, if the reason is known."""
        self._report(subject, "")
        return self._known(subject)

    def _report(self, subject: str, why: str) -> None:
        if self._listener is not None:
            self._listener(subject, why)

    def _known(self, subject: str) -> NatsCannotWrite | None:
        problem = self.problem
        concerned = problem is not None and subject.startswith(problem.subjects)
        return problem.error() if problem is not None and concerned else None
