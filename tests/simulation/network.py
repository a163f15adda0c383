"""Connections between the processes and the NATS server: they delay, reorder, lose and end.

A connection is a TCP stream, but JetStream handles the messages of different streams and requests side by
side, and so do clients with replies. Here each of these has a lane of its own: what is sent on one lane
arrives in order, and everything else may overtake it. Messages that JetStream has no part in are on one lane,
and so are the replies "no responders" to them: the server handles them as it reads them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import nats.errors

from pyoco_server.broker.client.connection import NO_RESPONDERS
from pyoco_server.broker.client.message import Message, MessageSink
from tests.simulation.choices import Choices, Weights
from tests.simulation.jetstream import headers
from tests.simulation.jetstream.requests import SERVER_VERSION
from tests.simulation.jetstream.server import SimulatedServer
from tests.simulation.loop import Process, SimulationLoop

_RECONNECT_SEC: Final = 0.25
_MAX_PAYLOAD: Final = 8 * 1024 * 1024
# How long a message takes, and how likely that is. The first is the usual one.
_DELAYS_SEC: Final = (0.001, 0.0002, 0.002, 0.005, 0.02, 0.1)
_DELAY_WEIGHTS: Final = Weights(50, 20, 15, 10, 4, 1)
# How long a message is only announced until it is stored.
_STORE_SEC: Final = (0.0, 0.002, 0.03)
_STORE_WEIGHTS: Final = Weights(94, 5, 1)
# How long the consumers of a stored message are not notified of it.
_NOTIFY_SEC: Final = (0.0, 0.002, 0.05)
_NOTIFY_WEIGHTS: Final = Weights(94, 5, 1)


class MessageFault(StrEnum):
    """What happens to one message of a process, or to the process when it sends it."""

    # The connection ends before it arrives, or after it has arrived and before its reply does.
    CUT_BEFORE = "the connection is cut before it arrives"
    CUT_AFTER = "the connection is cut before its reply arrives"
    # The reply does not arrive; the connection stays.
    LOSE_REPLY = "its reply is lost"
    LATE = "it arrives late"
    LATE_REPLY = "its reply arrives late"
    CRASH_BEFORE = "the process crashes before it is sent"
    CRASH_AFTER = "the process crashes after it is sent"
    PAUSE = "the process is paused after it is sent"


class Network:
    """`record` adds a line to the story; `fault_of` decides what happens to the next message of a process."""

    def __init__(
        self,
        loop: SimulationLoop,
        choices: Choices,
        server: SimulatedServer,
        record: Callable[[str, str], None],
    ) -> None:
        self.loop = loop
        self.server = server
        server.notify_delay_ns = self.notify_delay_ns
        self.record = record
        self._choices = choices
        self.server_is_up = True
        self.clients: list[SimulatedClient] = []
        self.fault_of: Callable[[SimulatedClient, str], MessageFault | None] = lambda *_: None
        self.crash: Callable[[Process], None] = loop.stop_process
        self.pause: Callable[[Process], None] = lambda _: None
        # How long a late message is on its way.
        self.late_sec: Callable[[], float] = lambda: 3.0
        # When the last of these has arrived.
        self.late_until = 0.0
        self._unreachable: dict[Process, float] = {}

    def new_client(self, **_: object) -> "SimulatedClient":
        client = SimulatedClient(self, self.loop.running, len(self.clients))
        self.clients.append(client)
        return client

    def delay(self) -> float:
        return _DELAYS_SEC[self._choices.weighted("delay", _DELAY_WEIGHTS)]

    def store_delay(self) -> float:
        return _STORE_SEC[self._choices.weighted("store", _STORE_WEIGHTS)]

    def notify_delay_ns(self) -> int:
        # Another name of the choice would change what the known seeds do.
        return int(_NOTIFY_SEC[self._choices.weighted("tell", _NOTIFY_WEIGHTS)] * 1e9)

    def delay_late(self) -> float:
        """Of a message that is late."""
        late_sec = self.late_sec()
        self.late_until = max(self.late_until, self.loop.now + late_sec)
        return late_sec

    def reachable_from(self, process: Process) -> bool:
        return self.server_is_up and self._unreachable.get(process, 0.0) <= self.loop.now

    def cut(self, process: Process, *, seconds: float = 0.0) -> None:
        """End its connections; it can connect again after so many seconds."""
        self._unreachable[process] = self.loop.now + seconds
        for client in self.clients:
            if client.process is process:
                client.lose_connection()

    def stop_server(self) -> None:
        self.server_is_up = False
        for client in self.clients:
            client.lose_connection()

    def start_server(self) -> None:
        self.server_is_up = True

    def forget(self, process: Process) -> None:
        """Its operating system closes its connections."""
        for client in self.clients:
            if client.process is process:
                client.is_connected = False
                self.server.disconnect(client)
        self.clients = [client for client in self.clients if client.process is not process]


class SimulatedSubscription:
    def __init__(self, client: "SimulatedClient", number: int, pattern: str) -> None:
        self._client = client
        self._id = number
        self.subject = pattern

    async def unsubscribe(self) -> None:
        self._client.unsubscribe(self._id)

    async def drain(self) -> None:
        """Return when everything that the server has sent before is received."""
        await self._client.drain(self._id)


class SimulatedClient:
    """Instead of the client of `broker/client/direct_client.py`, with the methods that `Connection` uses."""

    max_payload = _MAX_PAYLOAD
    connected_server_version = SERVER_VERSION

    def __init__(self, network: Network, process: Process, number: int) -> None:
        self._network = network
        self._loop = network.loop
        self.process = process
        self._name = f"{process.name}-{number}"
        self.is_connected = False
        self.is_closed = False
        self.stats = {"in_msgs": 0, "in_bytes": 0, "out_msgs": 0, "out_bytes": 0}
        self._sinks: dict[int, tuple[str, MessageSink]] = {}
        self._numbers = 0
        self._inboxes = 0
        # Increases with each connection: what is on its way belongs to one of them.
        self._connection = 0
        self._lanes: dict[str, float] = {}
        # What arrives later must not arrive before the last subscription.
        self._earliest = 0.0
        self._buffered: list[tuple[str, bytes, str, bytes]] = []
        # Inboxes whose next reply is lost, or late.
        self._faulty_replies: dict[str, MessageFault] = {}
        self._callbacks: dict[str, Callable[..., Awaitable[None]]] = {}

    def __repr__(self) -> str:
        return self._name

    # As nats-py

    async def connect(self, **options: Any) -> None:
        self._callbacks = {name: call for name, call in options.items() if name.endswith("_cb")}
        await self._trip()
        if not self._network.reachable_from(self.process):
            raise nats.errors.NoServersError
        self._connected()

    async def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._disconnected()
            await self._callbacks["closed_cb"]()

    def new_inbox(self) -> str:
        self._inboxes += 1
        return f"_INBOX.{self._name}-{self._inboxes}"

    async def subscribe_direct(self, subject: str, sink: MessageSink) -> SimulatedSubscription:
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        self._numbers += 1
        self._sinks[self._numbers] = (subject, sink)
        if self.is_connected:
            self._subscribe(self._numbers, subject)
        return SimulatedSubscription(self, self._numbers, subject)

    def try_publish(
        self, subject: str, payload: bytes, reply: str = "", headers_: Mapping[str, str] | None = None
    ) -> bool:
        if not self.is_connected or len(payload) > self.max_payload:
            return False
        self._send(subject, payload, reply, headers.encoded(headers_))
        return True

    async def publish(
        self, subject: str, payload: bytes, reply: str = "", headers_: Mapping[str, str] | None = None
    ) -> None:
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        if len(payload) > self.max_payload:
            raise nats.errors.MaxPayloadError
        if self.is_connected:
            self._send(subject, payload, reply, headers.encoded(headers_))
        else:
            # Sent after the reconnect.
            self._buffered.append((subject, payload, reply, headers.encoded(headers_)))

    async def flush(self, timeout: float = 10) -> None:
        await self._trip()

    # Subscriptions

    def _subscribe(self, number: int, subject: str) -> None:
        arrival = self._earliest = max(self._loop.now + self._network.delay(), self._earliest)
        connection = self._connection

        def arrive() -> None:
            if connection == self._connection and number in self._sinks:
                self._network.server.subscriptions.add(self, number, subject)

        self._at(arrival, arrive)

    def unsubscribe(self, number: int) -> None:
        self._sinks.pop(number, None)
        self._end_interest(number)

    def _end_interest(self, number: int) -> float:
        arrival = self._earliest = max(self._loop.now + self._network.delay(), self._earliest)
        self._at(arrival, self._network.server.subscriptions.remove, self, number)
        return arrival

    async def drain(self, number: int) -> None:
        if not self.is_connected:
            self._sinks.pop(number, None)
            raise nats.errors.ConnectionReconnectingError
        arrival = self._end_interest(number)
        done: asyncio.Future[None] = self._loop.create_future()

        def finish() -> None:
            if not done.done():
                done.set_result(None)

        def answer() -> None:
            lanes = [at for lane, at in self._lanes.items() if lane.startswith("<")]
            last = max([self._loop.now, *lanes])
            self._loop.call_in(self.process, last + self._network.delay(), finish)

        self._at(arrival, answer)
        await done
        self._sinks.pop(number, None)

    # Messages to the server

    def _send(self, subject: str, payload: bytes, reply: str, head: bytes) -> None:
        network = self._network
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(payload)
        fault = network.fault_of(self, subject)
        late_sec = 0.0
        if fault is not None:
            network.record(self.process.name, f"{subject}: {fault}")
            if fault is MessageFault.CRASH_BEFORE:
                network.crash(self.process)
                return
            if fault is MessageFault.CUT_BEFORE:
                network.cut(self.process, seconds=_RECONNECT_SEC)
                return
            if fault is MessageFault.LATE:
                late_sec = network.delay_late()
            elif fault in (MessageFault.LOSE_REPLY, MessageFault.LATE_REPLY) and reply:
                self._faulty_replies[reply] = fault
        lane = _lane_of(subject, network.server)
        arrival = max(self._loop.now + network.delay() + late_sec, self._lanes.get(lane, 0.0), self._earliest)
        self._lanes[lane] = arrival
        survives = fault in (MessageFault.CUT_AFTER, MessageFault.CRASH_AFTER)
        connection = None if survives else self._connection
        self._at(arrival, self._arrive, connection, lane, subject, payload, reply, head)
        if fault is MessageFault.CUT_AFTER:
            network.cut(self.process, seconds=_RECONNECT_SEC)
        elif fault is MessageFault.CRASH_AFTER:
            network.crash(self.process)
        elif fault is MessageFault.PAUSE:
            network.pause(self.process)

    def _arrive(
        self, connection: int | None, lane: str, subject: str, payload: bytes, reply: str, head: bytes
    ) -> None:
        if connection not in (None, self._connection) or not self._network.server_is_up:
            return
        server = self._network.server
        is_heard = server.announce(subject, payload, head, reply)
        delay = self._network.store_delay() if lane.startswith(">store") else 0.0
        if delay:
            # Later messages to the same stream wait for it.
            self._lanes[lane] = max(self._lanes[lane], self._loop.now + delay)
            self._at(self._loop.now + delay, self._store, is_heard, subject, payload, reply, head)
        else:
            self._store(is_heard, subject, payload, reply, head)

    def _store(self, is_heard: bool, subject: str, payload: bytes, reply: str, head: bytes) -> None:
        server = self._network.server
        if not self._network.server_is_up:
            return
        is_handled = server.process(subject, payload, head, reply, self)
        if reply and not is_heard and not is_handled:
            server.send(reply, reply, "", headers.status(503, ""), b"")

    # Messages from the server

    def deliver(self, number: int, message: Message) -> None:
        """The server sends a message of this subscription."""
        pattern = self._sinks.get(number)
        if pattern is None:
            return
        fault = self._fault_of_reply(pattern[0], message.subject) if self._faulty_replies else None
        if fault is MessageFault.LOSE_REPLY:
            return
        late_sec = self._network.delay_late() if fault is MessageFault.LATE_REPLY else 0.0
        # Replies of JetStream to different requests overtake each other; deliveries to one inbox do not.
        is_overtaken = pattern[0].endswith("*") and message.status != NO_RESPONDERS
        lane = f"<{message.subject if is_overtaken else number}"
        arrival = max(self._loop.now + self._network.delay() + late_sec, self._lanes.get(lane, 0.0))
        self._lanes[lane] = arrival
        self._loop.call_in(self.process, arrival, self._received, self._connection, number, message)

    def _fault_of_reply(self, pattern: str, subject: str) -> MessageFault | None:
        """All replies to a request are lost together; of an inbox that is used again, only the next one."""
        if pattern.endswith("*"):
            return self._faulty_replies.get(subject)
        return self._faulty_replies.pop(subject, None)

    def _received(self, connection: int, number: int, message: Message) -> None:
        found = self._sinks.get(number)
        if found is not None and connection == self._connection:
            self.stats["in_msgs"] += 1
            self.stats["in_bytes"] += len(message.data)
            found[1](message)

    # The connection

    def _connected(self) -> None:
        self.is_connected = True
        self._connection += 1
        self._earliest = self._loop.now
        self._lanes.clear()
        for number, (subject, _) in self._sinks.items():
            self._subscribe(number, subject)
        buffered, self._buffered = self._buffered, []
        for message in buffered:
            self._send(*message)

    def _disconnected(self) -> None:
        self.is_connected = False
        self._connection += 1
        self._faulty_replies.clear()
        self._network.server.disconnect(self)

    def lose_connection(self) -> None:
        if self.is_connected:
            self._disconnected()
            self._loop.call_soon(self._reconnect_task, context=self.process.context)

    def _reconnect_task(self) -> None:
        self._loop.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        await self._callbacks["disconnected_cb"]()
        while not self.is_closed and not self.is_connected:
            await asyncio.sleep(_RECONNECT_SEC)
            await self._trip()
            if self._network.reachable_from(self.process) and not self.is_closed:
                self._connected()
                await self._callbacks["reconnected_cb"]()

    async def _trip(self) -> None:
        await asyncio.sleep(self._network.delay() + self._network.delay())

    def _at(self, when: float, action: Callable[..., None], *args: Any) -> None:
        """In the world outside: the process may crash meanwhile."""
        self._loop.call_in(self._loop.outside, when, action, *args)


def _lane_of(subject: str, server: SimulatedServer) -> str:
    if subject.startswith("$JS."):
        return f">{subject}" if subject.startswith("$JS.API.") else ">ack"
    takers = server.takers(subject)
    return f">store {takers[0].name}" if takers else ">core"
