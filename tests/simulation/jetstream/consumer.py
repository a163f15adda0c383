"""One simulated pull consumer: deliveries, AckWait, NAK, MaxDeliver, and the pulls that wait."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tests.simulation.jetstream import headers
from tests.simulation.jetstream.stream import Stored, Stream
from tests.simulation.jetstream.subjects import matches, overlap

_SECOND_NS: Final = 1_000_000_000


@dataclass(slots=True)
class Pull:
    """A request for messages."""

    reply: str
    left: int
    # Identifies the subscriber; its end ends the pull.
    client: object
    no_wait: bool = False
    expires_ns: int | None = None
    heartbeat_ns: int = 0
    next_heartbeat_ns: int = 0
    max_bytes: int = 0
    bytes_left: int = 0


@dataclass(slots=True)
class Pending:
    """A delivered message that is not acknowledged."""

    consumer_sequence: int
    due_ns: int


@dataclass(slots=True)
class Outside:
    """What a consumer needs of its server."""

    now_ns: Callable[[], int]
    # Send to a subject: subject under which it was stored, inbox, reply, head, data.
    send: Callable[[str, str, str, bytes, bytes], None]
    has_interest: Callable[[str, object], bool]
    advise: Callable[["Consumer", int, int], None]
    wake_at: Callable[["Consumer", int], None]


@dataclass(slots=True)
class Consumer:
    stream: Stream
    name: str
    config: dict[str, Any]
    created_ns: int
    outside: Outside
    # The next stream sequence to look at.
    next_sequence: int = 1
    # The last message that the server has notified it of.
    notified_sequence: int = 0
    # The numbers of the last delivery.
    consumer_sequence: int = 0
    stream_sequence: int = 0
    pending: dict[int, Pending] = field(default_factory=dict)
    # Of messages that were delivered: how often.
    delivered: dict[int, int] = field(default_factory=dict)
    redeliver: deque[int] = field(default_factory=deque)
    ack_floor: tuple[int, int] = (0, 0)
    waiting: deque[Pull] = field(default_factory=deque)
    used_ns: int = 0

    @property
    def is_durable(self) -> bool:
        return bool(self.config.get("durable_name"))

    @property
    def needs_ack(self) -> bool:
        return str(self.config.get("ack_policy")) != "none"

    @property
    def max_deliver(self) -> int:
        return int(self.config.get("max_deliver", -1))

    @property
    def ack_wait_ns(self) -> int:
        return int(self.config.get("ack_wait") or 30 * _SECOND_NS)

    @property
    def patterns(self) -> list[str]:
        several = self.config.get("filter_subjects") or []
        return list(several) or [self.config.get("filter_subject") or ">"]

    def wants(self, subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in self.patterns)

    def conflicts_with(self, config: dict[str, Any]) -> bool:
        theirs = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
        return any(overlap(mine, other) for mine in self.patterns for other in theirs)

    @property
    def num_pending(self) -> int:
        """How many messages were never delivered, of those that it was notified of."""
        pending = self._count_from(self.next_sequence)
        if self.notified_sequence >= self.stream.last_sequence:
            return pending
        return pending - self._count_from(max(self.next_sequence, self.notified_sequence + 1))

    def _count_from(self, sequence: int) -> int:
        [pattern, *more] = self.patterns
        if not more:
            return self.stream.count(sequence, pattern)
        return sum(1 for each in self.stream.after(sequence, ">") if self.wants(each.subject))

    def notify(self, sequence: int) -> None:
        """A message was stored. A pull that does not wait finds only messages of which this was called."""
        self.notified_sequence = max(self.notified_sequence, sequence)
        if self.waiting:
            self.work()

    # Pulls

    def pull(self, pull: Pull) -> None:
        now_ns = self.used_ns = self.outside.now_ns()
        if pull.no_wait:
            there = self.num_pending + len(self.redeliver)
            if not there and pull.expires_ns is None:
                self._end_pull(pull, 404, "No Messages", counts=False)
                return
        if pull.heartbeat_ns:
            pull.next_heartbeat_ns = now_ns + pull.heartbeat_ns
        self.waiting.append(pull)
        self.work()

    def work(self) -> None:
        """Deliver what can be delivered now, and set the timer for what comes later."""
        now_ns = self.outside.now_ns()
        self._check_pending(now_ns)
        self._end_old_pulls(now_ns)
        while self.waiting:
            if self._next_pull() is None:
                break
            stored = self._next_message()
            if stored is None:
                break
            self._deliver(stored, now_ns)
        self._end_no_wait()
        self._set_timer(now_ns)

    def _next_pull(self) -> Pull | None:
        while self.waiting:
            pull = self.waiting[0]
            if pull.left > 0 and self.outside.has_interest(pull.reply, pull.client):
                return pull
            self.waiting.popleft()
        return None

    def _next_message(self) -> Stored | None:
        while self.redeliver:
            sequence = self.redeliver[0]
            stored = self.stream.at(sequence)
            if stored is None:
                self.forget(sequence)
                continue
            number = self.delivered.get(sequence, 0)
            if 0 < self.max_deliver <= number:
                # Noticed only when it would be delivered.
                self.redeliver.popleft()
                self.pending.pop(sequence, None)
                self.outside.advise(self, sequence, number)
                continue
            if not self._fits(stored):
                return None
            self.redeliver.popleft()
            return stored
        if self.needs_ack and 0 < int(self.config.get("max_ack_pending") or 1000) <= len(self.pending):
            return None
        for stored in self.stream.after(
            self.next_sequence, ">" if len(self.patterns) > 1 else self.patterns[0]
        ):
            if not self.wants(stored.subject):
                continue
            if not self._fits(stored):
                return None
            self.next_sequence = stored.sequence + 1
            return stored
        return None

    def _fits(self, stored: Stored) -> bool:
        """Whether it is not more than the first pull takes; otherwise that pull ends."""
        pull = self.waiting[0]
        if not pull.max_bytes or stored.size <= pull.bytes_left:
            return True
        self.waiting.popleft()
        self._end_pull(pull, 409, "Message Size Exceeds MaxBytes")
        return self._next_pull() is not None and self._fits(stored)

    def _deliver(self, stored: Stored, now_ns: int) -> None:
        """To the first pull that waits."""
        pull = self.waiting[0]
        number = self.delivered.get(stored.sequence, 0) + 1
        self.consumer_sequence += 1
        self.stream_sequence = max(self.stream_sequence, stored.sequence)
        if self.needs_ack:
            self.delivered[stored.sequence] = number
            self.pending[stored.sequence] = Pending(self.consumer_sequence, now_ns + self.ack_wait_ns)
        else:
            self.ack_floor = (self.consumer_sequence, stored.sequence)
        left = self.num_pending
        position = f"{number}.{stored.sequence}.{self.consumer_sequence}.{stored.time_ns}.{left}"
        reply = f"$JS.ACK.{self.stream.name}.{self.name}.{position}"
        pull.left -= 1
        pull.bytes_left -= stored.size
        if pull.heartbeat_ns:
            pull.next_heartbeat_ns = now_ns + pull.heartbeat_ns
        self.outside.send(stored.subject, pull.reply, reply, stored.head, stored.data)
        # Pulls are served in turn.
        self.waiting.popleft()
        if pull.left:
            self.waiting.append(pull)
        elif pull.bytes_left > 0:
            self._end_pull(pull, 409, "Batch Completed")

    def _end_old_pulls(self, now_ns: int) -> None:
        for pull in list(self.waiting):
            if not self.outside.has_interest(pull.reply, pull.client):
                self.waiting.remove(pull)
            elif pull.expires_ns is not None and pull.expires_ns <= now_ns:
                self.waiting.remove(pull)
                self._end_pull(pull, 408, "Request Timeout")
            elif pull.heartbeat_ns and pull.next_heartbeat_ns <= now_ns:
                pull.next_heartbeat_ns += pull.heartbeat_ns
                facts = {
                    "Nats-Last-Consumer": self.consumer_sequence,
                    "Nats-Last-Stream": self.stream_sequence,
                }
                self._status(pull, headers.status(100, "Idle Heartbeat", _texts(facts)))

    def _end_no_wait(self) -> None:
        for pull in list(self.waiting):
            if pull.no_wait and pull.expires_ns is None:
                self.waiting.remove(pull)
                self._end_pull(pull, 404, "No Messages", counts=False)

    def _end_pull(self, pull: Pull, code: int, description: str, *, counts: bool = True) -> None:
        left = {"Nats-Pending-Messages": pull.left, "Nats-Pending-Bytes": max(0, pull.bytes_left)}
        self._status(pull, headers.status(code, description, _texts(left) if counts else None))

    def _status(self, pull: Pull, head: bytes) -> None:
        self.outside.send(pull.reply, pull.reply, "", head, b"")

    # Acknowledgements

    def ack(self, sequence: int, payload: bytes) -> None:
        now_ns = self.outside.now_ns()
        if payload.startswith(b"-NAK"):
            self._nak(sequence, payload, now_ns)
        elif payload == b"+WPI":
            if sequence in self.pending:
                self.pending[sequence].due_ns = now_ns + self.ack_wait_ns
        elif payload.startswith(b"+TERM") or payload in (b"", b"+ACK"):
            self._done(sequence)
        self.work()

    def _done(self, sequence: int) -> None:
        known = self.pending.pop(sequence, None)
        if known is None and sequence not in self.delivered:
            return
        self.forget(sequence)
        if self.stream.is_work_queue:
            self.stream.delete(sequence)

    def forget(self, sequence: int) -> None:
        self.pending.pop(sequence, None)
        self.delivered.pop(sequence, None)
        if sequence in self.redeliver:
            self.redeliver.remove(sequence)

    def purged(self, pattern: str) -> None:
        """Messages on these subjects were removed: those that it would have delivered count as delivered."""
        if self.patterns != [">"] and not all(matches(pattern, mine) for mine in self.patterns):
            return
        first = self.stream.first_sequence
        if self.next_sequence < first:
            self.next_sequence = first
            self.stream_sequence = max(self.stream_sequence, first - 1)

    def _nak(self, sequence: int, payload: bytes, now_ns: int) -> None:
        known = self.pending.get(sequence)
        if known is None:
            return
        delay_ns = _nak_delay(payload)
        if delay_ns:
            known.due_ns = now_ns + delay_ns
        else:
            self._again(sequence)

    def _check_pending(self, now_ns: int) -> None:
        due = sorted(sequence for sequence, each in self.pending.items() if each.due_ns <= now_ns)
        for sequence in due:
            if self.max_deliver == 1 and sequence not in self.redeliver:
                # Of several deliveries, it is noticed only when there would be one more.
                del self.pending[sequence]
                self.outside.advise(self, sequence, 1)
            else:
                self._again(sequence)

    def _again(self, sequence: int) -> None:
        if self.stream.at(sequence) is None:
            self.forget(sequence)
        elif sequence not in self.redeliver:
            # It stays pending until it is delivered again.
            self.redeliver.append(sequence)

    # Time

    def _set_timer(self, now_ns: int) -> None:
        due = [each.due_ns for sequence, each in self.pending.items() if sequence not in self.redeliver]
        for pull in self.waiting:
            if pull.expires_ns is not None:
                due.append(pull.expires_ns)
            if pull.heartbeat_ns:
                due.append(pull.next_heartbeat_ns)
        if due:
            self.outside.wake_at(self, max(min(due), now_ns))

    def info(self) -> dict[str, Any]:
        return {
            "type": "io.nats.jetstream.api.v1.consumer_info_response",
            "stream_name": self.stream.name,
            "name": self.name,
            "created": headers.rfc3339(self.created_ns),
            "config": self.config,
            "delivered": {"consumer_seq": self.consumer_sequence, "stream_seq": self.stream_sequence},
            "ack_floor": {"consumer_seq": self.ack_floor[0], "stream_seq": self.ack_floor[1]},
            "num_ack_pending": len(self.pending),
            "num_redelivered": sum(1 for sequence, count in self.delivered.items() if count > 1),
            "num_waiting": len(self.waiting),
            "num_pending": self.num_pending,
            "ts": headers.rfc3339(self.outside.now_ns()),
        }


def _nak_delay(payload: bytes) -> int:
    _, _, options = payload.partition(b" ")
    return int(msgspec.json.decode(options).get("delay", 0)) if options else 0


def _texts(values: dict[str, int]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}
