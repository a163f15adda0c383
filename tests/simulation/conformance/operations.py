"""Operations on a server, and their answers in a form that can be compared.

JetStream answers some operations before their effects can be seen everywhere: it notifies a consumer of a
new message after the ack of its publish, and ends the deliveries of a deleted message later. Each such
operation waits until these effects have happened, so that the next one finds the same on both servers.
"""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pyoco_server.broker.client.message import Message, delivery_tokens
from tests.simulation.conformance.targets import Target

Answer = Any

# The headers of the server in a direct read; its times differ.
_COMPARED: Final = ("Nats-Subject", "Nats-Sequence", "Nats-Num-Pending", "Nats-Msg-Id", "KV-Operation")
_STATUS: Final = ("Status", "Description")
_PULL_ENDS: Final = ("404", "408", "409", "503")
_STATE: Final = ("messages", "first_seq", "last_seq", "num_subjects", "subjects", "consumer_count")
_CONSUMER: Final = ("num_ack_pending", "num_redelivered", "num_pending")
_ADVISORY: Final = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK"
_ALL: Final = 1000

SECOND_NS: Final = 1_000_000_000
# As `broker/streams_and_buckets.py` makes them, with short names.
STREAMS: Final[Mapping[str, dict[str, Any]]] = {
    "KV_c": {
        "subjects": ["$KV.c.>"],
        "max_msgs_per_subject": 1,
        "discard": "new",
        "deny_delete": True,
        "allow_msg_ttl": True,
    },
    "LOG": {"subjects": ["log.>"], "duplicate_window": 120 * SECOND_NS},
    "CAPPED": {"subjects": ["capped.*"], "max_msgs": 3, "max_msgs_per_subject": 2},
    "WORK": {"subjects": ["work.>"], "retention": "workqueue", "duplicate_window": 120 * SECOND_NS},
    "SHORT": {"subjects": ["short.*"], "duplicate_window": 2 * SECOND_NS // 5, "max_age": SECOND_NS},
    "OBJ": {"subjects": ["$O.>"], "allow_rollup_hdrs": True, "discard": "new"},
    "ADVISORIES": {"subjects": [f"{_ADVISORY}.*"]},
}


@dataclass(frozen=True, slots=True)
class BegunPull:
    batch: int
    # Filled as they come.
    found: list[Message]

    @property
    def delivered(self) -> list[Message]:
        return [message for message in self.found if message.status is None]

    @property
    def waits(self) -> bool:
        return len(self.delivered) < self.batch and not any(each.status in _PULL_ENDS for each in self.found)


@dataclass(slots=True)
class Session:
    """One server during one sequence of operations."""

    target: Target
    # The reply subjects of deliveries, in order.
    deliveries: list[str] = field(default_factory=list)
    begun: list[BegunPull] = field(default_factory=list)
    # Advisories, if it listens to them.
    listens: bool = False
    heard: list[Message] = field(default_factory=list)

    async def create(self, consumer: Mapping[str, object], *, storage: str = "memory") -> None:
        for name, config in STREAMS.items():
            stream = {"name": name, "storage": storage, "num_replicas": 1, "allow_direct": True} | config
            await self._call(f"STREAM.CREATE.{name}", stream)
        request = {
            "stream_name": "WORK",
            "config": {"durable_name": "w"} | dict(consumer),
            "action": "create",
        }
        await self._call("CONSUMER.DURABLE.CREATE.WORK.w", request)

    async def remove(self) -> None:
        for name in STREAMS:
            await self._call(f"STREAM.DELETE.{name}")

    # Writing

    async def publish(self, subject: str, data: bytes, given: Mapping[str, str]) -> Answer:
        [reply] = await self.target.replies(subject, data, given, lambda _: True)
        if reply.status is not None:
            return reply.status
        ack = msgspec.json.decode(reply.data)
        await self._settle(ack.get("stream"))
        return ack.get("error") or {name: ack.get(name) for name in ("stream", "seq", "duplicate")}

    async def purge(self, stream: str, query: Mapping[str, object]) -> Answer:
        answer = await self._call(f"STREAM.PURGE.{stream}", dict(query))
        await self._settle(stream)
        return _plain(answer, "success", "purged")

    async def delete(self, stream: str, sequence: int) -> Answer:
        query = {"seq": sequence, "no_erase": True}
        answer = await self._call(f"STREAM.MSG.DELETE.{stream}", query)
        await self._settle(stream)
        return _plain(answer, "success")

    # Reading

    async def info(self, stream: str, pattern: str) -> Answer:
        answer = await self._call(f"STREAM.INFO.{stream}", {"subjects_filter": pattern} if pattern else {})
        state = answer.get("state", {})
        return answer.get("error") or {name: state.get(name) or 0 for name in _STATE}

    async def get(self, stream: str, query: Mapping[str, object]) -> Answer:
        answer = await self._call(f"STREAM.MSG.GET.{stream}", dict(query))
        if "error" in answer:
            return answer["error"]
        message = answer["message"]
        return message["subject"], message["seq"], b64decode(message.get("data", ""))

    async def direct_get(self, stream: str, subject: str, query: Mapping[str, object]) -> Answer:
        endpoint = f"$JS.API.DIRECT.GET.{stream}" + (f".{subject}" if subject else "")
        payload = b"" if subject else msgspec.json.encode(query)
        is_batch = "batch" in query

        def is_last(found: list[Message]) -> bool:
            return not is_batch or found[-1].status is not None

        return [_read(reply) for reply in await self.target.replies(endpoint, payload, None, is_last)]

    # Consumers

    async def pull(self, batch: int, max_bytes: int = 0) -> Answer:
        query: dict[str, object] = {"batch": batch, "no_wait": True}
        if max_bytes:
            query["max_bytes"] = max_bytes

        def is_last(found: list[Message]) -> bool:
            # A pull with a limit of bytes always ends with a status.
            return (len(found) == batch and not max_bytes) or found[-1].status in _PULL_ENDS

        subject = "$JS.API.CONSUMER.MSG.NEXT.WORK.w"
        found = await self.target.replies(subject, msgspec.json.encode(query), None, is_last)
        return [self._delivered(message) for message in found]

    def _delivered(self, message: Message) -> Answer:
        if message.status is not None:
            left = message.headers.get("Nats-Pending-Messages")
            return message.status, message.headers["Description"], left
        self.deliveries.append(message.reply)
        number, sequence, consumer_sequence, _, pending = delivery_tokens(message.reply)
        return message.subject, message.data, number, sequence, consumer_sequence, pending

    async def begin_pull(self, batch: int, expires_sec: float) -> None:
        query = {"batch": batch, "expires": int(expires_sec * SECOND_NS)}
        subject = "$JS.API.CONSUMER.MSG.NEXT.WORK.w"
        found = await self.target.begin(subject, msgspec.json.encode(query))
        self.begun.append(BegunPull(batch, found))
        await self._settle("WORK")

    async def end_pulls(self) -> Answer:
        """What has come for the pulls that were begun."""
        await self._settle("WORK")
        begun, self.begun = self.begun, []
        return [[self._delivered(message) for message in pull.found] for pull in begun]

    async def acknowledge(self, which: int, payload: bytes) -> Answer:
        """Of a delivery so far; None if there is none."""
        if not self.deliveries:
            return None
        reply = self.deliveries[which % len(self.deliveries)]
        [confirmed] = await self.target.replies(reply, payload, None, lambda _: True)
        return confirmed.status, confirmed.data

    async def consumer(self) -> Answer:
        answer = await self._call("CONSUMER.INFO.WORK.w")
        delivered = answer["delivered"]
        facts = {name: answer[name] for name in _CONSUMER}
        return facts | {name: delivered[name] for name in ("consumer_seq", "stream_seq")}

    async def listen(self) -> None:
        """Subscribe to advisories, which are stored nevertheless."""
        self.listens = True
        self.heard = await self.target.listen(f"{_ADVISORY}.*")

    async def advisories(self) -> Answer:
        """Which messages have used up their deliveries: as it is stored, and as it is heard."""
        # Stored and heard after the advisories that the server has published so far.
        await self.target.replies(f"{_ADVISORY}.end", b"", None, lambda _: True)
        stored = await self._stored("ADVISORIES")
        if not self.listens:
            return _advisories(stored)
        await self.target.wait_for(self._has_heard_the_end)
        return _advisories(stored), _advisories(self.heard)

    async def _has_heard_the_end(self) -> bool:
        return any(message.subject == f"{_ADVISORY}.end" for message in self.heard[-1:])

    # What an operation waits for

    async def _settle(self, stream: str | None) -> None:
        if stream == "WORK":
            await self.target.wait_for(self._is_settled)

    async def _is_settled(self) -> bool:
        """Whether the consumer has noticed everything that has happened to its stream."""
        info = await self._call("CONSUMER.INFO.WORK.w")
        pattern = info["config"].get("filter_subject") or ">"
        stored = {int(each.headers["Nats-Sequence"]) for each in await self._stored("WORK", pattern)}
        pulled = [message.reply for pull in self.begun for message in pull.delivered]
        delivered = [int(delivery_tokens(reply)[1]) for reply in [*self.deliveries, *pulled]]
        exhausted = {each["stream_seq"] for each in _advisories(await self._stored("ADVISORIES"))}
        expected = {
            "num_pending": len([each for each in stored if each > info["delivered"]["stream_seq"]]),
            "num_ack_pending": len(stored.intersection(delivered) - exhausted),
            "num_waiting": len([pull for pull in self.begun if pull.waits]),
        }
        is_received = info["delivered"]["consumer_seq"] == len(delivered)
        return is_received and all(info[name] == count for name, count in expected.items())

    async def _stored(self, stream: str, pattern: str = ">") -> list[Message]:
        query = {"next_by_subj": pattern, "seq": 1, "batch": _ALL}
        subject, payload = f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(query)
        found = await self.target.replies(subject, payload, None, lambda all_: all_[-1].status is not None)
        return found[:-1]

    async def wait(self, seconds: float) -> None:
        await self.target.wait(seconds)

    async def _call(self, endpoint: str, body: object = None) -> dict[str, Any]:
        payload = b"" if body is None else msgspec.json.encode(body)
        [reply] = await self.target.replies(f"$JS.API.{endpoint}", payload, None, lambda _: True)
        answer: dict[str, Any] = msgspec.json.decode(reply.data)
        return answer


def _plain(answer: dict[str, Any], *names: str) -> Answer:
    return answer.get("error") or {name: answer.get(name) for name in names}


def _advisories(found: list[Message]) -> list[dict[str, Any]]:
    """Without ids and times."""
    advisories = [msgspec.json.decode(each.data) for each in found if each.data]
    own = ("id", "timestamp")
    return [{name: value for name, value in each.items() if name not in own} for each in advisories]


def _read(reply: Message) -> Answer:
    given = {name: reply.headers.get(name) for name in (*_STATUS, *_COMPARED)}
    return given, reply.data
