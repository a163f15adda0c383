"""Writes an entry of the audit log for each request to an endpoint that has a rule for it.

The response is sent after the entry is stored, or could not be stored. Nothing is written for callers that
are not known: without a valid key, or above the rate limit.
"""

import re
import time
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.audit_fields import Detail, JsonFields
from pyoco_server.http_api.middleware.principal import actor_of, principal_of
from pyoco_server.http_api.middleware.rate_limits import TokenBuckets
from pyoco_server.http_api.routing import find_endpoint, route_path
from pyoco_server.records.ids import NO_TENANT, new_uuid
from pyoco_server.records.monitoring.audit_entry_models import AuditEntry, AuditOutcome, AuditTarget, AuditVia
from pyoco_server.records.value_types import is_run_id
from pyoco_server.records.waits.wait_models import run_id_of_wait

REQUEST_ID: Final = "X-Request-Id"
_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_UNCHANGING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_VIA: Final = "pyoco.via"
# More of a request is not looked at: a wheel, or params.
_MAX_BODY_BYTES: Final = 64 * 1024
# How many refused requests of one caller are recorded: they must not push the entries of others out.
_REFUSALS_PER_SEC: Final = 10 / 60
_REFUSALS_BURST: Final = 20
_PROGRAMS: Final = {
    "pyoco-client": AuditVia.CLI,
    "pyoco-client-mcp": AuditVia.MCP,
    "pyoco-python": AuditVia.PYTHON,
}
# These say what a change is based on, not what is changed.
_BASES: Final = frozenset({"revision", "base_updated_at"})
_ID_CHARS: Final = 300


def mark_mcp(scope: Scope) -> None:
    """The request is the call of a tool."""
    scope[_VIA] = AuditVia.MCP


class AuditMiddleware:
    """Outside of authentication: requests of a key that may not do them are entries too."""

    def __init__(self, app: ASGIApp, *, keys_required: bool) -> None:
        self._app = app
        self._keys_required = keys_required
        self._refusals = TokenBuckets(per_sec=_REFUSALS_PER_SEC, burst=_REFUSALS_BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = None
        if scope["type"] == "http" and scope["method"] not in _UNCHANGING:
            endpoint = find_endpoint(scope["method"], route_path(scope))
        if endpoint is None or endpoint.audit is None:
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(Request(scope), receive)
        try:
            await self._app(scope, exchange.receive, exchange.keep)
        except Exception:
            # The error handler outside sends a 500.
            exchange.status = HTTPStatus.INTERNAL_SERVER_ERROR
            await self._record(exchange, endpoint, endpoint.audit)
            raise
        await self._record(exchange, endpoint, endpoint.audit)
        await exchange.send_response(send)

    async def _record(self, exchange: "_Exchange", endpoint: Endpoint, rule: AuditRule) -> None:
        if not self._is_known_caller(exchange):
            return
        sent = JsonFields(exchange.body)
        if exchange.outcome is AuditOutcome.ACCEPTED and sent.get("dry_run") is True:
            return
        entry = _entry(exchange, endpoint, rule, sent)
        audit = gateway_of(exchange.request).audit.log
        if exchange.outcome is not AuditOutcome.ACCEPTED and self._refusals.take(_bucket_of(entry)):
            audit.skipped += 1
            return
        await audit.write(entry)

    def _is_known_caller(self, exchange: "_Exchange") -> bool:
        """Entries of strangers would fill the log."""
        if exchange.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS):
            return False
        if not self._keys_required or principal_of(exchange.request) is not None:
            return True
        # The token of workflow events takes the place of a key.
        return exchange.outcome is AuditOutcome.ACCEPTED


class _Exchange:
    """The beginning of a request, and its whole response."""

    def __init__(self, request: Request, receive: Receive) -> None:
        self.request = request
        self.request_id = _request_id(request)
        self._receive = receive
        self._chunks: list[bytes] = []
        self._size = 0
        self._messages: list[Message] = []
        self.status = 0

    @property
    def body(self) -> bytes:
        """Empty if it is larger than what is looked at."""
        return b"".join(self._chunks) if self._size <= _MAX_BODY_BYTES else b""

    @property
    def response(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self._messages)

    @property
    def outcome(self) -> AuditOutcome:
        if self.status < HTTPStatus.BAD_REQUEST:
            return AuditOutcome.ACCEPTED
        refused = self.status < HTTPStatus.INTERNAL_SERVER_ERROR
        return AuditOutcome.REFUSED if refused else AuditOutcome.FAILED

    async def receive(self) -> Message:
        message = await self._receive()
        chunk = message.get("body", b"")
        self._size += len(chunk)
        if self._size <= _MAX_BODY_BYTES:
            self._chunks.append(chunk)
        return message

    async def keep(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            request_id = (REQUEST_ID.lower().encode(), self.request_id.encode())
            message = {**message, "headers": [*message["headers"], request_id]}
        self._messages.append(message)

    async def send_response(self, send: Send) -> None:
        for message in self._messages:
            await send(message)


def _entry(exchange: _Exchange, endpoint: Endpoint, rule: AuditRule, sent: JsonFields) -> AuditEntry:
    request, answered = exchange.request, JsonFields(exchange.response)
    accepted = exchange.outcome is AuditOutcome.ACCEPTED
    in_path = endpoint.path_params(route_path(request.scope))
    target = AuditTarget(kind=rule.kind, id=_target_id(rule, in_path, sent, answered))
    details: dict[str, Detail] = {name: value for name, value in in_path.items() if name not in rule.id}
    details |= sent.details(rule.request)
    if rule.changes and (changed := [name for name in sent.names if name not in _BASES]):
        details["changed"] = changed
    if accepted:
        target.name = next(filter(None, map(answered.text, rule.name)), None)
        details |= answered.details(rule.response)
    principal = principal_of(request)
    on_behalf_of = details.pop("on_behalf_of", details.pop("onBehalfOf", None))
    return AuditEntry(
        id=new_uuid(),
        at=time.time(),
        tenant_id=(_owner(request, endpoint, answered) if accepted else None)
        or (None if principal is None else principal.tenant_id),
        actor=actor_of(request, on_behalf_of=None if on_behalf_of is None else str(on_behalf_of)),
        via=_via(request),
        action=rule.action,
        target=target,
        run_id=_run_id(rule, target, answered if accepted else JsonFields(b"")),
        outcome=exchange.outcome,
        status=exchange.status,
        err_id=None if accepted else answered.text("err_id"),
        request_id=exchange.request_id,
        details=details,
    )


def _owner(request: Request, endpoint: Endpoint, answered: JsonFields) -> str | None:
    """The tenant of the target, as the response has it, or as an operator has named it."""
    named = None
    if endpoint.query is not None and "tenant" in endpoint.query.__struct_fields__:
        named = request.query_params.get("tenant")
    return answered.text("tenant_id") or (None if named == NO_TENANT else named)


def _target_id(
    rule: AuditRule, in_path: dict[str, str], sent: JsonFields, answered: JsonFields
) -> str | None:
    found = (in_path.get(name) or answered.text(name) or sent.text(name) for name in rule.id)
    text = next(filter(None, found), None)
    return None if text is None else text[:_ID_CHARS]


def _run_id(rule: AuditRule, target: AuditTarget, answered: JsonFields) -> str | None:
    run_id = target.id if rule.kind == "run" else None
    if rule.run:
        run_id = answered.text(rule.run) or run_id_of_wait(target.id or "")
    return run_id if is_run_id(run_id or "") else None


def _via(request: Request) -> AuditVia:
    if (via := request.scope.get(_VIA)) is not None:
        return AuditVia(via)
    program = request.headers.get("user-agent", "").partition("/")[0]
    if program in _PROGRAMS:
        return _PROGRAMS[program]
    # Browsers send it, and pages of others are refused before.
    return AuditVia.DASHBOARD if "sec-fetch-site" in request.headers else AuditVia.API


def _request_id(request: Request) -> str:
    given = request.headers.get(REQUEST_ID, "")
    return given if _REQUEST_ID.fullmatch(given) else new_uuid()


def _bucket_of(entry: AuditEntry) -> str:
    return entry.actor.api_key_id or entry.actor.ip or ""
