"""A simulated NATS server: subscriptions, streams and consumers, without a network.

`receive` handles what a client publishes, at the moment at which it arrives; whatever the server sends goes
to `Client.deliver`. When these calls happen is the matter of `network.py`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from pyoco_server.broker.client.message import Message
from tests.simulation.jetstream import headers
from tests.simulation.jetstream.consumer import Consumer, Outside
from tests.simulation.jetstream.errors import Refused
from tests.simulation.jetstream.requests import JetStreamApi
from tests.simulation.jetstream.stream import Stored, Stream
from tests.simulation.jetstream.subjects import has_wildcard, matches

_WILDCARDS = ("*", ">")
_ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"


class Client(Protocol):
    """A connection, as the server sees it."""

    def deliver(self, subscription: int, message: Message) -> None: ...


class Subscriptions:
    """Who is subscribed to what."""

    def __init__(self) -> None:
        self._exact: dict[str, dict[tuple[Client, int], None]] = {}
        # Patterns that end with one `*`, by what comes before: inboxes of replies.
        self._inboxes: dict[str, dict[tuple[Client, int], None]] = {}
        # The others, by their first two words: most messages need no look at them.
        self._patterns: dict[tuple[str, str], dict[tuple[Client, int], str]] = {}
        self._all: dict[tuple[Client, int], str] = {}

    def add(self, client: Client, number: int, pattern: str) -> None:
        self._all[client, number] = pattern
        prefix, _, last = pattern.rpartition(".")
        if not has_wildcard(pattern):
            self._exact.setdefault(pattern, {})[client, number] = None
        elif last == "*" and not has_wildcard(prefix):
            self._inboxes.setdefault(prefix, {})[client, number] = None
        else:
            self._patterns.setdefault(_beginning(pattern), {})[client, number] = pattern

    def remove(self, client: Client, number: int) -> None:
        pattern = self._all.pop((client, number), None)
        if pattern is None:
            return
        self._patterns.get(_beginning(pattern), {}).pop((client, number), None)
        for subject, table in ((pattern, self._exact), (pattern.rpartition(".")[0], self._inboxes)):
            if subject in table:
                table[subject].pop((client, number), None)
                if not table[subject]:
                    del table[subject]

    def remove_all(self, client: Client) -> None:
        for owner, number in [key for key in self._all if key[0] is client]:
            self.remove(owner, number)

    def matching(self, subject: str) -> list[tuple[Client, int]]:
        found = list(self._exact.get(subject, ()))
        found += self._inboxes.get(subject.rpartition(".")[0], ())
        first, second = _beginning(subject)
        for beginning in ((first, second), (first, ""), ("", "")):
            if patterns := self._patterns.get(beginning):
                found += [key for key, pattern in patterns.items() if matches(pattern, subject)]
        return found


class SimulatedServer:
    """`now_ns` is its clock; `call_at` calls back at a time of that clock."""

    def __init__(self, now_ns: Callable[[], int], call_at: Callable[[int, Callable[[], None]], Any]) -> None:
        self.now_ns = now_ns
        self._call_at = call_at
        self.subscriptions = Subscriptions()
        self.streams: dict[str, Stream] = {}
        self.consumers: dict[tuple[str, str], Consumer] = {}
        self.api = JetStreamApi(self)
        # How many operations behind the replica is that answers a direct read of this stream.
        self.replica_lag: Callable[[str], int] = lambda _: 0
        # How long after a message is stored its consumers are notified of it.
        self.notify_delay_ns: Callable[[], int] = lambda: 0
        # Until when notifications of a stream are pending: they are sent in order.
        self._notifying_until: dict[str, int] = {}
        # Called with each message that is stored.
        self.on_write: Callable[[Stream, Stored], None] = lambda *_: None
        self._takers: dict[str, list[Stream]] = {}
        self._by_beginning: dict[tuple[str, str], list[Stream]] = {}
        self._timers: dict[Consumer | tuple[str, str], int] = {}
        self._outside = Outside(
            now_ns=now_ns,
            send=self.send,
            has_interest=self._has_interest,
            advise=self._advise,
            wake_at=self._wake_consumer_at,
        )

    # Messages

    def receive(self, client: Client | None, subject: str, data: bytes, head: bytes, reply: str) -> None:
        """Handle a message that has arrived: forward it, then store it."""
        is_heard = self.announce(subject, data, head, reply)
        is_handled = self.process(subject, data, head, reply, client)
        if reply and not is_heard and not is_handled:
            self.send(reply, reply, "", headers.status(503, ""), b"")

    def announce(self, subject: str, data: bytes, head: bytes, reply: str) -> bool:
        """Forward it to subscribers; return whether there are any."""
        if subject.startswith("$JS.API."):
            return False
        found = self.subscriptions.matching(subject)
        for client, number in found:
            client.deliver(number, Message(subject, reply, head, data))
        return bool(found)

    def process(
        self, subject: str, data: bytes, head: bytes, reply: str, client: Client | None = None
    ) -> bool:
        """Store it, or execute what it asks for; return whether the server has to do with it."""
        if subject.startswith("$JS.API."):
            return self.api.handle(subject.removeprefix("$JS.API."), data, reply, client)
        if subject.startswith("$JS.ACK."):
            return self._acknowledge(subject, data, reply)
        takers = self.takers(subject)
        for stream in takers:
            self._store(stream, subject, data, head, reply)
        return bool(takers)

    def _store(self, stream: Stream, subject: str, data: bytes, head: bytes, reply: str) -> None:
        try:
            answer = stream.publish(subject, head, data, self.now_ns())
        except Refused as refused:
            answer = {"error": refused.fields, "stream": stream.name, "seq": 0}
        else:
            if "duplicate" not in answer:
                self._notify_consumers(stream, answer["seq"])
        if reply and not stream.config.get("no_ack"):
            self.reply(reply, answer)

    def takers(self, subject: str) -> list[Stream]:
        found = self._takers.get(subject)
        if found is None:
            found = self._takers[subject] = [
                each for each in self._possible_takers(subject) if each.takes(subject)
            ]
        return found

    def _possible_takers(self, subject: str) -> Iterable[Stream]:
        """Most subjects are new, and most streams have patterns that begin with two other words."""
        if not self._takers:
            self._by_beginning = _by_beginning(self.streams.values())
        first, second = _beginning(subject)
        found = self._by_beginning
        return [*found.get((first, second), ()), *found.get((first, ""), ()), *found.get(("", ""), ())]

    def send(self, subject: str, inbox: str, reply: str, head: bytes, data: bytes) -> None:
        """To those who are subscribed to the inbox; it arrives under `subject`."""
        for client, number in self.subscriptions.matching(inbox):
            client.deliver(number, Message(subject, reply, head, data))

    def reply(self, inbox: str, answer: dict[str, Any]) -> None:
        self.send(inbox, inbox, "", b"", msgspec.json.encode(answer))

    def _has_interest(self, inbox: str, _: object) -> bool:
        return bool(self.subscriptions.matching(inbox))

    # Streams

    def add_stream(self, config: dict[str, Any]) -> Stream:
        stream = Stream(config["name"], config, self.now_ns())
        stream.on_write = self._on_write
        stream.on_remove = self._on_remove
        self.streams[stream.name] = stream
        self._takers.clear()
        return stream

    def subjects_changed(self) -> None:
        self._takers.clear()

    def remove_stream(self, name: str) -> None:
        del self.streams[name]
        for key in [key for key in self.consumers if key[0] == name]:
            self.remove_consumer(self.consumers[key])
        self._takers.clear()

    def _on_write(self, stream: Stream, stored: Stored) -> None:
        self.on_write(stream, stored)

    def _on_remove(self, stream: Stream, stored: Stored) -> None:
        for consumer in self.consumers_of(stream.name):
            consumer.forget(stored.sequence)

    # Consumers

    def add_consumer(self, stream: Stream, name: str, config: dict[str, Any]) -> Consumer:
        consumer = Consumer(stream, name, config, self.now_ns(), self._outside)
        consumer.used_ns = self.now_ns()
        consumer.notified_sequence = stream.last_sequence
        if config.get("deliver_policy") == "by_start_sequence":
            consumer.next_sequence = int(config["opt_start_seq"])
        elif config.get("deliver_policy") == "new":
            consumer.next_sequence = stream.last_sequence + 1
        self.consumers[stream.name, name] = consumer
        return consumer

    def remove_consumer(self, consumer: Consumer) -> None:
        del self.consumers[consumer.stream.name, consumer.name]
        waiting = list(consumer.waiting)
        consumer.waiting.clear()
        for pull in waiting:
            self.send(pull.reply, pull.reply, "", headers.status(409, "Consumer Deleted"), b"")

    def consumer(self, stream: str, name: str) -> Consumer | None:
        """Without one that was not used for too long."""
        found = self.consumers.get((stream, name))
        if found is None:
            return None
        inactive_ns = int(found.config.get("inactive_threshold") or 0)
        if not found.is_durable and inactive_ns and self.now_ns() - found.used_ns > inactive_ns:
            self.remove_consumer(found)
            return None
        return found

    def consumers_of(self, stream: str) -> list[Consumer]:
        return [each for key, each in self.consumers.items() if key[0] == stream]

    def _notify_consumers(self, stream: Stream, sequence: int) -> None:
        """Perhaps after the ack of the publish, as JetStream does."""
        consumers = self.consumers_of(stream.name)
        if not consumers:
            return
        now_ns = self.now_ns()
        at_ns = max(now_ns + self.notify_delay_ns(), self._notifying_until.get(stream.name, 0))
        if at_ns <= now_ns:
            for consumer in consumers:
                consumer.notify(sequence)
            return

        def notify() -> None:
            for consumer in consumers:
                if self.consumers.get((stream.name, consumer.name)) is consumer:
                    consumer.notify(sequence)

        self._notifying_until[stream.name] = at_ns
        self._call_at(at_ns, notify)

    def _wake_consumer_at(self, consumer: Consumer, time_ns: int) -> None:
        key = (consumer.stream.name, consumer.name)
        known = self._timers.get(key)
        if known is not None and known <= time_ns:
            return
        self._timers[key] = time_ns
        self._call_at(time_ns, lambda: self._on_timer(key, time_ns))

    def _on_timer(self, key: tuple[str, str], time_ns: int) -> None:
        if self._timers.get(key) == time_ns:
            del self._timers[key]
            if (consumer := self.consumers.get(key)) is not None:
                consumer.work()

    def _advise(self, consumer: Consumer, sequence: int, deliveries: int) -> None:
        advisory = {
            "type": "io.nats.jetstream.advisory.v1.max_deliver",
            "id": f"{consumer.stream.name}.{consumer.name}.{sequence}",
            "timestamp": headers.rfc3339(self.now_ns()),
            "stream": consumer.stream.name,
            "consumer": consumer.name,
            "stream_seq": sequence,
            "deliveries": deliveries,
        }
        subject = f"{_ADVISORY}.{consumer.stream.name}.{consumer.name}"
        self.receive(None, subject, msgspec.json.encode(advisory), b"", "")

    def _acknowledge(self, subject: str, data: bytes, reply: str) -> bool:
        _, _, stream, name, _, sequence, consumer_sequence, *_ = subject.split(".")
        consumer = self.consumer(stream, name)
        if consumer is None:
            return False
        if int(consumer_sequence) <= consumer.consumer_sequence:
            consumer.ack(int(sequence), data)
        if reply:
            self.send(reply, reply, "", b"", b"")
        return True

    # Failures

    def disconnect(self, client: Client) -> None:
        self.subscriptions.remove_all(client)

    def restart(self, lost: dict[str, int] | None = None) -> dict[str, list[Stored]]:
        """Forget what is in memory only, and the newest messages of these streams; return those."""
        gone = {name: self.streams[name].lose_tail(count) for name, count in (lost or {}).items()}
        for consumer in list(self.consumers.values()):
            if not consumer.is_durable or consumer.config.get("mem_storage"):
                del self.consumers[consumer.stream.name, consumer.name]
            else:
                self._recover(consumer)
        for stream in self.streams.values():
            stream.message_ids = dict(_stored_ids(stream))
        self._timers.clear()
        for consumer in self.consumers.values():
            consumer.work()
        return gone

    def _recover(self, consumer: Consumer) -> None:
        consumer.waiting.clear()
        last = consumer.notified_sequence = consumer.stream.last_sequence
        consumer.next_sequence = min(consumer.next_sequence, last + 1)
        consumer.stream_sequence = min(consumer.stream_sequence, last)
        for sequence in [each for each in consumer.delivered if consumer.stream.at(each) is None]:
            consumer.forget(sequence)


def _beginning(subject: str) -> tuple[str, str]:
    """Its first two words; of a pattern, as far as they are no wildcards."""
    first, _, rest = subject.partition(".")
    second = rest.partition(".")[0]
    if first in _WILDCARDS:
        return "", ""
    return first, "" if second in _WILDCARDS else second


def _by_beginning(streams: Iterable[Stream]) -> dict[tuple[str, str], list[Stream]]:
    """Streams by how their subjects begin."""
    found: dict[tuple[str, str], list[Stream]] = {}
    for stream in streams:
        for each in {_beginning(pattern): None for pattern in stream.config.get("subjects") or ()}:
            found.setdefault(each, []).append(stream)
    return found


def _stored_ids(stream: Stream) -> Iterable[tuple[str, tuple[int, int]]]:
    """The ids of the messages that are stored: a server that starts knows no others."""
    for stored in stream.messages.values():
        if stored.head and (message_id := headers.decoded(stored.head).get("Nats-Msg-Id")):
            yield message_id, (stored.time_ns, stored.sequence)
