"""Calls about workflow events, templates and actions: methods of both clients.

A `token` is that of workflow events (AX_WORKFLOW_EVENT_TOKEN), where the gateway has one and there is no API
key with the scope.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import ClientEndpoint, Pages, Request, call, given, header_value
from pyoco_server.http_client.response_types import (
    Drained,
    EventSummary,
    NotificationSettings,
    NotificationTested,
    RetryJobList,
    Template,
    TemplateDeleted,
    TemplateList,
    TemplateSaved,
    TemplateTested,
    WorkflowAction,
    WorkflowActionDeleted,
    WorkflowActionList,
    WorkflowActionSaved,
    WorkflowEventAccepted,
)

# What the contract of workflow events accepts; with another one, each event would start a run.
_KEY: Final = re.compile(r"[A-Za-z0-9._:@-]{1,128}")


def send_workflow_event(
    template_id: str | None = None,
    *,
    event_name: str | None = None,
    idempotency_key: str | None = None,
    year: int | None = None,
    month: int | None = None,
    payload: Any = None,
    source: str | None = None,
    mfcloud_url: str | None = None,
    notes: str | None = None,
    token: str | None = None,
) -> Request[WorkflowEventAccepted]:
    """Send an event, which starts a run by the template that it names; the answer has the `run_id`.

    The same `idempotency_key` starts one run, however often it is sent. Without one the client makes a key
    for each call, so that it can repeat the call when the gateway is away for a moment. A key that the
    gateway would not count (at most 128 of `A-Za-z0-9._:@-`) is a ValueError.
    """
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key.strip()):
        expected = "expected 1 to 128 letters, digits, '.', '_', ':', '@' or '-'"
        raise ValueError(f"idempotency_key {idempotency_key[:80]!r}: {expected}")
    body = given(
        template_id=template_id,
        event_name=event_name,
        idempotency_key=idempotency_key or str(uuid4()),
        year=year,
        month=month,
        payload=payload,
        source=source,
        mfcloud_url=mfcloud_url,
        notes=notes,
    )
    return call(api.SEND_WORKFLOW_EVENT, body=body, repeatable=True, headers=_token(token))


def event_summary(
    ym: str, recent_limit: int | None = None, *, token: str | None = None
) -> Request[EventSummary]:
    """The workflow events of a month (`YYYY-MM`): counts, the retry queue, and the newest ones."""
    query = given(ym=ym, recent_limit=recent_limit)
    return call(api.EVENT_SUMMARY, query, headers=_token(token))


def list_retry_jobs(limit: int | None = None, *, token: str | None = None) -> Request[RetryJobList]:
    """The events that the server sends again, the last changed first."""
    return call(api.LIST_RETRY_JOBS, given(limit=limit), headers=_token(token))


def drain_retry_jobs(
    limit: int | None = None, *, force: bool = False, token: str | None = None
) -> Request[Drained]:
    """Execute the retry jobs that are due now; with `force` also the others."""
    body = given(limit=limit, force=force or None)
    return call(api.DRAIN_RETRY_JOBS, body=body, headers=_token(token))


def notification_settings(*, token: str | None = None) -> Request[NotificationSettings]:
    """Whether a Google Chat webhook is configured; it is masked."""
    return call(api.GET_NOTIFICATION_SETTINGS, headers=_token(token))


def save_notification_settings(
    webhook_url: str, *, token: str | None = None
) -> Request[NotificationSettings]:
    """Store the Google Chat webhook; an empty text clears it."""
    return call(api.SAVE_NOTIFICATION_SETTINGS, body={"webhook_url": webhook_url}, headers=_token(token))


def send_test_notification(*, token: str | None = None) -> Request[NotificationTested]:
    """Send a test message. One that Google Chat refuses is a PyocoHttpError with its status."""
    return call(api.TEST_NOTIFICATION, headers=_token(token))


def list_templates(
    search: str | None = None,
    *,
    sort: str | None = None,
    limit: int | None = None,
    offset: int | None = None,
) -> Request[TemplateList]:
    """The workflow templates that match, and how many there are."""
    return call(api.LIST_TEMPLATES, given(search=search, sort=sort, limit=limit, offset=offset))


def iter_templates(page_size: int = 200, *, search: str | None = None) -> Pages[Template]:
    """Every workflow template that matches, by name, page after page."""

    def after(page: Any, offset: str | None) -> str | None:
        end = int(offset or 0) + len(page["items"])
        return str(end) if page["items"] and end < page["total"] else None

    return Pages(
        page=lambda offset: list_templates(search, sort="name", limit=page_size, offset=int(offset or 0)),
        next=after,
    )


def get_template(template_id: str) -> Request[Template]:
    """One workflow template."""
    return call(api.GET_TEMPLATE, template_id=template_id)


def save_template(
    name: str, steps: Sequence[Mapping[str, Any]], *, base_updated_at: str | None = None, **fields: Any
) -> Request[TemplateSaved]:
    """Create a template; with the `base_updated_at` that was read, replace it.

    The fields are those of `POST /api/workflow-templates`: `id`, `year`, `month`, `mfcloud_url`, `notes` and
    `overlap`. A change by somebody else in between is a 409, and nothing is changed.
    """
    body = {"name": name, "steps": steps, **given(base_updated_at=base_updated_at), **fields}
    return call(api.SAVE_TEMPLATE, body=body)


def delete_template(template_id: str) -> Request[TemplateDeleted]:
    """Delete a template; its runs stay."""
    return call(api.DELETE_TEMPLATE, template_id=template_id)


def preview_template(template_id: str, event: Mapping[str, Any] | None = None) -> Request[TemplateTested]:
    """What an event would start, with its params. Nothing is started, stored or audited."""
    return call(api.TEST_TEMPLATE, body=event or {}, template_id=template_id)


def list_actions() -> Request[WorkflowActionList]:
    """The actions of templates, with the flow that each one starts."""
    return call(api.LIST_ACTIONS)


def get_action(key: str) -> Request[WorkflowAction]:
    """One action."""
    return call(_named(api.GET_ACTION, key))


def save_action(key: str, flow_name: str, **fields: Any) -> Request[WorkflowActionSaved]:
    """Create an action, or replace it: the flow that it starts.

    The fields are those of `PUT /api/workflow-actions/{key}`: `workflow_yaml`, `tag`, `tags`, `params`
    and `timeout_sec`.
    """
    return call(_named(api.PUT_ACTION, key), body={"flow_name": flow_name, **fields})


def delete_action(key: str) -> Request[WorkflowActionDeleted]:
    """Delete an action; templates with it are not executable any more."""
    return call(_named(api.DELETE_ACTION, key))


def _named(endpoint: ClientEndpoint, key: str) -> ClientEndpoint:
    """With the key of the action in its path: `key` of a call is an idempotency key."""
    return replace(endpoint, path=endpoint.url(key=key))


def _token(token: str | None) -> dict[str, str]:
    """In a header: a query would stand in logs."""
    return {} if not token else {"x-workflow-event-token": header_value(token, "token")}
