"""The audit log."""

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import audit_types
from pyoco_server.api.endpoints.monitoring.audit_endpoints import LIST_AUDIT
from pyoco_server.audit.audit_entry_index import AuditFilter
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import (
    QueryReader,
    choice,
    cursor_value,
    run_id_value,
    text_value,
    time_value,
    whole_number,
)
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.monitoring.audit_entry_models import AuditEntry, AuditOutcome
from pyoco_server.runs.lifecycle.tenancy import Caller


@handles(LIST_AUDIT)
async def list_audit(request: Request) -> Response:
    gateway, caller = gateway_of(request), caller_of(request)
    # Without a cursor its key is not needed: a wrong query is refused even while NATS is not available.
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    reader = QueryReader(request, audit_types.AuditQuery)
    selected = AuditFilter(
        tenant=caller.confined_to,
        actor=reader.one("actor", text_value, None),
        action=reader.one("action", text_value, None),
        target=reader.one("target", text_value, None),
        run_id=reader.one("run_id", run_id_value, None),
        outcome=reader.one("outcome", choice(*AuditOutcome), None),
        since=reader.one("since", time_value, None),
        until=reader.one("until", time_value, None),
    )
    limit = reader.one("limit", whole_number(1, audit_types.AUDIT_LIMIT_MAX), audit_types.AUDIT_LIMIT_DEFAULT)
    after = reader.one("cursor", cursor_value(cursors, selected), None)
    reader.check()
    page = await gateway.audit.lists.page(selected, limit=limit, after=after)
    last = page.next_after
    next_cursor = None if last is None else (await gateway.cursors.get()).write(last, selected)
    items = [_view(entry, caller) for entry in page.entries]
    return json_response(audit_types.AuditPage(items=items, next_cursor=next_cursor))


def _view(entry: AuditEntry, caller: Caller) -> audit_types.AuditEntryView:
    """The entry; of an operator of another tenant, the caller sees only the name."""
    actor = structs.asdict(entry.actor)
    if not caller.sees(entry.actor.tenant_id):
        actor |= {"ip": None, "user_agent": None, "api_key_id": None, "tenant_id": None}
    return audit_types.AuditEntryView(
        **{
            **structs.asdict(entry),
            "actor": audit_types.AuditActorView(**actor),
            "target": audit_types.AuditTargetView(**structs.asdict(entry.target)),
        }
    )
