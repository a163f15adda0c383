"""Workflow events: receive one, the summary of a month, retry jobs, and notification settings."""

import asyncio
import logging
import re
from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, Literal

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import workflow_event_types as types
from pyoco_server.api.endpoints.triggers import workflow_event_endpoints as endpoints
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import (
    EventInvalid,
    InvalidRequest,
    SecretUnreadable,
    UnreadableRecord,
)
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.requests.bodies import (
    json_record,
    limited_body,
    optional_record,
)
from pyoco_server.http_api.requests.query import query_record
from pyoco_server.http_api.requests.workflow_event_body import workflow_event_body
from pyoco_server.http_api.requests.workflow_event_sender import EventAccess, admitted
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.moments import iso_time
from pyoco_server.records.triggers.workflow_event_models import WORKFLOW_EVENT, AuditRow, RetryJob
from pyoco_server.triggers.workflow_events.chat_notifications import Webhook
from pyoco_server.triggers.workflow_events.event_audit_index import MonthCounts, MonthSelection
from pyoco_server.triggers.workflow_events.event_submission import read_event
from pyoco_server.triggers.workflow_events.retry_queue import QueueCounts

log = logging.getLogger(__name__)

_YM: Final = re.compile(r"[2-9]\d{3}-(0[1-9]|1[0-2])")
_KEY_HEADER: Final = "x-idempotency-key"
_EXPECTED: Final = {
    "ym": "expected a month, such as 2026-11",
    "recent_limit": f"expected a whole number from 1 to {types.RECENT_MAX}",
    "limit": f"expected a whole number from 1 to {types.RETRY_JOBS_MAX}",
    "token": "expected the token of workflow events",
}


@handles(endpoints.SEND_WORKFLOW_EVENT)
async def send_workflow_event(request: Request) -> Response:
    access = await admitted(request, by_token_only=True)
    events = gateway_of(request).workflow_events.service
    try:
        body = await workflow_event_body(request)
    except InvalidRequest as error:
        await events.refuse(error, access.sender)
        raise
    answer = await events.receive(read_event(body, request.headers.get(_KEY_HEADER)), access.sender)
    return json_response(
        types.WorkflowEventAccepted(
            duplicate=answer.duplicate,
            triggered=not answer.duplicate,
            template_id=answer.template.id,
            template_name=answer.template.name,
            action_key=answer.template.first.action,
            idempotency_key=answer.idempotency_key,
            run_id=answer.run_id,
        )
    )


@handles(endpoints.EVENT_SUMMARY)
async def get_event_summary(request: Request) -> Response:
    access = await admitted(request)
    expected = {name: _EXPECTED[name] for name in types.SummaryQuery.__struct_fields__}
    query = query_record(request, types.SummaryQuery, expected, InvalidRequest)
    if _YM.fullmatch(query.ym) is None:
        raise EventInvalid("ym must be a month, YYYY-MM.")
    gateway = gateway_of(request)
    selected = MonthSelection(
        WORKFLOW_EVENT, query.ym, sees_all=access.sees_all, tenant=access.sender.tenant_id
    )
    month, notification, _ = await asyncio.gather(
        gateway.workflow_events.summaries.month(selected, recent=query.recent_limit),
        _known_settings(gateway, access),
        gateway.workflow_events.retries.directory.caught_up(),
    )
    counts, config = month.counts, gateway.config
    summary = types.EventSummary(
        ym=query.ym,
        total=counts.total,
        first_at=_iso(counts.first_at),
        last_at=_iso(counts.last_at),
        by_status=_by_status(counts),
        by_reason_class=[
            types.ReasonClassCount(reason_class=name, count=n) for name, n in _ranked(counts.by_reason_class)
        ],
        by_reason_code=[
            types.ReasonCodeCount(reason_code=name, count=n) for name, n in _ranked(counts.by_reason_code)
        ],
        by_retry_advice=[
            types.RetryAdviceCount(retry_advice=name, count=n) for name, n in _ranked(counts.by_retry_advice)
        ],
        retry_queue=_queue(gateway, access),
        duplicate=types.DuplicateCounts(
            yes=counts.by_duplicate["true"],
            no=counts.by_duplicate["false"],
            unknown=counts.by_duplicate["unknown"],
        ),
        recent=[_recent(row) for row in month.recent],
        receipt_retention=types.ReceiptRetention(
            ttl_days=config.workflow_event_receipt_ttl_days, max_receipts=config.workflow_event_max_receipts
        ),
        notification=notification,
    )
    return json_response(summary)


@handles(endpoints.LIST_RETRY_JOBS)
async def list_retry_jobs(request: Request) -> Response:
    access = await admitted(request)
    expected = {name: _EXPECTED[name] for name in types.RetryJobsQuery.__struct_fields__}
    query = query_record(request, types.RetryJobsQuery, expected, InvalidRequest)
    gateway = gateway_of(request)
    await gateway.workflow_events.retries.directory.caught_up()
    counts = gateway.workflow_events.retries.counts(access.sees)
    jobs = gateway.workflow_events.retries.jobs(access.sees)[: query.limit]
    return json_response(
        types.RetryJobList(
            total=counts.total,
            due=counts.due,
            by_status=_retry_status(counts),
            jobs=[_job(job) for job in jobs],
            policy=_policy(gateway.config),
        )
    )


@handles(endpoints.DRAIN_RETRY_JOBS)
async def drain_retry_jobs(request: Request) -> Response:
    access = await admitted(request)
    asked = await optional_record(
        request, types.DrainRequest, field="limit", cure="send limit and force only"
    )
    gateway = gateway_of(request)
    done = await gateway.workflow_events.retries.drain(access.sees, limit=asked.limit, force=asked.force)
    queue = _queue(gateway, access)
    return json_response(
        types.Drained(
            processed=done.processed,
            succeeded=done.by_status["succeeded"],
            retrying=done.by_status["retrying"],
            escalated=done.by_status["escalated"],
            discarded=done.by_status["discarded"],
            remaining_due=queue.due,
            queue=queue,
        )
    )


@handles(endpoints.GET_NOTIFICATION_SETTINGS)
async def get_notification_settings(request: Request) -> Response:
    access = await admitted(request)
    access.require_settings()
    webhook = await gateway_of(request).workflow_events.notifications.webhook(access.settings_tenant)
    return json_response(_settings(webhook))


@handles(endpoints.SAVE_NOTIFICATION_SETTINGS)
async def save_notification_settings(request: Request) -> Response:
    access = await admitted(request)
    access.require_settings()
    body = await limited_body(request, 16 * 1024, field="webhook_url", cure="send webhook_url only")
    asked = json_record(body, types.NotificationRequest)
    webhook = await gateway_of(request).workflow_events.notifications.save(
        access.settings_tenant, asked.webhook_url, api_key_id=access.sender.api_key_id
    )
    return json_response(_settings(webhook))


@handles(endpoints.TEST_NOTIFICATION)
async def send_test_notification(request: Request) -> Response:
    access = await admitted(request)
    access.require_settings()
    notifications = gateway_of(request).workflow_events.notifications
    sent = await notifications.send_test(access.settings_tenant, access.sender.actor)
    status: Literal["ok", "error"] = "ok" if sent.ok else "error"
    tested = types.NotificationTested(
        status=status, sent=sent.ok, http_status=sent.http_status, message=sent.message
    )
    return json_response(tested, status=HTTPStatus.OK if sent.ok else sent.http_status)


def _queue(gateway: Gateway, access: EventAccess) -> types.RetryQueueView:
    counts = gateway.workflow_events.retries.counts(access.sees)
    return types.RetryQueueView(
        total=counts.total,
        due=counts.due,
        by_status=_retry_status(counts),
        policy=_policy(gateway.config),
    )


def _retry_status(counts: QueueCounts) -> types.RetryStatusCounts:
    names = types.RetryStatusCounts.__struct_fields__
    return types.RetryStatusCounts(**{name: counts.by_status[name] for name in names})


def _policy(config: NatsBackendConfig) -> types.RetryPolicy:
    return types.RetryPolicy(
        max_attempts=config.workflow_event_retry_max_attempts,
        base_delay_seconds=config.workflow_event_retry_base_delay_seconds,
        terminal_ttl_days=config.workflow_event_retry_terminal_ttl_days,
        max_jobs=config.workflow_event_retry_max_jobs,
    )


def _by_status(counts: MonthCounts) -> types.StatusCounts:
    known = {name: counts.by_status[name] for name in types.StatusCounts.__struct_fields__}
    # Names of a newer version.
    known["unknown"] = counts.total - sum(known.values()) + known["unknown"]
    return types.StatusCounts(**known)


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first, then by name."""
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _recent(row: AuditRow) -> types.RecentEvent:
    return types.RecentEvent(
        at=iso_time(row.at),
        status=row.status,
        action=row.action,
        run_id=row.run_id,
        **structs.asdict(row.details),
    )


def _job(job: RetryJob) -> types.RetryJobView:
    shown: dict[str, Any] = {name: getattr(job, name, None) for name in types.RetryJobView.__struct_fields__}
    event = {name: getattr(job.event, name) for name in ("event_name", "source", "year", "month")}
    texts = {"mfcloud_url": job.event.mfcloud_url, "notes": job.event.notes}
    times = {name: iso_time(getattr(job, name)) for name in ("created_at", "updated_at")}
    next_at = None if job.status.terminal else iso_time(job.next_retry_at)
    return types.RetryJobView(**{**shown, **event, **texts, **times, "next_retry_at": next_at})


def _settings(webhook: Webhook) -> types.NotificationSettings:
    return types.NotificationSettings(
        configured=webhook.url is not None,
        # Another tenant's own is not shown, also not in part.
        webhook_url_masked="" if webhook.inherited else webhook.masked,
        source=webhook.source,
        updated_at=None if webhook.inherited else _iso(webhook.updated_at),
        inherited=webhook.inherited,
    )


async def _known_settings(gateway: Gateway, access: EventAccess) -> types.NotificationSettings:
    """As far as they can be read: a summary is shown in any case."""
    try:
        webhook = await gateway.workflow_events.notifications.webhook(access.settings_tenant)
        if not access.sees_all and access.sender.tenant_id is None:
            webhook = replace(webhook, inherited=webhook.url is not None)
        return _settings(webhook)
    except (SecretUnreadable, UnreadableRecord) as error:
        log.warning("the notification settings cannot be read: %s", error)
        # There is one: escalations do not go to that of the environment either.
        return types.NotificationSettings(
            configured=True, webhook_url_masked="", source="file", updated_at=None, inherited=False
        )


def _iso(at: float | None) -> str | None:
    return None if at is None else iso_time(at)
