"""Calls about alerts: methods of both clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Pages, Request, call, given
from pyoco_server.http_client.response_types import (
    Alert,
    AlertChecked,
    AlertDeleted,
    AlertHistory,
    AlertPage,
    AlertTested,
)


def list_alerts(
    limit: int | None = None, cursor: str | None = None, *, q: str | None = None
) -> Request[AlertPage]:
    """A page of the alerts that match, in the order of their ids; `q` is a text in id, flow, tag or note."""
    return call(api.LIST_ALERTS, given(limit=limit, cursor=cursor, q=q))


def iter_alerts(page_size: int = 200, *, q: str | None = None) -> Pages[Alert]:
    """Every alert that matches, page after page."""
    return Pages(page=lambda cursor: list_alerts(page_size, cursor, q=q))


def get_alert(alert_id: str, *, tenant: str | None = None) -> Request[Alert]:
    """One alert with its state, without its secrets.

    A `tenant` is for operators, here and in the other calls: whose alert it is.
    """
    return call(api.GET_ALERT, given(tenant=tenant), alert_id=alert_id)


def save_alert(
    alert_id: str, condition: str, channels: Sequence[Mapping[str, Any]], **fields: Any
) -> Request[Alert]:
    """Create an alert, or replace it; its history stays.

    The fields are those of `PUT /alerts/{alert_id}`: `flow_name`, `tag`, `count`, `percent`, `min_runs`,
    `window_sec`, `after_sec`, `cool_down_sec`, `send_resolved`, `language`, `note` and `revision`. A channel
    has a `name`, a `kind`, and its `url` (and `secret`) or `to`; a stored one keeps a URL that is left out.
    """
    body = {"condition": condition, "channels": [dict(each) for each in channels], **fields}
    return call(api.PUT_ALERT, body=body, alert_id=alert_id)


def check_alert(condition: str, **fields: Any) -> Request[AlertChecked]:
    """Whether a condition is met now; nothing is stored or sent."""
    return call(api.CHECK_ALERT, body={"condition": condition, **fields})


def delete_alert(
    alert_id: str, *, revision: int | None = None, tenant: str | None = None
) -> Request[AlertDeleted]:
    """Delete an alert with its history."""
    return call(api.DELETE_ALERT, given(revision=revision, tenant=tenant), alert_id=alert_id)


def send_test_alert(
    alert_id: str, *, channel: str | None = None, tenant: str | None = None
) -> Request[AlertTested]:
    """Send a test message to one channel, or to all, now."""
    return call(api.TEST_ALERT, given(tenant=tenant), given(channel=channel), alert_id=alert_id)


def mute_alert(
    alert_id: str, *, for_sec: float | None = None, note: str = "", tenant: str | None = None
) -> Request[Alert]:
    """Send no messages for this time, or until `unmute_alert`."""
    body = {"note": note, **given(for_sec=for_sec)}
    return call(api.MUTE_ALERT, given(tenant=tenant), body, alert_id=alert_id)


def unmute_alert(alert_id: str, *, tenant: str | None = None) -> Request[Alert]:
    """Send messages again; if the alert fires, its message is sent."""
    return call(api.UNMUTE_ALERT, given(tenant=tenant), alert_id=alert_id)


def alert_history(alert_id: str, *, tenant: str | None = None) -> Request[AlertHistory]:
    """When it has fired and was resolved, and what became of its messages; the newest first."""
    return call(api.ALERT_HISTORY, given(tenant=tenant), alert_id=alert_id)
