"""One simulated stream: its messages, limits, de-duplication and time to live."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tests.simulation.jetstream import headers
from tests.simulation.jetstream.errors import ApiError, Refused
from tests.simulation.jetstream.subjects import has_wildcard, matches

# How many removed messages a lagging replica may still have.
_KEPT_REMOVED: Final = 256
_SECOND_NS: Final = 1_000_000_000


@dataclass(slots=True)
class Stored:
    sequence: int
    subject: str
    head: bytes
    data: bytes
    time_ns: int
    # The number of the operation that stored it.
    operation: int = 0
    expires_ns: int | None = None

    @property
    def size(self) -> int:
        """As a file store counts it."""
        header = 4 + len(self.head) if self.head else 0
        return 22 + len(self.subject) + header + len(self.data) + 8


class View:
    """The messages as one replica has them."""

    def __init__(self, messages: list[Stored], last_sequence: int) -> None:
        self.messages = messages
        self.last_sequence = last_sequence

    def last(self, pattern: str) -> Stored | None:
        return next((each for each in reversed(self.messages) if matches(pattern, each.subject)), None)

    def at(self, sequence: int) -> Stored | None:
        return next((each for each in self.messages if each.sequence == sequence), None)

    def after(self, sequence: int, pattern: str) -> Iterator[Stored]:
        """From this sequence on."""
        return (
            each for each in self.messages if each.sequence >= sequence and matches(pattern, each.subject)
        )

    def count(self, sequence: int, pattern: str) -> int:
        return sum(1 for _ in self.after(sequence, pattern))


@dataclass(slots=True)
class _Removed:
    message: Stored
    operation: int


@dataclass(slots=True)
class Stream:
    """`on_write` and `on_remove` are called with each message that is stored or removed."""

    name: str
    config: dict[str, Any]
    created_ns: int
    messages: dict[int, Stored] = field(default_factory=dict)
    sequences: list[int] = field(default_factory=list)
    by_subject: dict[str, list[int]] = field(default_factory=dict)
    last_sequence: int = 0
    last_time_ns: int = 0
    size: int = 0
    message_ids: dict[str, tuple[int, int]] = field(default_factory=dict)
    operations: int = 0
    removed: deque[_Removed] = field(default_factory=lambda: deque(maxlen=_KEPT_REMOVED))
    on_write: Callable[["Stream", Stored], None] = lambda *_: None
    on_remove: Callable[["Stream", Stored], None] = lambda *_: None
    _described: dict[str, Any] = field(default_factory=dict)
    _expiring: bool = False
    _was_purged: bool = False

    @property
    def described(self) -> dict[str, Any]:
        """Its configuration and when it was created, for stream info; encoded once."""
        if self._described.get("of") is not self.config:
            self._described = {
                "of": self.config,
                "config": msgspec.Raw(msgspec.json.encode(self.config)),
                "created": headers.rfc3339(self.created_ns),
            }
        return {"config": self._described["config"], "created": self._described["created"]}

    @property
    def first_sequence(self) -> int:
        if self.sequences:
            return self.sequences[0]
        return self.last_sequence + 1 if self.last_sequence or self._was_purged else 0

    @property
    def is_work_queue(self) -> bool:
        return self.config.get("retention") == "workqueue"

    def takes(self, subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in self.config.get("subjects") or ())

    # Writing

    def publish(self, subject: str, head: bytes, data: bytes, now_ns: int) -> dict[str, Any]:
        """The acknowledgement; Refused with the server's error."""
        self.expire(now_ns)
        given = headers.decoded(head) if head else {}
        self._check_ttl_allowed(given)
        self._check_expected(subject, given)
        message_id = given.get("Nats-Msg-Id")
        if message_id and (known := self._known_id(message_id, now_ns)) is not None:
            return {"stream": self.name, "seq": known, "duplicate": True}
        self._check_rollup(given)
        expires_ns = self._expiry(given, now_ns)
        if 0 < self.config.get("max_msg_size", -1) < len(head) + len(data):
            raise Refused(ApiError.TOO_LARGE)
        self.operations += 1
        self.last_sequence += 1
        stored = Stored(self.last_sequence, subject, head, data, now_ns, self.operations, expires_ns)
        self._add(stored)
        self.last_time_ns = now_ns
        if message_id:
            self.message_ids[message_id] = (now_ns, stored.sequence)
        self._roll_up(given, stored)
        self._enforce_limits(stored)
        self.on_write(self, stored)
        return {"stream": self.name, "seq": stored.sequence}

    def _check_ttl_allowed(self, given: dict[str, str]) -> None:
        """A time to live that cannot be read is refused later, wherever it is given."""
        ttl = given.get("Nats-TTL")
        if (
            ttl is not None
            and not self.config.get("allow_msg_ttl")
            and (ttl == "never" or _duration(ttl) >= 1)
        ):
            raise Refused(ApiError.TTL_DISABLED)

    def _expiry(self, given: dict[str, str], now_ns: int) -> int | None:
        ttl = given.get("Nats-TTL")
        if ttl is None or ttl == "never":
            return None
        seconds = _duration(ttl)
        if seconds < 1:
            raise Refused(ApiError.TTL_INVALID)
        self._expiring = True
        return now_ns + int(seconds * _SECOND_NS)

    def _known_id(self, message_id: str, now_ns: int) -> int | None:
        window = self.config.get("duplicate_window", 0)
        # In the order of their times.
        while self.message_ids:
            oldest = next(iter(self.message_ids))
            if now_ns - self.message_ids[oldest][0] < window:
                break
            del self.message_ids[oldest]
        known = self.message_ids.get(message_id)
        return None if known is None else known[1]

    def _check_expected(self, subject: str, given: dict[str, str]) -> None:
        expected = given.get("Nats-Expected-Last-Subject-Sequence")
        if expected is not None:
            pattern = given.get("Nats-Expected-Last-Subject-Sequence-Subject", subject)
            last = self.last(pattern)
            found = 0 if last is None else last.sequence
            if found != int(expected):
                raise Refused(ApiError.WRONG_LAST_SEQUENCE, found)
        expected = given.get("Nats-Expected-Last-Sequence")
        if expected is not None and int(expected) != self.last_sequence:
            raise Refused(ApiError.WRONG_LAST_SEQUENCE, self.last_sequence)

    def _check_rollup(self, given: dict[str, str]) -> None:
        if "Nats-Rollup" in given and not self.config.get("allow_rollup_hdrs"):
            raise Refused(ApiError.ROLLUP_DISABLED)

    def _roll_up(self, given: dict[str, str], stored: Stored) -> None:
        how = given.get("Nats-Rollup")
        if how is not None:
            pattern = stored.subject if how == "sub" else ">"
            for sequence in self.matching(pattern):
                if sequence < stored.sequence:
                    self._remove(sequence)

    def _enforce_limits(self, stored: Stored) -> None:
        per_subject = self.config.get("max_msgs_per_subject", -1)
        if per_subject > 0:
            own = self.by_subject[stored.subject]
            while len(own) > per_subject:
                self._remove(own[0])
        most = self.config.get("max_msgs", -1)
        while 0 < most < len(self.messages):
            self._remove(self.sequences[0])
        most = self.config.get("max_bytes", -1)
        while 0 < most < self.size:
            self._remove(self.sequences[0])

    def _add(self, stored: Stored) -> None:
        self.messages[stored.sequence] = stored
        self.sequences.append(stored.sequence)
        self.by_subject.setdefault(stored.subject, []).append(stored.sequence)
        self.size += stored.size

    # Removing

    def delete(self, sequence: int) -> bool:
        if sequence not in self.messages:
            return False
        self.operations += 1
        self._remove(sequence)
        return True

    def purge(self, pattern: str = ">", *, below: int | None = None, keep: int = 0) -> int:
        """Remove the messages on the subjects: all, those below a sequence, or all but the newest."""
        self._was_purged = self._was_purged or (pattern == ">" and not below and not keep)
        chosen = self.matching(pattern)
        if below:
            chosen = [sequence for sequence in chosen if sequence < below]
        elif keep:
            chosen = chosen[: max(0, len(chosen) - keep)]
        self.operations += 1
        for sequence in chosen:
            self._remove(sequence)
        return len(chosen)

    def _remove(self, sequence: int) -> None:
        stored = self.messages.pop(sequence)
        del self.sequences[bisect_left(self.sequences, sequence)]
        own = self.by_subject[stored.subject]
        del own[bisect_left(own, sequence)]
        if not own:
            del self.by_subject[stored.subject]
        self.size -= stored.size
        self.removed.append(_Removed(stored, self.operations))
        self.on_remove(self, stored)

    def expire(self, now_ns: int) -> None:
        """Remove what is too old by now."""
        age = self.config.get("max_age", 0)
        while age and self.sequences and self.messages[self.sequences[0]].time_ns + age <= now_ns:
            self.operations += 1
            self._remove(self.sequences[0])
        if self._expiring:
            due = [
                each.sequence for each in self.messages.values() if (each.expires_ns or now_ns + 1) <= now_ns
            ]
            for sequence in due:
                self.operations += 1
                self._remove(sequence)

    def lose_tail(self, count: int) -> list[Stored]:
        """Forget the newest messages, as a server does that lost its power before it had written them.

        What they replaced is there again, as far as it is known.
        """
        lost = [self.messages[sequence] for sequence in self.sequences[-count:]] if count else []
        if not lost:
            return []
        operation = lost[0].operation - 1
        view = self.view(operation)
        self.messages, self.sequences, self.by_subject, self.size = {}, [], {}, 0
        for stored in view.messages:
            self._add(stored)
        self.last_sequence = view.last_sequence
        self.operations = operation
        self.removed.clear()
        kept = {each.sequence for each in view.messages}
        self.message_ids = {name: at for name, at in self.message_ids.items() if at[1] in kept}
        return lost

    # Reading

    def matching(self, pattern: str) -> list[int]:
        """The sequences of the messages on these subjects."""
        if pattern == ">":
            return list(self.sequences)
        if not has_wildcard(pattern):
            return list(self.by_subject.get(pattern, ()))
        chosen = [own for subject, own in self.by_subject.items() if matches(pattern, subject)]
        return sorted(sequence for own in chosen for sequence in own)

    def last(self, pattern: str) -> Stored | None:
        if not has_wildcard(pattern):
            own = self.by_subject.get(pattern)
            return self.messages[own[-1]] if own else None
        chosen = [own[-1] for subject, own in self.by_subject.items() if matches(pattern, subject)]
        return self.messages[max(chosen)] if chosen else None

    def at(self, sequence: int) -> Stored | None:
        return self.messages.get(sequence)

    def after(self, sequence: int, pattern: str) -> Iterator[Stored]:
        """The messages on these subjects from this sequence on."""
        sequences = self.sequences if has_wildcard(pattern) else self.by_subject.get(pattern, [])
        for index in range(bisect_left(sequences, sequence), len(sequences)):
            stored = self.messages[sequences[index]]
            if matches(pattern, stored.subject):
                yield stored

    def count(self, sequence: int, pattern: str) -> int:
        if pattern == ">":
            return len(self.sequences) - bisect_left(self.sequences, sequence)
        return sum(1 for _ in self.after(sequence, pattern))

    def view(self, operation: int) -> View:
        """As it was after this operation, as far as what was removed since is still known."""
        there = [each for each in self.messages.values() if each.operation <= operation]
        there += [
            each.message
            for each in self.removed
            if each.operation > operation and each.message.operation <= operation
        ]
        there.sort(key=lambda each: each.sequence)
        newer = [each.sequence for each in self.messages.values() if each.operation > operation]
        newer += [each.message.sequence for each in self.removed if each.message.operation > operation]
        return View(there, min(newer) - 1 if newer else self.last_sequence)

    def sequence_at(self, time_ns: int) -> int:
        """The first sequence that was stored then or later."""
        times = [self.messages[sequence].time_ns for sequence in self.sequences]
        index = bisect_left(times, time_ns)
        return self.sequences[index] if index < len(times) else self.last_sequence + 1


def _duration(text: str) -> float:
    """Of a header: seconds, or a number with a unit."""
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    for unit in ("ms", "s", "m", "h"):
        if text.endswith(unit):
            number = text.removesuffix(unit)
            return float(number) * units[unit] if number.replace(".", "", 1).isdigit() else 0.0
    return float(text) if text.isdigit() else 0.0
