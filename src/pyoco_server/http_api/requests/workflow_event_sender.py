"""Who sends a workflow event: the token of the contract, or an API key."""

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.requests import Request

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import EventTokenInvalid, ScopeMissing
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.authentication import missing_key
from pyoco_server.http_api.middleware.principal import actor_of, caller_of, principal_of
from pyoco_server.records.triggers.workflow_event_models import EventActor
from pyoco_server.triggers.workflow_events.event_reasons import reason_of
from pyoco_server.triggers.workflow_events.event_service import Sender

WRONG_TOKEN: Final = "Invalid workflow event token."  # noqa: S105 - the text of the contract
_HEADER: Final = "x-workflow-event-token"
_BEARER: Final = "bearer "


@dataclass(frozen=True, slots=True)
class EventAccess:
    sender: Sender
    # Of the operator's tenant, or without authentication.
    sees_all: bool

    def sees(self, owner: str | None) -> bool:
        return self.sees_all or owner == self.sender.tenant_id

    @property
    def settings_tenant(self) -> str | None:
        """Whose notification settings these are; None: those of the installation."""
        return None if self.sees_all else self.sender.tenant_id

    def require_settings(self) -> None:
        """ScopeMissing for a sender without a tenant: the settings of the installation are not its own."""
        if not self.sees_all and self.sender.tenant_id is None:
            raise ScopeMissing(
                "the notification settings of the installation need an API key; a sender with a token has "
                "settings of its own if PYOCO_WORKFLOW_EVENT_TENANT names its tenant"
            )


async def admitted(request: Request, *, by_token_only: bool = False) -> EventAccess:
    """What the sender may do; EventTokenInvalid or ApiKeyMissing before anything is looked up.

    A token that is configured must be given; an API key replaces it, unless `by_token_only`.
    """
    gateway = gateway_of(request)
    config = gateway.config
    has_key = principal_of(request) is not None
    if config.workflow_event_token:
        if (by_token_only or not has_key) and not _is_token(request, config):
            error = EventTokenInvalid(WRONG_TOKEN)
            await gateway.workflow_events.audit.refused(reason_of(error), WRONG_TOKEN, _actor(request))
            raise error
    elif config.http_auth_mode == "api_key" and not has_key:
        raise missing_key(config.http_api_key_header)
    return _access(request, config, has_key=has_key)


def _access(request: Request, config: NatsBackendConfig, *, has_key: bool) -> EventAccess:
    actor = _actor(request)
    if has_key:
        caller = caller_of(request)
        return EventAccess(Sender(caller.tenant_id, caller.api_key_id, actor), sees_all=caller.sees_all)
    keyless = config.http_auth_mode == "none"
    tenant_id = None if keyless else config.workflow_event_tenant or None
    return EventAccess(Sender(tenant_id, None, actor), sees_all=keyless)


def _actor(request: Request) -> EventActor:
    by = actor_of(request)
    return EventActor(id=by.api_key_id, ip=by.ip, user_agent=by.user_agent)


def _is_token(request: Request, config: NatsBackendConfig) -> bool:
    """Compared in constant time, whatever its length."""
    given = sha256(_given_token(request)).digest()
    return hmac.compare_digest(given, sha256(config.workflow_event_token.encode()).digest())


def _given_token(request: Request) -> bytes:
    """The first that is given: in the query, in its header, or as a bearer."""
    if in_query := request.query_params.get("token"):
        return in_query.encode("utf-8", "surrogatepass")
    # Headers are bytes, which Starlette decodes so.
    if in_header := request.headers.get(_HEADER, "").strip():
        return in_header.encode("latin-1")
    authorization = request.headers.get("authorization", "").strip()
    if authorization.lower().startswith(_BEARER):
        return authorization[len(_BEARER) :].strip().encode("latin-1")
    return b""
