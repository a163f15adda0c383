"""Calls about the audit log: methods of both clients."""

from __future__ import annotations

from typing import Unpack

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Pages, Request, call, given
from pyoco_server.http_client.filter_params import AuditFilter
from pyoco_server.http_client.response_types import AuditEntry, AuditPage


def list_audit(
    limit: int | None = None, cursor: str | None = None, **selected: Unpack[AuditFilter]
) -> Request[AuditPage]:
    """A page of the audit log, the newest first: who did what. It needs the scope `audit`."""
    return call(api.LIST_AUDIT, given(limit=limit, cursor=cursor, **selected))


def iter_audit(page_size: int = 200, **selected: Unpack[AuditFilter]) -> Pages[AuditEntry]:
    """Every entry of the audit log that matches, page after page."""
    return Pages(page=lambda cursor: list_audit(page_size, cursor, **selected))
