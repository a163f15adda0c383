"""The JetStream API of the simulated server: streams, messages, consumers."""

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tests.simulation.jetstream import headers
from tests.simulation.jetstream.consumer import Pull
from tests.simulation.jetstream.errors import ApiError, Refused
from tests.simulation.jetstream.stream import Stored, Stream, View
from tests.simulation.jetstream.subjects import matches, overlap

if TYPE_CHECKING:
    from tests.simulation.jetstream.server import Client, SimulatedServer

API_LEVEL: Final = 4
SERVER_VERSION: Final = "2.15.1"
_DUPLICATE_WINDOW_NS: Final = 120_000_000_000
_STREAM_DEFAULTS: Final[dict[str, Any]] = {
    "retention": "limits",
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
    "discard": "old",
    "storage": "file",
    "num_replicas": 1,
    "sealed": False,
    "deny_delete": False,
    "deny_purge": False,
    "allow_rollup_hdrs": False,
    "allow_direct": False,
    "mirror_direct": False,
}
_LIST_LIMIT: Final = 256
_Query = dict[str, Any]


class JetStreamApi:
    def __init__(self, server: "SimulatedServer") -> None:
        self._server = server
        # By the words of the endpoint; what follows in the subject are its arguments.
        self._answers: dict[str, Callable[[list[str], _Query], dict[str, Any]]] = {
            "INFO": self._account_info,
            "STREAM.INFO": self._stream_info,
            "STREAM.CREATE": self._create_stream,
            "STREAM.UPDATE": self._update_stream,
            "STREAM.DELETE": self._delete_stream,
            "STREAM.PURGE": self._purge,
            "STREAM.MSG.GET": self._get,
            "STREAM.MSG.DELETE": self._delete_message,
            "CONSUMER.INFO": self._consumer_info,
            "CONSUMER.CREATE": self._create_consumer,
            "CONSUMER.DURABLE.CREATE": self._create_consumer,
            "CONSUMER.LIST": self._list_consumers,
            "CONSUMER.DELETE": self._delete_consumer,
        }

    def handle(self, endpoint: str, data: bytes, reply: str, client: "Client | None") -> bool:
        """Return whether somebody answers on the subject."""
        words = endpoint.split(".")
        if endpoint.startswith("DIRECT.GET."):
            return self._direct_get(words[2], ".".join(words[3:]), data, reply)
        if endpoint.startswith("CONSUMER.MSG.NEXT."):
            return self._next(words[3], words[4], data, reply, client)
        for count in (2, 3, 1):
            answer = self._answers.get(".".join(words[:count]))
            if answer is not None:
                query = msgspec.json.decode(data) if data else {}
                self._server.reply(reply, self._answer(answer, words[count:], query))
                return True
        return False

    @staticmethod
    def _answer(
        answer: Callable[[list[str], _Query], dict[str, Any]], words: list[str], query: _Query
    ) -> dict[str, Any]:
        try:
            return answer(words, query)
        except Refused as refused:
            return {"error": refused.fields}

    def _stream(self, name: str) -> Stream:
        stream = self._server.streams.get(name)
        if stream is None:
            raise Refused(ApiError.STREAM_NOT_FOUND)
        stream.expire(self._server.now_ns())
        return stream

    # Streams

    def _account_info(self, _: list[str], __: _Query) -> dict[str, Any]:
        return {"memory": 0, "storage": 0, "streams": len(self._server.streams), "api": {"level": API_LEVEL}}

    def _stream_info(self, words: list[str], query: _Query) -> dict[str, Any]:
        stream = self._stream(words[0])
        state: dict[str, Any] = {
            "messages": len(stream.messages),
            "bytes": stream.size,
            "first_seq": stream.first_sequence,
            "last_seq": stream.last_sequence,
            "num_subjects": len(stream.by_subject),
            "consumer_count": len(self._server.consumers_of(stream.name)),
        }
        if pattern := query.get("subjects_filter"):
            chosen = {
                subject: len(own) for subject, own in stream.by_subject.items() if matches(pattern, subject)
            }
            if chosen:
                state["subjects"] = chosen
        return stream.described | {"ts": headers.rfc3339(self._server.now_ns()), "state": state}

    def _create_stream(self, words: list[str], query: _Query) -> dict[str, Any]:
        config = with_defaults(query)
        known = self._server.streams.get(words[0])
        if known is not None:
            if known.config != config:
                raise Refused(ApiError.STREAM_EXISTS)
            return self._stream_info(words, {})
        if any(self._overlaps(each, config) for each in self._server.streams.values()):
            raise Refused(ApiError.SUBJECTS_OVERLAP)
        self._server.add_stream(config)
        return self._stream_info(words, {})

    @staticmethod
    def _overlaps(stream: Stream, config: dict[str, Any]) -> bool:
        return any(overlap(one, other) for one in stream.config["subjects"] for other in config["subjects"])

    def _update_stream(self, words: list[str], query: _Query) -> dict[str, Any]:
        stream = self._stream(words[0])
        stream.config = with_defaults(query)
        self._server.subjects_changed()
        return self._stream_info(words, {})

    def _delete_stream(self, words: list[str], _: _Query) -> dict[str, Any]:
        self._server.remove_stream(self._stream(words[0]).name)
        return {"success": True}

    def _purge(self, words: list[str], query: _Query) -> dict[str, Any]:
        stream = self._stream(words[0])
        pattern = query.get("filter") or ">"
        purged = stream.purge(pattern, below=query.get("seq"), keep=query.get("keep", 0))
        if purged:
            for consumer in self._server.consumers_of(stream.name):
                consumer.purged(pattern)
        return {"success": True, "purged": purged}

    def _delete_message(self, words: list[str], query: _Query) -> dict[str, Any]:
        stream = self._stream(words[0])
        if stream.config.get("deny_delete"):
            raise Refused(ApiError.DELETE_REFUSED)
        if not stream.delete(int(query["seq"])):
            raise Refused(ApiError.SEQUENCE_NOT_FOUND, query["seq"])
        return {"success": True}

    # Messages

    def _get(self, words: list[str], query: _Query) -> dict[str, Any]:
        """As the leader knows it."""
        stored = _chosen(self._stream(words[0]), query)
        if stored is None:
            raise Refused(ApiError.NO_MESSAGE)
        message = {
            "subject": stored.subject,
            "seq": stored.sequence,
            "time": headers.rfc3339(stored.time_ns),
        }
        if stored.head:
            message["hdrs"] = b64encode(stored.head).decode()
        if stored.data:
            message["data"] = b64encode(stored.data).decode()
        return {"message": message}

    def _direct_get(self, name: str, subject: str, data: bytes, reply: str) -> bool:
        stream = self._server.streams.get(name)
        if stream is None or not stream.config.get("allow_direct"):
            return False
        stream.expire(self._server.now_ns())
        lag = self._server.replica_lag(name)
        replica: Stream | View = stream.view(max(0, stream.operations - lag)) if lag else stream
        query = {"last_by_subj": subject} if subject else msgspec.json.decode(data)
        if "batch" in query:
            self._direct_batch(stream, replica, query, reply)
            return True
        stored = _chosen(replica, query)
        if stored is None:
            self._status(reply, headers.status(404, "Message Not Found"))
        else:
            self._send(stream, stored, reply)
        return True

    def _direct_batch(self, stream: Stream, replica: Stream | View, query: _Query, reply: str) -> None:
        pattern = query.get("next_by_subj") or ">"
        first = query.get("seq") or 1
        if "start_time" in query:
            first = stream.sequence_at(headers.unix_ns(query["start_time"]))
        most, most_bytes = int(query["batch"]), int(query.get("max_bytes") or 0)
        subjects = query.get("multi_last")
        found = _newest(replica, subjects) if subjects else list(replica.after(first, pattern))
        if not found:
            self._status(reply, headers.status(404, "No Results" if subjects else "Message Not Found"))
            return
        sent, size = 0, 0
        for stored in found[:most]:
            if most_bytes and size >= most_bytes:
                break
            size += stored.size
            sent += 1
            more: dict[str, object] = {
                "Nats-Num-Pending": len(found) - sent,
                "Nats-Last-Sequence": _before(found, sent),
            }
            self._send(stream, stored, reply, more)
        end = {
            "Nats-Num-Pending": str(len(found) - sent),
            "Nats-Last-Sequence": str(found[sent - 1].sequence),
        }
        if subjects:
            end["Nats-UpTo-Sequence"] = str(stream.last_sequence)
        self._status(reply, headers.status(204, "EOB", end))

    def _send(
        self, stream: Stream, stored: Stored, reply: str, more: dict[str, object] | None = None
    ) -> None:
        facts: dict[str, object] = {
            "Nats-Stream": stream.name,
            "Nats-Subject": stored.subject,
            "Nats-Sequence": stored.sequence,
            "Nats-Time-Stamp": headers.rfc3339(stored.time_ns),
        }
        head = headers.with_more(stored.head, facts | (more or {}))
        self._server.send(reply, reply, "", head, stored.data)

    def _status(self, reply: str, head: bytes) -> None:
        self._server.send(reply, reply, "", head, b"")

    # Consumers

    def _consumer_info(self, words: list[str], _: _Query) -> dict[str, Any]:
        stream = self._stream(words[0])
        consumer = self._server.consumer(stream.name, words[1])
        if consumer is None:
            raise Refused(ApiError.CONSUMER_NOT_FOUND)
        return consumer.info()

    def _create_consumer(self, words: list[str], query: _Query) -> dict[str, Any]:
        stream, config = self._stream(words[0]), _consumer_config(query["config"])
        name = words[1] if len(words) > 1 else config.get("durable_name") or config["name"]
        known = self._server.consumer(stream.name, name)
        if known is not None:
            if known.config != config and query.get("action") == "create":
                raise Refused(ApiError.CONSUMER_EXISTS)
            known.config = config
            return known.info()
        if stream.is_work_queue:
            self._check_work_queue(stream, config)
        return self._server.add_consumer(stream, name, config).info()

    def _check_work_queue(self, stream: Stream, config: dict[str, Any]) -> None:
        if config["ack_policy"] != "explicit":
            raise Refused(ApiError.WORK_QUEUE_ACK)
        if config["deliver_policy"] != "all":
            raise Refused(ApiError.WORK_QUEUE_DELIVER_ALL)
        others = [each for each in self._server.consumers_of(stream.name) if each.conflicts_with(config)]
        if others:
            filtered = config.get("filter_subject") or config.get("filter_subjects")
            raise Refused(ApiError.NOT_UNIQUE if filtered else ApiError.MULTIPLE_UNFILTERED)

    def _list_consumers(self, words: list[str], query: _Query) -> dict[str, Any]:
        stream, offset = self._stream(words[0]), int(query.get("offset", 0))
        found = sorted(self._server.consumers_of(stream.name), key=lambda each: each.name)
        page = [each.info() for each in found[offset : offset + _LIST_LIMIT]]
        return {"total": len(found), "offset": offset, "limit": _LIST_LIMIT, "consumers": page}

    def _delete_consumer(self, words: list[str], _: _Query) -> dict[str, Any]:
        stream = self._stream(words[0])
        consumer = self._server.consumer(stream.name, words[1])
        if consumer is None:
            raise Refused(ApiError.CONSUMER_NOT_FOUND)
        self._server.remove_consumer(consumer)
        return {"success": True}

    def _next(self, stream: str, name: str, data: bytes, reply: str, client: "Client | None") -> bool:
        consumer = self._server.consumer(stream, name)
        if consumer is None:
            return False
        query: _Query = msgspec.json.decode(data) if data else {}
        most_bytes = int(query.get("max_bytes") or 0)
        expires = query.get("expires")
        consumer.pull(
            Pull(
                reply,
                int(query.get("batch") or 1),
                client,
                no_wait=bool(query.get("no_wait")),
                expires_ns=self._server.now_ns() + int(expires) if expires else None,
                heartbeat_ns=int(query.get("idle_heartbeat") or 0),
                max_bytes=most_bytes,
                bytes_left=most_bytes,
            )
        )
        return True


def _chosen(replica: Stream | View, query: _Query) -> Stored | None:
    """The one message that a request asks for."""
    if pattern := query.get("last_by_subj"):
        return replica.last(pattern)
    if pattern := query.get("next_by_subj"):
        return next(replica.after(int(query.get("seq") or 1), pattern), None)
    return replica.at(int(query["seq"]))


def _newest(replica: Stream | View, subjects: list[str]) -> list[Stored]:
    """The newest message of each of these subjects, in the order of the stream."""
    newest = {stored.sequence: stored for each in subjects if (stored := replica.last(each)) is not None}
    return [newest[sequence] for sequence in sorted(newest)]


def _before(found: list[Stored], sent: int) -> int:
    """The sequence of the message before this one in a batch; 0 for the first."""
    return found[sent - 2].sequence if sent > 1 else 0


def with_defaults(config: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in config.items() if value is not None}
    full = _STREAM_DEFAULTS | given
    if not full.get("duplicate_window"):
        age = full["max_age"]
        full["duplicate_window"] = min(age, _DUPLICATE_WINDOW_NS) if age else _DUPLICATE_WINDOW_NS
    return full


def _consumer_config(config: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in config.items() if value is not None}
    defaults = {"deliver_policy": "all", "ack_policy": "explicit", "replay_policy": "instant"}
    full = defaults | given
    if full["ack_policy"] != "none":
        full = {"ack_wait": 30_000_000_000, "max_deliver": -1, "max_ack_pending": 1000} | full
    return full
