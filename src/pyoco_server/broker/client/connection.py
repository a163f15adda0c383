"""The connection to NATS: it reconnects by itself, and reports its state.

Requests are multiplexed here rather than with nats-py's `request`: they fail at once when the connection
is lost (nats-py waits for the timeout), and do not use `asyncio.wait_for`, which can swallow a cancellation
on Python 3.11.
"""

import asyncio
import itertools
import logging
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import nats.errors
from nats.aio.subscription import Subscription

from pyoco_server.aio.background import repeat
from pyoco_server.aio.deadlines import DeadlineQueue
from pyoco_server.aio.loop_batches import LOOP_BATCH
from pyoco_server.aio.urgent_work import UrgentWork
from pyoco_server.broker.client.credentials import connect_options, tls_required
from pyoco_server.broker.client.direct_client import PublicClient, new_client
from pyoco_server.broker.client.message import Message, MessageSink
from pyoco_server.broker.client.write_state import WriteState
from pyoco_server.config import NatsBackendConfig, safe_url
from pyoco_server.errors import NatsForbidden, NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.unreadable_records import UnreadableRecords

if TYPE_CHECKING:
    from pyoco_server.broker.client.subscriptions import DeliveryInbox

log = logging.getLogger(__name__)

ConnectCallback = Callable[[], Awaitable[object]]
S = TypeVar("S")

_RETRY_SEC = 0.25
NO_RESPONDERS = "503"
_ENVELOPE_BYTES = 4096
_NO_RESPONDERS_CURE = (
    "JetStream is off, a stream of this version is missing (`pyoco-server-admin nats-setup` makes it), or "
    "the NATS user may not use it (`pyoco-server-admin nats-config` prints what this version needs)"
)
_DENIED = re.compile(r'permissions violation for publish to "(?P<subject>[^"]+)"', re.IGNORECASE)
# How the server reports missing rights. For errors of nats-py only: other texts have names of users.
_REFUSAL = re.compile("(permissions|authorization) violation|authentication", re.IGNORECASE)
_HANG_UPS = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
# A socket that was closed, before nats-py has noticed, is an OSError; uvloop raises a RuntimeError for it.
LOST_CONNECTION = (nats.errors.Error, OSError, RuntimeError)


class PayloadTooLarge(NatsUnavailable):
    """A message is larger than the server, or one of its streams, accepts: a retry does not help."""

    error = replace(
        Err.NATS_UNAVAILABLE,
        en="A record is larger than NATS takes",
        ja="データが NATS の上限サイズを超えています",
        cure_en="Make it smaller, or raise `max_payload` of the NATS server.",
        cure_ja="データを小さくするか、NATS サーバーの `max_payload` を上げてください。",
    )


class NoAnswer(NatsUnavailable):
    """The server did not answer in time; whether it has done what was asked is not known."""


class NoResponders(NatsUnavailable):
    """Nothing listens on the subject: the stream is missing, or this account may not use it."""


class ConnectionStatus(StrEnum):
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """For health checks, logs and error details."""

    status: ConnectionStatus
    since: float
    detail: str = ""
    # Whether the detail is about missing rights.
    is_refusal: bool = False

    @property
    def up(self) -> bool:
        return self.status is ConnectionStatus.CONNECTED


# Its subject and its reply: a tuple, since each run makes several.
_Request = tuple[str, asyncio.Future[Message]]


class PendingRequests:
    """By token. `timeout_error(subject)` is the error for a request without a reply in time."""

    def __init__(self, timeout_sec: float, timeout_error: Callable[[str], Exception]) -> None:
        self._timeout_error = timeout_error
        self._requests: DeadlineQueue[str, _Request] = DeadlineQueue(timeout_sec, self._on_timeout)
        # Bound once: every request calls it.
        self.remove = self._requests.remove
        # Looked up once, since that takes a system call.
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, token: str, subject: str) -> asyncio.Future[Message]:
        """The reply to come; the caller removes the request in any case."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        reply: asyncio.Future[Message] = loop.create_future()
        self._requests.add(token, (subject, reply))
        return reply

    def resolve(self, token: str, message: Message) -> bool:
        """Return whether there is such a request; a second reply is ignored."""
        request = self._requests.get(token)
        if request is None:
            return False
        reply = request[1]
        if not reply.done():
            reply.set_result(message)
        return True

    def fail(self, error: Callable[[], Exception], *, subject: str | None = None) -> None:
        """Fail all requests, or those on one subject, whatever case the server writes it in."""
        for requested, reply in self._requests.values():
            if (subject is None or requested.lower() == subject.lower()) and not reply.done():
                reply.set_exception(error())

    def close(self) -> None:
        self._requests.close()

    def _on_timeout(self, request: _Request) -> None:
        subject, reply = request
        if not reply.done():
            reply.set_exception(self._timeout_error(subject))


class ReplyStream:
    """The replies to a request with several of them, as far as they are not taken yet."""

    def __init__(self) -> None:
        self.arrived: deque[Message | NatsUnavailable] = deque()
        self._changed = asyncio.Event()

    def add(self, reply: Message | NatsUnavailable) -> None:
        self.arrived.append(reply)
        self._changed.set()

    async def wait(self) -> None:
        """Wait for another one."""
        self._changed.clear()
        await self._changed.wait()


class Connection:
    """Connects in the background, reconnects for ever, and runs its callbacks after each connect."""

    def __init__(self, config: NatsBackendConfig, *, name: str, coalesce_writes: bool = False) -> None:
        """With `coalesce_writes`, many messages leave at once rather than each as soon as possible."""
        self.config = config
        self.state = ConnectionState(ConnectionStatus.CONNECTING, time.time())
        self._name = name
        self._coalesce_writes = coalesce_writes
        self._options = connect_options(config)
        self._client = new_client()
        self._on_connect: list[ConnectCallback] = []
        self._ready = asyncio.Event()
        # Whether it has never been usable.
        self._is_new = True
        self._prepare_again = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._pending = PendingRequests(config.nats_request_timeout_sec, self._timeout_error)
        # Requests with several replies.
        self._reply_streams: dict[str, ReplyStream] = {}
        self._tokens = itertools.count()
        self._reported: set[str] = set()
        # Whether the last error was about missing rights.
        self._just_refused = False
        self._reply_prefix = ""
        self.times_connected = 0
        # Increases whenever a server may have been replaced by one that lacks the newest messages: a change
        # of state, a request without a reply, stream info that was refused.
        self.interruptions = 0
        self.last_request_timed_out = False
        # What was read on this connection and could not be decoded.
        self.unreadable = UnreadableRecords()
        self.writes = WriteState()
        # Submits in progress. Background wake-ups and reads yield to them.
        self.urgent = UrgentWork()
        self._shared: dict[Callable[[Connection], Any], Any] = {}

    @property
    def client(self) -> PublicClient:
        """The nats-py client; replaced when nats-py gives up the connection."""
        return self._client

    @property
    def ready(self) -> bool:
        """Connected, and every callback of `on_connect` has succeeded on this connection."""
        return self._ready.is_set() and self.state.up

    @property
    def max_payload(self) -> int:
        return int(self._client.max_payload)

    @property
    def max_record_bytes(self) -> int:
        """The largest record a message may carry beside its subject and headers."""
        return self.max_payload - _ENVELOPE_BYTES

    @property
    def messages_sent(self) -> int:
        """By the present client."""
        return self._client.stats["out_msgs"]

    def on_connect(self, callback: ConnectCallback) -> None:
        """Run it after every (re)connect, before the connection counts as ready."""
        self._on_connect.append(callback)

    def shared(self, new: Callable[["Connection"], S]) -> S:
        """What `new` makes of this connection, once for all who use it; it ends with the connection."""
        if new not in self._shared:
            self._shared[new] = new(self)
        made: S = self._shared[new]
        return made

    async def start(self) -> None:
        """Begin connecting; returns at once, whether or not NATS is there."""
        supervising = repeat(f"{self._name}:nats", self._supervise)
        self._supervisor = asyncio.create_task(supervising, name=f"{self._name}:nats")

    async def wait_ready(self, timeout_sec: float | None = None) -> None:
        """Wait until the connection is usable; NatsUnavailable says why it is not."""
        try:
            async with asyncio.timeout(timeout_sec):
                await self._ready.wait()
        except TimeoutError:
            raise self.unavailable() from None

    async def wait_while_starting(self, timeout_sec: float) -> None:
        """Wait until the connection is usable, if it is being made for the first time and nothing failed."""
        if self._is_new and self._supervisor is not None and not self.state.detail:
            with suppress(NatsUnavailable):
                await self.wait_ready(timeout_sec)

    async def close(self) -> None:
        self._set_state(ConnectionStatus.CLOSED, "closed by this program")
        self._ready.clear()
        # nats-py connects with `asyncio.wait_for`, which may swallow a cancellation: cancel until it ends.
        while self._supervisor is not None and not self._supervisor.done():
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor}, timeout=_RETRY_SEC)
        if not self._client.is_closed:
            await self._client.close()
        self._fail_pending("the connection to NATS was closed")
        self._pending.close()

    def unavailable(self, what: str = "", *, forbidden: bool = False) -> NatsUnavailable:
        """The error for a caller, with the address and the cause; without `what`, what the state says.

        It is a NatsForbidden if the cause is missing rights.
        """
        if not what:
            what, forbidden = self.state.detail, self.state.is_refusal
        if not what and self.state.up:
            what = "connected, but its streams and buckets are not prepared yet"
        what = what or f"the connection is {self.state.status}"
        return (NatsForbidden if forbidden else NatsUnavailable)(self._with_address(what))

    def _with_address(self, reason: str) -> str:
        return f"{safe_url(self.config.nats_url)}: {reason}"

    async def request(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Message:
        """Publish and await the one reply; NatsUnavailable within the request timeout, or at once."""
        if not self.state.up:
            raise self.unavailable()
        token = str(next(self._tokens))
        reply_to = self._reply_prefix + token
        reply = self._pending.add(token, subject)
        try:
            if not self._client.try_publish(subject, payload, reply_to, headers):
                await self._publish_waiting(subject, payload, headers, reply_to)
            message = await reply
        finally:
            self._pending.remove(token)
        if message.status == NO_RESPONDERS:
            raise self._no_responders(subject)
        return message

    def _no_responders(self, subject: str) -> NoResponders:
        self.interruptions += 1
        # A stream may have been deleted: the callbacks of `on_connect` create it again.
        self._ready.clear()
        self._prepare_again.set()
        cure = f": {_NO_RESPONDERS_CURE}" if subject.startswith("$JS.API.") else ""
        return NoResponders(self._with_address(f"nothing answers on {subject}{cure}"))

    async def request_many(
        self, subject: str, payload: bytes = b"", *, inbox: "DeliveryInbox | None" = None
    ) -> AsyncIterator[Message]:
        """Publish and yield each reply as it comes; the caller recognizes the last one and stops there.

        Deliveries of a consumer come to an `inbox`: unlike other replies, each has the subject under which
        it was stored. That there is no such consumer is a reply as well, because consumers end by themselves.
        """
        if not self.state.up:
            raise self.unavailable()
        token = str(next(self._tokens))
        replies = self._reply_streams[token] = ReplyStream()
        reply_to = self._reply_prefix + token if inbox is None else inbox.receive(replies)
        try:
            await self.publish(subject, payload, reply=reply_to)
            for count in itertools.count(1):
                # They arrive by the dozen, and taking one costs less than a timeout.
                if not replies.arrived:
                    await self._wait_for_more(replies, subject)
                elif not count % LOOP_BATCH:
                    # Others wait for their replies.
                    await asyncio.sleep(0)
                reply = replies.arrived.popleft()
                if isinstance(reply, NatsUnavailable):
                    raise reply
                if reply.status == NO_RESPONDERS and inbox is None:
                    raise self._no_responders(subject)
                yield reply
        finally:
            del self._reply_streams[token]

    async def _wait_for_more(self, replies: ReplyStream, subject: str) -> None:
        timeout_sec = self.config.nats_request_timeout_sec
        try:
            async with asyncio.timeout(timeout_sec):
                await replies.wait()
        except TimeoutError:
            self.interruptions += 1
            raise self.unavailable(f"no answer within {timeout_sec:g} s on {subject}") from None

    async def publish(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        if not self._client.try_publish(subject, payload, reply, headers):
            await self._publish_waiting(subject, payload, headers, reply)

    async def _publish_waiting(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None, reply: str
    ) -> None:
        try:
            await self._client.publish(subject, payload, reply, dict(headers) if headers else None)
        except nats.errors.MaxPayloadError:
            raise PayloadTooLarge(f"{len(payload)} bytes, the server takes {self.max_payload}") from None
        except LOST_CONNECTION as error:
            raise self.unavailable(str(error), forbidden=_is_refusal(error)) from error

    async def subscribe(self, subject: str, sink: MessageSink) -> Subscription:
        """Call `sink` as soon as a message arrives. It must be quick: nothing is read meanwhile.

        The subscription ends with the client; RenewableSubscription does not.
        """
        try:
            return await self._client.subscribe_direct(subject, sink)
        except LOST_CONNECTION as error:
            raise self.unavailable(str(error), forbidden=_is_refusal(error)) from error

    async def _supervise(self) -> None:
        """Connect; then prepare after each (re)connect, until nats-py gives up the connection."""
        await self._open()
        while not self._client.is_closed:
            self._prepare_again.clear()
            if self._client.is_connected and not self._ready.is_set() and not await self._prepare():
                await asyncio.sleep(_RETRY_SEC)
                continue
            await self._prepare_again.wait()
        await asyncio.sleep(_RETRY_SEC)

    async def _open(self) -> None:
        while True:
            try:
                self._client = new_client(
                    tls_required=tls_required(self.config), coalesce_writes=self._coalesce_writes
                )
                await self._client.connect(
                    servers=self.config.nats_servers,
                    name=self._name,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=_RETRY_SEC,  # type: ignore[arg-type]  # annotated int, used as float
                    connect_timeout=2,
                    ping_interval=10,
                    error_cb=self._on_error,
                    disconnected_cb=self._on_disconnected,
                    reconnected_cb=self._on_reconnected,
                    closed_cb=self._on_closed,
                    **self._options,
                )
            except (nats.errors.Error, OSError, ValueError) as error:
                await self._on_error(error)
                await asyncio.sleep(_RETRY_SEC)
                continue
            self._reply_prefix = f"{self._client.new_inbox()}."
            await self._client.subscribe_direct(f"{self._reply_prefix}*", self._on_reply)
            self._set_state(ConnectionStatus.CONNECTED)
            log.info("connected to NATS at %s", safe_url(self.config.nats_url))
            return

    async def _prepare(self) -> bool:
        try:
            for callback in self._on_connect:
                await callback()
        except NatsUnavailable as error:
            detail = error.detail.removeprefix(self._with_address(""))
            self._report_problem(detail, is_refusal=isinstance(error, NatsForbidden))
            return False
        self.state = ConnectionState(self.state.status, self.state.since)
        self._reported.clear()
        self._ready.set()
        self._is_new = False
        return True

    def _on_reply(self, message: Message) -> None:
        token = message.subject[len(self._reply_prefix) :]
        self.last_request_timed_out = False
        if not self._pending.resolve(token, message) and token in self._reply_streams:
            self._reply_streams[token].add(message)

    def _timeout_error(self, subject: str) -> NatsUnavailable:
        if (known := self.writes.unanswered(subject)) is not None:
            # The server is there, and answers other requests.
            return known
        self.last_request_timed_out = True
        self.interruptions += 1
        timeout_sec = self.config.nats_request_timeout_sec
        return NoAnswer(self._with_address(f"no answer within {timeout_sec:g} s on {subject}"))

    def _fail_pending(self, why: str) -> None:
        self._pending.fail(lambda: self.unavailable(why))
        for replies in self._reply_streams.values():
            replies.add(self.unavailable(why))

    def _set_state(self, status: ConnectionStatus, detail: str = "", *, is_refusal: bool = False) -> None:
        self.state = ConnectionState(status, time.time(), detail, is_refusal)
        self.times_connected += status is ConnectionStatus.CONNECTED
        self.interruptions += 1

    async def _on_error(self, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        just_refused, self._just_refused = self._just_refused, _is_refusal(error)
        if just_refused and isinstance(error, _HANG_UPS):
            # The server hangs up after a refusal; keep the refusal as the reason.
            log.debug("NATS: %s", self._with_address(reason))
            return
        self._report_problem(reason, is_refusal=self._just_refused)
        if denied := _DENIED.search(str(error)):
            # The server refuses a publish without a reply to it.
            subject = denied["subject"]
            self._pending.fail(
                lambda: self.unavailable(f"this user may not publish to {subject}", forbidden=True),
                subject=subject,
            )

    def _report_problem(self, reason: str, *, is_refusal: bool) -> None:
        """Keep the reason for errors, and log it once until the connection has been ready again."""
        self.state = ConnectionState(self.state.status, self.state.since, reason, is_refusal)
        if reason not in self._reported:
            self._reported.add(reason)
            log.warning("NATS: %s", self._with_address(reason), extra=Err.NATS_UNAVAILABLE.log_fields())

    async def _on_disconnected(self) -> None:
        if self.state.status is ConnectionStatus.CLOSED:
            return
        self._ready.clear()
        self._set_state(ConnectionStatus.RECONNECTING, "the connection was lost")
        log.warning("lost the connection to NATS", extra=Err.NATS_UNAVAILABLE.log_fields())
        self._fail_pending("the connection was lost while waiting for an answer")

    async def _on_reconnected(self) -> None:
        self._set_state(ConnectionStatus.CONNECTED)
        log.info("connected to NATS again")
        self._prepare_again.set()

    async def _on_closed(self) -> None:
        self._ready.clear()
        if self.state.status is not ConnectionStatus.CLOSED:
            detail = self.state.detail or "the connection was closed"
            self._set_state(ConnectionStatus.CONNECTING, detail, is_refusal=self.state.is_refusal)
            self._fail_pending("the connection was closed")
        self._prepare_again.set()


def _is_refusal(error: Exception) -> bool:
    return _REFUSAL.search(str(error)) is not None
