"""One NATS connection that comes back by itself and can always say how it is.

Requests are multiplexed here rather than with nats-py's `request`: ours fail at once when the connection
drops (nats-py waits out the full time-out), and do not use `asyncio.wait_for`, which can swallow a
cancellation on Python 3.11. They are also what a run costs at the broker, so that they take the short ways
of DirectClient.
"""

import asyncio
import itertools
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from pyoco_server.aio.background import repeat
from pyoco_server.broker.client.credentials import connect_options, tls_required
from pyoco_server.broker.client.direct_client import DirectClient
from pyoco_server.broker.client.message import Message, MessageSink
from pyoco_server.broker.client.pending_requests import Answers, PendingRequests
from pyoco_server.config import NatsBackendConfig, safe_url
from pyoco_server.errors import NatsForbidden, NatsUnavailable
from pyoco_server.errors.error_table import Err

log = logging.getLogger(__name__)

ReadyHook = Callable[[], Awaitable[None]]
MessageHandler = Callable[[Msg], Awaitable[None]]

_RETRY_SEC = 0.25
_NO_RESPONDERS = "503"
_ENVELOPE_BYTES = 4096
_UNSERVED_CURE = (
    "JetStream is off, a stream of this version is missing (`pyoco-server-admin nats-setup` makes it), or "
    "the NATS user may not use it (`pyoco-server-admin nats-config` prints what this version needs)"
)
_DENIED = re.compile(r'permissions violation for publish to "(?P<subject>[^"]+)"', re.IGNORECASE)
# How the server, and we, say that it is there but does not let us.
_FORBIDDEN = re.compile(
    r"(permissions|authorization) violation|this user may not|authentication", re.IGNORECASE
)
_HUNG_UP = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


class PayloadTooLarge(NatsUnavailable):
    """A message is larger than the server, or one of its streams, takes: waiting does not help."""

    error = replace(
        Err.NATS_UNAVAILABLE,
        en="A record is larger than NATS takes",
        ja="NATSの上限を超える大きさです",
        cure_en="Make it smaller, or raise `max_payload` of the NATS server.",
        cure_ja="小さくするか、NATSサーバーの `max_payload` を上げてください。",
    )


class NoResponders(NatsUnavailable):
    """Nobody serves the subject: the stream is missing, or this account may not use it."""


class LinkStatus(StrEnum):
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LinkState:
    """How the connection is, for people: health, logs and error details."""

    status: LinkStatus
    since: float
    detail: str = ""

    @property
    def up(self) -> bool:
        return self.status is LinkStatus.CONNECTED


class Connection:
    """Connects in the background, reconnects for ever, and runs its hooks after each connect."""

    def __init__(self, config: NatsBackendConfig, *, name: str, unhurried: bool = False) -> None:
        """Who is `unhurried` rather sends many messages at once than each at the first moment."""
        self.config = config
        self.state = LinkState(LinkStatus.CONNECTING, time.time())
        self._name = name
        self._unhurried = unhurried
        self._options = connect_options(config)
        self._client = DirectClient()
        self._hooks: list[ReadyHook] = []
        self._ready = asyncio.Event()
        self._prepare_again = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._pending = PendingRequests(config.nats_request_timeout_sec, self._unanswered)
        # Requests with several answers: where their next answers go.
        self._collecting: dict[str, Answers] = {}
        self._tokens = itertools.count()
        self._complaints: set[str] = set()
        # Whether the last error was that the server does not let us.
        self._just_refused = False
        # How often it was connected, this time included.
        self.times_connected = 0
        # Increases whenever a server may have been replaced by one that lacks the newest messages: a change
        # of state, a request without a reply, stream info that was refused.
        self.interruptions = 0
        # Whether the last request was left without an answer.
        self.unanswered = False
        self._reply_prefix = ""

    @property
    def client(self) -> DirectClient:
        """The nats-py client: the connection itself, without our requests around it."""
        return self._client

    @property
    def ready(self) -> bool:
        """Connected, and every hook has succeeded on this connection."""
        return self._ready.is_set() and self.state.up

    @property
    def max_payload(self) -> int:
        return int(self._client.max_payload)

    @property
    def max_record_bytes(self) -> int:
        """The largest record a message may carry beside its subject and headers."""
        return self.max_payload - _ENVELOPE_BYTES

    def add_hook(self, hook: ReadyHook) -> None:
        """Run `hook` after every (re)connect, before the connection counts as ready."""
        self._hooks.append(hook)

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

    async def close(self) -> None:
        self._set_state(LinkStatus.CLOSED, "closed by this program")
        self._ready.clear()
        # nats-py connects with `asyncio.wait_for`, which may swallow a cancellation: insist.
        while self._supervisor is not None and not self._supervisor.done():
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor}, timeout=_RETRY_SEC)
        if not self._client.is_closed:
            await self._client.close()
        self._fail_pending("the connection to NATS was closed")
        self._pending.close()

    def unavailable(self, what: str = "") -> NatsUnavailable:
        """The error for a caller, with the address and what is known of the cause."""
        reason = what or self.state.detail or self._waiting_for
        return (NatsForbidden if _FORBIDDEN.search(reason) else NatsUnavailable)(self._explain(reason))

    @property
    def _waiting_for(self) -> str:
        if self.state.up:
            return "connected, but its streams and buckets are not prepared yet"
        return f"the connection is {self.state.status}"

    def _explain(self, reason: str) -> str:
        return f"{safe_url(self.config.nats_url)}: {reason}"

    async def request(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Message:
        """Publish and await the one reply; NatsUnavailable within the request time-out, or at once."""
        if not self.state.up:
            raise self.unavailable()
        token = str(next(self._tokens))
        reply = self._reply_prefix + token
        answer = self._pending.add(token, subject)
        try:
            if not self._client.publish_now(subject, payload, reply, headers):
                await self._publish_patiently(subject, payload, headers, reply)
            message = await answer
        finally:
            self._pending.remove(token)
        if message.status == _NO_RESPONDERS:
            raise self._nobody_answers(subject)
        return message

    def _nobody_answers(self, subject: str) -> NoResponders:
        self.interruptions += 1
        # A stream that was deleted under us: the hooks make it anew.
        self._ready.clear()
        self._prepare_again.set()
        cure = "" if not subject.startswith("$JS.API.") else f": {_UNSERVED_CURE}"
        return NoResponders(self._explain(f"nothing answers on {subject}{cure}"))

    async def request_many(self, subject: str, payload: bytes = b"") -> AsyncIterator[Message]:
        """Publish and yield each answer as it comes; the caller knows the last one and stops there."""
        if not self.state.up:
            raise self.unavailable()
        token = str(next(self._tokens))
        answers = self._collecting[token] = Answers()
        try:
            await self.publish(subject, payload, reply=self._reply_prefix + token)
            while True:
                # They come by the dozen, and to take one costs less than a time-out.
                if not answers.come:
                    await self._more(answers, subject)
                answer = answers.come.popleft()
                if isinstance(answer, NatsUnavailable):
                    raise answer
                if answer.status == _NO_RESPONDERS:
                    raise self._nobody_answers(subject)
                yield answer
        finally:
            del self._collecting[token]

    async def _more(self, answers: Answers, subject: str) -> None:
        timeout_sec = self.config.nats_request_timeout_sec
        try:
            async with asyncio.timeout(timeout_sec):
                await answers.wait()
        except TimeoutError:
            self.interruptions += 1
            raise self.unavailable(f"no answer within {timeout_sec:g} s on {subject}") from None

    async def publish(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        if not self._client.publish_now(subject, payload, reply, headers):
            await self._publish_patiently(subject, payload, headers, reply)

    async def _publish_patiently(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None, reply: str
    ) -> None:
        try:
            await self._client.publish(subject, payload, reply, dict(headers) if headers else None)
        except nats.errors.MaxPayloadError:
            raise PayloadTooLarge(f"{len(payload)} bytes, the server takes {self.max_payload}") from None
        except nats.errors.Error as error:
            raise self.unavailable(str(error)) from error

    async def subscribe(self, subject: str, handler: MessageHandler) -> Subscription:
        try:
            return await self._client.subscribe(subject, cb=handler)
        except nats.errors.Error as error:
            raise self.unavailable(str(error)) from error

    async def subscribe_direct(self, subject: str, sink: MessageSink) -> Subscription:
        """Have `sink` called as soon as a message arrives; it must be quick, nothing is read meanwhile."""
        try:
            return await self._client.subscribe_direct(subject, sink)
        except nats.errors.Error as error:
            raise self.unavailable(str(error)) from error

    def new_inbox(self) -> str:
        return self._client.new_inbox()

    async def _supervise(self) -> None:
        """Connect; then prepare after each (re)connect, until nats-py gives the connection up."""
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
            self._client = DirectClient(tls_required=tls_required(self.config), unhurried=self._unhurried)
            try:
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
            self._set_state(LinkStatus.CONNECTED)
            log.info("connected to NATS at %s", safe_url(self.config.nats_url))
            return

    async def _prepare(self) -> bool:
        try:
            for hook in self._hooks:
                await hook()
        except NatsUnavailable as error:
            self._complain(error.detail.removeprefix(self._explain("")))
            return False
        self.state = LinkState(self.state.status, self.state.since)
        self._complaints.clear()
        self._ready.set()
        return True

    def _on_reply(self, message: Message) -> None:
        token = message.subject[len(self._reply_prefix) :]
        self.unanswered = False
        if not self._pending.answer(token, message) and token in self._collecting:
            self._collecting[token].add(message)

    def _unanswered(self, subject: str) -> NatsUnavailable:
        self.unanswered = True
        self.interruptions += 1
        timeout_sec = self.config.nats_request_timeout_sec
        return self.unavailable(f"no answer within {timeout_sec:g} s on {subject}")

    def _fail_pending(self, why: str) -> None:
        self._pending.fail(lambda: self.unavailable(why))
        for answers in self._collecting.values():
            answers.add(self.unavailable(why))

    def _set_state(self, status: LinkStatus, detail: str = "") -> None:
        self.state = LinkState(status, time.time(), detail)
        self.times_connected += status is LinkStatus.CONNECTED
        self.interruptions += 1

    async def _on_error(self, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        just_refused, self._just_refused = self._just_refused, bool(_FORBIDDEN.search(reason))
        if just_refused and isinstance(error, _HUNG_UP):
            # That is what a server does behind its refusal; it must not hide what the server said.
            log.debug("NATS: %s", self._explain(reason))
            return
        self._complain(reason)
        if denied := _DENIED.search(str(error)):
            # The server refuses a publish without an answer to it.
            subject = denied["subject"]
            self._pending.refuse(subject, lambda: self.unavailable(f"this user may not publish to {subject}"))

    def _complain(self, reason: str) -> None:
        """Keep the reason for whoever asks, and log it once until the connection has been well again."""
        self.state = LinkState(self.state.status, self.state.since, reason)
        if reason not in self._complaints:
            self._complaints.add(reason)
            log.warning("NATS: %s", self._explain(reason), extra=Err.NATS_UNAVAILABLE.log_fields())

    async def _on_disconnected(self) -> None:
        if self.state.status is LinkStatus.CLOSED:
            return
        self._ready.clear()
        self._set_state(LinkStatus.RECONNECTING, "the connection was lost")
        log.warning("lost the connection to NATS", extra=Err.NATS_UNAVAILABLE.log_fields())
        self._fail_pending("the connection was lost while waiting for an answer")

    async def _on_reconnected(self) -> None:
        self._set_state(LinkStatus.CONNECTED)
        log.info("connected to NATS again")
        self._prepare_again.set()

    async def _on_closed(self) -> None:
        self._ready.clear()
        if self.state.status is not LinkStatus.CLOSED:
            self._set_state(LinkStatus.CONNECTING, self.state.detail or "the connection was closed")
            self._fail_pending("the connection was closed")
        self._prepare_again.set()
