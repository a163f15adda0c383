"""What the gateway returns, for type checkers and editors; see docs/http-api.md for the meaning.

Generated from `api/` by `make docs`. At run time these are dictionaries, with all that the gateway has sent.
"""

# ruff: noqa: UP013
# fmt: off
from typing import Any, Literal, NotRequired, TypedDict

SubmitWarning = TypedDict("SubmitWarning", {
    "code": Literal['flow_unknown', 'no_worker', 'params_invalid'], "message": str, "field": NotRequired[str],
})
Accepted = TypedDict("Accepted", {
    "run_id": str, "status": str, "warnings": NotRequired[list[SubmitWarning]],
    "origin_run_id": NotRequired[str], "params_changed": NotRequired[bool],
})
Cause = TypedDict("Cause", {"kind": str, "id": NotRequired[str | None], "at": NotRequired[float | None]})
ArtifactCounts = TypedDict("ArtifactCounts", {"count": int, "bytes": int, "left_out_count": int})
RunItem = TypedDict("RunItem", {
    "run_id": str, "flow_name": str, "status": str, "tag": str, "tags": list[str], "updated_at": float,
    "submitted_at": float | None, "start_time": float | None, "end_time": float | None,
    "duration_sec": float | None, "worker_id": str | None, "heartbeat_at": float | None, "attempt": int,
    "reason": str | None, "error": str | None, "cancel_requested_at": float | None,
    "origin_run_id": str | None, "cause": NotRequired[Cause], "start_at": NotRequired[float],
    "workflow_yaml_sha256": str | None, "tenant_id": str | None, "tasks_total": int, "tasks_over": int,
    "params_preview": NotRequired[str], "artifacts": NotRequired[ArtifactCounts], "wait_message": str | None,
    "wait_schema": str | None, "wait_deadline_at": float | None, "open_waits": int, "id": NotRequired[str],
})
RunPage = TypedDict("RunPage", {
    "items": list[RunItem], "next_cursor": str | None, "total": NotRequired[int],
    "total_exact": NotRequired[bool],
})
EarlierAttempt = TypedDict("EarlierAttempt", {
    "number": int, "worker_id": str | None, "started_at": float | None, "last_heartbeat_at": float,
    "handed_back": NotRequired[bool], "lost_at": NotRequired[float | None],
})
OpenWait = TypedDict("OpenWait", {
    "wait_id": str, "task": str, "name": str, "message": str, "deadline_at": float | None,
    "kind": NotRequired[str], "topic": NotRequired[str | None], "since": NotRequired[float | None],
    "asked_again": NotRequired[str | None],
})
LeftOut = TypedDict("LeftOut", {"name": str, "reason": str, "task": NotRequired[str | None]})
ArtifactSummary = TypedDict("ArtifactSummary", {
    "count": int, "bytes": int, "left_out_count": int, "left_out": list[LeftOut],
})
RunResult = TypedDict("RunResult", {
    "task": str, "type": Literal['bytes', 'json'], "bytes": int, "value": NotRequired[Any],
    "preview": NotRequired[str], "is_cut": bool, "reason": NotRequired[str],
})
Run = TypedDict("Run", {
    "run_id": str, "flow_name": str, "status": str, "params": dict[str, Any], "tasks": dict[str, str],
    "heartbeat_at": float, "updated_at": float, "tag": str, "tags": list[str], "submitted_at": float | None,
    "worker_id": str | None, "attempt": int, "attempt_started_at": NotRequired[float],
    "earlier_attempts": NotRequired[list[EarlierAttempt]], "continuations": NotRequired[int],
    "delivery": list[int] | None, "handed_back": NotRequired[bool], "continues": NotRequired[bool],
    "worker_instance": NotRequired[str], "handed_over_at": NotRequired[float], "start_time": float | None,
    "end_time": float | None, "reason": str | None, "error": str | None, "cancel_requested_at": float | None,
    "cancel_requested_by": str | None, "cancel_reason": str | None, "cancel_force": NotRequired[bool],
    "workflow_yaml_sha256": str | None, "workflow_yaml_bytes": int | None, "params_sha256": NotRequired[str],
    "params_bytes": NotRequired[int], "timeout_sec": float | None, "cause": NotRequired[Cause],
    "start_at": NotRequired[float], "origin_run_id": str | None, "rerun_mode": str | None,
    "rerun_task": str | None, "keep_answers": NotRequired[bool], "tenant_id": str | None,
    "api_key_id": str | None, "generation": int, "waited_sec": NotRequired[float],
    "used_sec": NotRequired[float], "waiting_since": NotRequired[float | None],
    "open_waits": NotRequired[list[OpenWait]], "wait_message": NotRequired[str | None],
    "wait_schema": NotRequired[str | None], "wait_deadline_at": NotRequired[float | None],
    "artifacts": NotRequired[ArtifactSummary], "task_records": NotRequired[dict[str, Any]],
    "task_records_truncated": bool, "code_version": NotRequired[str], "result_task": NotRequired[str],
    "signature": NotRequired[str], "result": NotRequired[RunResult],
    "worker_alive": NotRequired[bool | None], "worker_heartbeat_at": NotRequired[float | None],
    "worker_tags": NotRequired[list[str] | None],
})
SnapshotPage = TypedDict("SnapshotPage", {
    "items": list[Run], "next_cursor": str | None, "total": NotRequired[int],
    "total_exact": NotRequired[bool],
})
Tasks = TypedDict("Tasks", {
    "run_id": str, "flow_name": str, "status": str, "tasks": dict[str, str], "task_records": dict[str, Any],
    "task_records_truncated": bool,
})
LogLine = TypedDict("LogLine", {
    "id": str, "ts": float, "task": str | None, "stream": str, "text": str, "attempt": int,
})
PyocoLogEntry = TypedDict("PyocoLogEntry", {
    "seq": int, "task": str, "stream": str, "text": str, "timestamp": float,
})
LogPage = TypedDict("LogPage", {
    "run_id": str, "run_status": str, "lines": list[LogLine], "next_after": str | None, "complete": bool,
    "previous_before": NotRequired[str | None], "logs": NotRequired[list[PyocoLogEntry]],
})
Action = TypedDict("Action", {"code": str, "text": str, "command": str | None, "request": str | None})
NextStep = TypedDict("NextStep", {"by_itself": str, "actions": list[Action]})
Finding = TypedDict("Finding", {"code": str, "message": str, "evidence": dict[str, Any], "next": NextStep})
Explanation = TypedDict("Explanation", {
    "run_id": str, "status": str | None, "checked_at": float, "summary": str, "findings": list[Finding],
})
Artifact = TypedDict("Artifact", {
    "name": str, "bytes": int, "sha256": str, "content_type": str, "task": str | None, "created_at": float,
})
Artifacts = TypedDict("Artifacts", {
    "run_id": str, "artifacts": list[Artifact], "bytes": int, "left_out": list[LeftOut],
    "left_out_count": int,
})
DeliveryAccepted = TypedDict("DeliveryAccepted", {
    "run_id": str | None, "duplicate": bool, "reason": NotRequired[str],
})
HookSignature = TypedDict("HookSignature", {
    "header": str, "algorithm": str, "encoding": str, "prefix": str, "timestamp_header": str,
    "signed_text": str,
})
HookSecret = TypedDict("HookSecret", {"secret_id": str, "created_at": float, "expires_at": float | None})
Hook = TypedDict("Hook", {
    "hook_id": str, "incarnation": str, "tenant_id": str | None, "api_key_id": str | None,
    "created_at": float, "updated_at": float, "revision": int, "kind": str, "signature": HookSignature,
    "flow_name": str, "workflow_yaml": str | None, "params": dict[str, Any], "tag": str, "tags": list[str],
    "timeout_sec": float | None, "map": dict[str, str] | None, "idempotency": str | None,
    "only_if": dict[str, Any], "overlap": str, "note": str, "secrets": list[HookSecret], "path": str,
    "url": str | None, "subject": str | None,
})
HookPage = TypedDict("HookPage", {"items": list[Hook], "next_cursor": str | None, "total": int})
HookWithSecret = TypedDict("HookWithSecret", {
    "hook_id": str, "incarnation": str, "tenant_id": str | None, "api_key_id": str | None,
    "created_at": float, "updated_at": float, "revision": int, "kind": str, "signature": HookSignature,
    "flow_name": str, "workflow_yaml": str | None, "params": dict[str, Any], "tag": str, "tags": list[str],
    "timeout_sec": float | None, "map": dict[str, str] | None, "idempotency": str | None,
    "only_if": dict[str, Any], "overlap": str, "note": str, "secrets": list[HookSecret], "path": str,
    "url": str | None, "subject": str | None, "secret": str | None,
})
HookDeleted = TypedDict("HookDeleted", {"hook_id": str, "deleted": bool})
MappingProblem = TypedDict("MappingProblem", {"field": str, "message": str})
TestedDelivery = TypedDict("TestedDelivery", {
    "matched": bool, "reason": Literal['only_if', 'ping'] | None, "params": dict[str, Any],
    "missing": list[str], "idempotency_key": str | None, "problems": list[MappingProblem], "flow_name": str,
    "tag": str,
})
DeliveryItem = TypedDict("DeliveryItem", {
    "at": float, "status": str, "http_status": int | None, "run_id": str | None, "reason": str | None,
    "detail": str | None, "idempotency_key": str | None, "body_bytes": int, "client_ip": str | None,
    "redelivery_of": int | None, "count": int, "missing": list[str], "delivery_id": int,
})
DeliveryPage = TypedDict("DeliveryPage", {
    "items": list[DeliveryItem], "next_cursor": str | None, "total": int,
})
Delivery = TypedDict("Delivery", {
    "at": float, "status": str, "http_status": int | None, "run_id": str | None, "reason": str | None,
    "detail": str | None, "idempotency_key": str | None, "body_bytes": int, "client_ip": str | None,
    "redelivery_of": int | None, "count": int, "missing": list[str], "delivery_id": int,
    "headers": dict[str, str], "query": dict[str, str], "body": str | None, "body_is_base64": bool,
    "params": dict[str, Any], "answer": str,
})
Redelivered = TypedDict("Redelivered", {
    "run_id": str | None, "duplicate": bool, "reason": NotRequired[str], "status": str,
})
Actor = TypedDict("Actor", {
    "tenant_id": NotRequired[str | None], "api_key_id": NotRequired[str | None],
    "name": NotRequired[str | None], "ip": NotRequired[str | None], "user_agent": NotRequired[str | None],
    "on_behalf_of": NotRequired[str | None],
})
WaitItem = TypedDict("WaitItem", {
    "wait_id": str, "run_id": str, "flow_name": str, "tag": str, "task": str, "node": str, "name": str,
    "message": str, "state": str, "created_at": float, "deadline_at": float | None, "arming": int,
    "tenant_id": str | None, "assignees": list[str], "proposal_digest": str | None, "required": int,
    "approvals": int, "decided_at": float | None, "decided_by": Actor | None, "decision": str | None,
    "kind": str, "topic": str | None, "answer": str | None,
})
WaitPage = TypedDict("WaitPage", {"items": list[WaitItem], "next_cursor": str | None, "total": int})
Vote = TypedDict("Vote", {
    "at": float, "by": Actor, "decision": NotRequired[str | None], "payload": NotRequired[Any],
    "note": NotRequired[str | None], "decision_id": NotRequired[str | None],
})
WaitEvent = TypedDict("WaitEvent", {
    "event_id": str, "kind": str, "wait_id": str, "run_id": str, "at": float,
    "tenant_id": NotRequired[str | None], "actor": NotRequired[Actor | None],
    "decision": NotRequired[str | None], "decision_id": NotRequired[str | None],
    "why": NotRequired[str | None], "deadline_at": NotRequired[float | None],
    "assignees": NotRequired[list[str] | None],
})
Wait = TypedDict("Wait", {
    "wait_id": str, "run_id": str, "flow_name": str, "tag": str, "node": str, "task": str, "name": str,
    "message": str, "created_at": float, "deadline_at": float | None, "kind": str, "topic": str | None,
    "match": dict[str, Any], "arming": int, "tenant_id": str | None, "schema": dict[str, Any] | bool | None,
    "proposal": NotRequired[Any], "proposal_digest": str | None, "assignees": list[str],
    "default": NotRequired[Any], "on_timeout": str, "asked_again": str | None, "changes": int,
    "notify": str | None, "escalate_to": str | None, "remind_at": float | None, "escalate_at": float | None,
    "reminded_at": float | None, "escalated_at": float | None, "state": str, "decided_at": float | None,
    "decided_by": Actor | None, "decision": str | None, "payload": NotRequired[Any], "note": str | None,
    "decision_id": str | None, "required": int, "self_approval": bool, "submitted_by": str | None,
    "votes": list[Vote], "taken_from": str | None, "approvals": int, "events": list[WaitEvent],
})
Receipt = TypedDict("Receipt", {
    "wait_id": str, "run_id": str, "decided_at": float, "decision": str | None, "decision_id": str | None,
    "state": str, "required": int, "approvals": int, "repeated": bool, "success": Literal[True],
})
Resumed = TypedDict("Resumed", {"runId": str, "success": Literal[True]})
ScheduleSpec = TypedDict("ScheduleSpec", {
    "cron": list[str], "every_sec": float | None, "anchor": float | None, "at": list[float], "timezone": str,
    "start_at": float | None, "end_at": float | None, "jitter_sec": float, "exclude": list[str],
})
ScheduleDecision = TypedDict("ScheduleDecision", {
    "at": float, "outcome": str, "scheduled_for": float, "until": NotRequired[float | None],
    "count": NotRequired[int], "at_least": NotRequired[bool], "by": NotRequired[str],
    "backfill_id": NotRequired[str | None], "run_id": NotRequired[str | None],
    "dropped_run_id": NotRequired[str | None], "reason": NotRequired[str | None],
    "detail": NotRequired[str | None],
})
ScheduleItem = TypedDict("ScheduleItem", {
    "schedule_id": str, "tenant_id": str | None, "flow_name": str, "has_workflow_yaml": bool, "tag": str,
    "tags": list[str], "spec": ScheduleSpec, "overlap": str, "paused": bool, "note": str,
    "next_at": float | None, "last_decision": ScheduleDecision | None, "last_run_id": str | None,
    "last_run_status": str | None, "last_scheduled_for": float | None, "problem": str | None,
    "created_at": float, "updated_at": float, "revision": int,
})
SchedulePage = TypedDict("SchedulePage", {
    "items": list[ScheduleItem], "next_cursor": str | None, "total": int,
})
ScheduledStart = TypedDict("ScheduledStart", {
    "run_id": str, "scheduled_for": float, "decided_at": float, "by": NotRequired[str],
    "backfill_id": NotRequired[str | None], "overlap": NotRequired[str],
    "params": NotRequired[dict[str, Any]],
})
Backfill = TypedDict("Backfill", {
    "backfill_id": str, "from_at": float, "to_at": float, "cursor": float, "requested_at": float,
    "requested_by": NotRequired[str | None], "overlap": NotRequired[str], "count": NotRequired[int | None],
    "started": NotRequired[int],
})
StartedRun = TypedDict("StartedRun", {"run_id": str, "scheduled_for": float})
Schedule = TypedDict("Schedule", {
    "schedule_id": str, "incarnation": str, "created_at": float, "updated_at": float, "revision": int,
    "tenant_id": str | None, "api_key_id": str | None, "flow_name": str, "workflow_yaml": str | None,
    "params": dict[str, Any], "tag": str, "tags": list[str], "timeout_sec": float | None,
    "spec": ScheduleSpec, "overlap": str, "catchup_window_sec": float | None, "pause_on_failure": bool,
    "remaining_runs": int | None, "paused": bool, "paused_at": float | None, "note": str, "cursor": float,
    "starts": list[ScheduledStart], "buffer": list[ScheduledStart], "backfills": list[Backfill],
    "running": list[StartedRun], "decisions": list[ScheduleDecision], "counts": dict[str, int],
    "next_times": list[str], "problem": str | None,
})
NextTimes = TypedDict("NextTimes", {"times": list[str], "timezone": str, "searched_until": str | None})
ScheduleDeleted = TypedDict("ScheduleDeleted", {"schedule_id": str, "deleted": bool})
Triggered = TypedDict("Triggered", {"schedule_id": str, "run_id": str, "outcome": str})
Backfilled = TypedDict("Backfilled", {
    "schedule_id": str, "dry_run": bool, "from": float, "to": float, "count": int, "times": list[str],
    "backfill_id": str | None,
})
BackfillItem = TypedDict("BackfillItem", {
    "backfill_id": str, "from": float, "to": float, "overlap": str, "requested_at": float,
    "requested_by": str | None, "count": int | None, "started": int, "remaining": int,
})
BackfillList = TypedDict("BackfillList", {"items": list[BackfillItem]})
BackfillCancelled = TypedDict("BackfillCancelled", {
    "schedule_id": str, "backfill_id": str, "started": int, "skipped": int,
})
SignalAccepted = TypedDict("SignalAccepted", {"signal_id": str})
SignalView = TypedDict("SignalView", {
    "signal_id": str, "name": str, "at": float, "data": Any, "state": str, "by": Actor | None,
    "wait_id": str | None, "task": str | None,
})
SignalList = TypedDict("SignalList", {"items": list[SignalView], "removed": int})
EventAccepted = TypedDict("EventAccepted", {"event_id": str, "duplicate": bool})
WorkflowEventAccepted = TypedDict("WorkflowEventAccepted", {
    "status": Literal['ok'], "duplicate": bool, "triggered": bool, "template_id": str, "template_name": str,
    "action_key": str, "idempotency_key": str | None, "run_id": str,
})
StatusCounts = TypedDict("StatusCounts", {
    "success": int, "skipped": int, "rejected": int, "failed": int, "unknown": int,
})
ReasonClassCount = TypedDict("ReasonClassCount", {"reason_class": str, "count": int})
ReasonCodeCount = TypedDict("ReasonCodeCount", {"reason_code": str, "count": int})
RetryAdviceCount = TypedDict("RetryAdviceCount", {"retry_advice": str, "count": int})
RetryStatusCounts = TypedDict("RetryStatusCounts", {
    "pending": int, "retrying": int, "succeeded": int, "discarded": int, "escalated": int,
})
RetryPolicy = TypedDict("RetryPolicy", {
    "max_attempts": int, "base_delay_seconds": int, "terminal_ttl_days": int, "max_jobs": int,
})
RetryQueue = TypedDict("RetryQueue", {
    "total": int, "due": int, "by_status": RetryStatusCounts, "policy": RetryPolicy,
})
DuplicateCounts = TypedDict("DuplicateCounts", {"true": int, "false": int, "unknown": int})
RecentEvent = TypedDict("RecentEvent", {
    "at": str, "status": str, "action": str, "run_id": str | None, "template_id": str | None,
    "template_name": str | None, "event_name": str | None, "source": str | None,
    "idempotency_key": str | None, "reason": str | None, "reason_class": str | None,
    "reason_code": str | None, "retry_advice": str | None, "duplicate": bool | None, "count": int,
    "payload_differs": bool,
})
ReceiptRetention = TypedDict("ReceiptRetention", {"ttl_days": int, "max_receipts": int})
NotificationSettings = TypedDict("NotificationSettings", {
    "configured": bool, "webhook_url_masked": str, "source": Literal['env', 'file', 'none'],
    "updated_at": str | None, "inherited": bool, "status": Literal['ok'],
})
EventSummary = TypedDict("EventSummary", {
    "status": Literal['ok'], "ym": str, "event_type": Literal['workflow_event'], "total": int,
    "first_at": str | None, "last_at": str | None, "by_status": StatusCounts,
    "by_reason_class": list[ReasonClassCount], "by_reason_code": list[ReasonCodeCount],
    "by_retry_advice": list[RetryAdviceCount], "retry_queue": RetryQueue, "duplicate": DuplicateCounts,
    "recent": list[RecentEvent], "receipt_retention": ReceiptRetention, "notification": NotificationSettings,
})
RetryJob = TypedDict("RetryJob", {
    "job_id": str, "template_id": str, "template_name": str, "action_key": str, "event_name": str | None,
    "source": str, "idempotency_key": str, "year": int, "month": int, "mfcloud_url": str, "notes": str,
    "status": str, "attempts": int, "max_attempts": int, "next_retry_at": str | None,
    "last_error": str | None, "last_reason_class": str | None, "last_reason_code": str | None,
    "last_retry_advice": str | None, "last_run_id": str | None, "created_at": str, "updated_at": str,
})
RetryJobList = TypedDict("RetryJobList", {
    "status": Literal['ok'], "total": int, "due": int, "by_status": RetryStatusCounts,
    "jobs": list[RetryJob], "policy": RetryPolicy,
})
Drained = TypedDict("Drained", {
    "status": Literal['ok'], "processed": int, "succeeded": int, "retrying": int, "escalated": int,
    "discarded": int, "remaining_due": int, "queue": RetryQueue,
})
NotificationTested = TypedDict("NotificationTested", {
    "status": Literal['error', 'ok'], "sent": bool, "http_status": int, "message": str,
})
TemplateStep = TypedDict("TemplateStep", {
    "id": str, "title": str, "action": str, "trigger_kind": str, "execution_mode": str, "timer_minutes": int,
})
Template = TypedDict("Template", {
    "id": str, "name": str, "year": int, "month": int, "mfcloud_url": str, "notes": str,
    "steps": list[TemplateStep], "overlap": str, "created_at": str, "updated_at": str,
    "tenant_id": str | None,
})
TemplateList = TypedDict("TemplateList", {"status": Literal['ok'], "items": list[Template], "total": int})
TemplateSaved = TypedDict("TemplateSaved", {"status": Literal['ok'], "template": Template, "created": bool})
TemplateDeleted = TypedDict("TemplateDeleted", {"status": Literal['ok'], "id": str, "deleted": bool})
TemplateTested = TypedDict("TemplateTested", {
    "template_id": str, "template_name": str, "action_key": str, "flow_name": str | None, "tag": str | None,
    "params": dict[str, Any], "idempotency_key": str | None, "problem": str | None,
    "problem_status": int | None,
})
WorkflowAction = TypedDict("WorkflowAction", {
    "key": str, "flow_name": str, "has_workflow_yaml": bool, "workflow_yaml": str | None, "tag": str,
    "tags": list[str], "params": dict[str, Any], "timeout_sec": float | None, "implied": bool,
    "created_at": str | None, "updated_at": str | None, "tenant_id": str | None,
})
WorkflowActionList = TypedDict("WorkflowActionList", {
    "status": Literal['ok'], "items": list[WorkflowAction], "total": int,
})
WorkflowActionSaved = TypedDict("WorkflowActionSaved", {
    "status": Literal['ok'], "action": WorkflowAction, "created": bool,
})
WorkflowActionDeleted = TypedDict("WorkflowActionDeleted", {
    "status": Literal['ok'], "key": str, "deleted": bool,
})
RequestPaths = TypedDict("RequestPaths", {"request_file": str, "run_dir": str | None})
RequestQuestion = TypedDict("RequestQuestion", {
    "wait_id": str, "text": str, "choices": list[str], "deadline_at": str | None,
})
AgentRequest = TypedDict("AgentRequest", {
    "id": str, "title": str, "priority": str, "status": str, "base": str, "branch": str, "tags": list[str],
    "created_at": str, "updated_at": str, "run_id": str | None, "phase": str | None, "attempt": int | None,
    "blocked_reason": str | None, "failure_reason": str | None, "pr_url": str | None,
    "last_commit": str | None, "paths": RequestPaths, "enqueued_at": str | None, "stopping": bool,
    "question": RequestQuestion | None, "pyoco_run_id": str | None, "problems": list[str],
})
RequestList = TypedDict("RequestList", {"items": list[AgentRequest]})
RequestResult = TypedDict("RequestResult", {"request": AgentRequest})
RequestSections = TypedDict("RequestSections", {"want": str | None, "plan": str | None, "report": str | None})
RequestContent = TypedDict("RequestContent", {"raw_md": str, "sections": RequestSections})
RequestDetail = TypedDict("RequestDetail", {"request": AgentRequest, "content": RequestContent})
RequestRunStep = TypedDict("RequestRunStep", {
    "id": str, "title": str, "state": str, "commit": str | None, "tests": str | None, "summary": str | None,
})
RequestRun = TypedDict("RequestRun", {
    "id": str, "request_id": str, "status": str, "phase": str | None, "started_at": str | None,
    "ended_at": str | None, "summary": str | None, "artifacts": dict[str, str], "files": list[str],
    "step": str | None, "steps": list[RequestRunStep], "error": dict[str, Any] | None,
    "pyoco_run_id": str | None,
})
RequestRunResult = TypedDict("RequestRunResult", {"run": RequestRun})
RequestRunList = TypedDict("RequestRunList", {"items": list[RequestRun]})
DoctorCheck = TypedDict("DoctorCheck", {
    "name": str, "ok": bool, "version": NotRequired[str | None], "details": NotRequired[str | None],
    "fix": NotRequired[str | None],
})
DoctorReport = TypedDict("DoctorReport", {"checks": list[DoctorCheck]})
LetterRerun = TypedDict("LetterRerun", {"run_id": str, "status": str})
Letter = TypedDict("Letter", {
    "seq": int, "timestamp": float, "reason": str, "error": str | None, "run_id": str | None,
    "flow_name": str | None, "tag": str | None, "tags": list[str] | None, "worker_id": str | None,
    "num_delivered": int | None, "subject": str | None, "tenant_id": str | None, "replayable": bool,
    "rerun": LetterRerun | None, "closed": bool,
})
LetterPage = TypedDict("LetterPage", {"items": list[Letter], "next_cursor": str | None})
DeletedLetter = TypedDict("DeletedLetter", {"seq": int, "deleted": bool})
ReplayedLetter = TypedDict("ReplayedLetter", {
    "run_id": str, "status": str, "warnings": NotRequired[list[SubmitWarning]], "origin_run_id": str,
    "params_changed": NotRequired[bool], "seq": int, "deleted": bool,
})
BulkError = TypedDict("BulkError", {"item": str, "err_id": str | None, "message": str})
BulkOperation = TypedDict("BulkOperation", {
    "bulk_id": str, "action": str, "state": str, "query": dict[str, list[str]], "matched": int, "done": int,
    "skipped": int, "failed": int, "errors": list[BulkError], "created_at": float, "updated_at": float,
    "started_at": float | None, "finished_at": float | None, "mode": str | None, "keep_answers": bool,
    "reason": str | None, "delete": bool, "tenant_id": str | None, "api_key_id": str | None,
})
BulkAnswer = TypedDict("BulkAnswer", {
    "action": str, "dry_run": bool, "matched": int, "sample": list[str], "token": str | None,
    "operation": BulkOperation | None,
})
BulkList = TypedDict("BulkList", {"items": list[BulkOperation]})
SkippedWheel = TypedDict("SkippedWheel", {
    "name": str, "reason": str, "needs": str | None, "expected": str | None,
})
FailedWheel = TypedDict("FailedWheel", {"name": str, "reason": str})
InstalledWheel = TypedDict("InstalledWheel", {
    "name": str, "package": str, "version": str, "nuid": str, "sha256_hex": str | None,
    "installed_at": float, "missing": list[str],
})
WheelSync = TypedDict("WheelSync", {
    "enabled": bool, "last_result": str, "error": str | None, "last_attempt_at": float | None,
    "last_success_at": float | None, "last_synced_at": float | None, "selected_count": int,
    "updated_count": int, "removed_count": int, "skipped_incompatible_count": int,
    "selected_wheels": list[str], "updated_wheels": list[str], "removed_wheels": list[str],
    "skipped_incompatible": list[SkippedWheel], "failed_wheels": list[FailedWheel],
    "installed_wheels": list[InstalledWheel],
})
WorkerHost = TypedDict("WorkerHost", {
    "name": str, "system": str, "python": str, "cpus": int, "memory_bytes": int | None,
})
WorkerUsage = TypedDict("WorkerUsage", {
    "at": float, "processes": int, "cpu_cores": float | None, "memory_bytes": int | None,
    "host_cpu": float | None, "host_memory_bytes": int | None,
})
WorkerEvent = TypedDict("WorkerEvent", {
    "at": float, "kind": str, "by": NotRequired[str | None], "tenant_id": NotRequired[str | None],
    "reason": NotRequired[str | None],
})
Worker = TypedDict("Worker", {
    "worker_id": str, "instance_id": str, "state": str, "hidden": bool, "paused": bool, "draining": bool,
    "last_seen_at": float, "last_heartbeat_at": float, "last_progress_at": float | None, "tags": list[str],
    "slots": int, "slots_busy": int, "executor_error": str | None, "flows": list[str],
    "current_run_id": str | None, "current_run_ids": list[str], "last_run_id": str | None,
    "last_run_status": str | None, "last_run_started_at": float | None, "last_run_finished_at": float | None,
    "stopped_at": float | None, "stop_reason": str | None, "version": str, "pyoco_version": str,
    "wheel_sync": WheelSync, "host": WorkerHost | None, "usage": WorkerUsage | None,
    "history": list[WorkerEvent],
})
WorkerSetup = TypedDict("WorkerSetup", {"command": str, "needs_credentials": bool, "local": bool})
WorkerChange = TypedDict("WorkerChange", {
    "worker_id": str, "hidden": bool, "paused": bool, "draining": bool, "state": str, "updated_at": float,
})
FlowQuantiles = TypedDict("FlowQuantiles", {"p50": float | None, "p95": float | None})
FlowSparkline = TypedDict("FlowSparkline", {
    "completed": list[int], "failed": list[int], "cancelled": list[int],
})
FlowStatistics = TypedDict("FlowStatistics", {
    "since": int, "bucket_sec": int, "statuses": dict[str, int], "success_rate": float | None,
    "duration_ms": FlowQuantiles, "queue_ms": FlowQuantiles, "sparkline": FlowSparkline,
})
FlowItem = TypedDict("FlowItem", {
    "name": str, "description": str, "tags": list[str], "workers": int, "versions": list[str],
    "versions_differ": bool, "parameters": dict[str, Any] | None, "problem": str | None,
    "statistics": NotRequired[dict[str, FlowStatistics]],
})
FlowPage = TypedDict("FlowPage", {"flows": list[FlowItem], "next_cursor": str | None})
FlowTask = TypedDict("FlowTask", {"name": str, "description": str, "after": list[str]})
FlowEdge = TypedDict("FlowEdge", {"source": str, "target": str})
FlowGraph = TypedDict("FlowGraph", {"nodes": list[str], "edges": list[FlowEdge]})
FlowWorker = TypedDict("FlowWorker", {
    "worker_id": str, "state": str, "tags": list[str], "version": str | None,
})
FlowFailure = TypedDict("FlowFailure", {"run_id": str, "ended_at": float, "error": str | None})
FlowView = TypedDict("FlowView", {
    "name": str, "description": str, "tags": list[str], "versions": list[str], "versions_differ": bool,
    "parameters": dict[str, Any] | None, "problem": str | None, "file": str | None, "tasks": list[FlowTask],
    "graph": FlowGraph, "workers": list[FlowWorker], "statistics": NotRequired[dict[str, FlowStatistics]],
    "last_failures": list[FlowFailure],
})
RunGraph = TypedDict("RunGraph", {
    "run_id": str, "source": Literal['flow_yaml', 'other_tags', 'run', 'tag'] | None, "tasks": list[FlowTask],
})
Wheel = TypedDict("Wheel", {
    "name": str, "size_bytes": int, "bucket": str, "nuid": str, "modified": float, "sha256_hex": str | None,
    "tags": list[str],
})
WheelActor = TypedDict("WheelActor", {"tenant_id": str | None, "api_key_id": str | None})
Source = TypedDict("Source", {
    "remote_addr": str | None, "x_forwarded_for": str | None, "x_real_ip": str | None,
    "user_agent": str | None, "host": str | None, "scheme": str | None,
})
WheelEvent = TypedDict("WheelEvent", {
    "event_id": str, "occurred_at": float, "action": str, "wheel_name": str, "tags": list[str],
    "size_bytes": int | None, "sha256_hex": str | None, "replace": bool | None, "actor": WheelActor,
    "source": Source,
})
DeletedWheel = TypedDict("DeletedWheel", {"name": str, "deleted": bool})
ViewFilter = TypedDict("ViewFilter", {
    "status": list[str], "flow": str | None, "tag": str | None, "worker": str | None, "origin": str | None,
    "cause": str | None, "workflow_yaml_sha256": str | None, "since": str | None,
    "updated_after": float | None, "updated_before": float | None, "submitted_after": float | None,
    "submitted_before": float | None, "q": str | None,
})
View = TypedDict("View", {
    "name": str, "filter": ViewFilter, "sort": str, "order": str, "columns": list[str], "revision": int,
    "created_at": float, "updated_at": float, "created_by": str | None, "updated_by": str | None,
})
ViewList = TypedDict("ViewList", {"views": list[View]})
ViewDeleted = TypedDict("ViewDeleted", {"name": str, "deleted": bool})
AlertRule = TypedDict("AlertRule", {
    "condition": str, "flow_name": str | None, "tag": str | None, "count": int | None,
    "percent": float | None, "min_runs": int | None, "window_sec": float | None, "after_sec": float | None,
})
AlertChannel = TypedDict("AlertChannel", {
    "name": str, "kind": str, "host": str, "fingerprint": str, "signed": bool, "to": list[str],
})
AlertMute = TypedDict("AlertMute", {
    "since": float, "until": float | None, "note": str, "api_key_id": str | None,
})
AlertFacts = TypedDict("AlertFacts", {
    "value": float, "or_more": bool, "runs": int, "queued": int, "only_queued": bool, "flows": list[str],
    "run_ids": list[str],
})
AlertMessage = TypedDict("AlertMessage", {
    "channel": str, "state": str, "attempts": int, "at": float | None, "next_at": float | None, "error": str,
})
AlertOccurrence = TypedDict("AlertOccurrence", {
    "number": int, "fired_at": float, "resolved_at": float | None, "text": str, "facts": AlertFacts,
    "fired": list[AlertMessage], "resolved": list[AlertMessage],
})
Alert = TypedDict("Alert", {
    "alert_id": str, "tenant_id": str | None, "api_key_id": str | None, "created_at": float,
    "updated_at": float, "revision": int, "rule": AlertRule, "channels": list[AlertChannel],
    "cool_down_sec": float, "send_resolved": bool, "language": str, "note": str, "mute": AlertMute | None,
    "firing": bool, "last": AlertOccurrence | None,
})
AlertPage = TypedDict("AlertPage", {
    "items": list[Alert], "next_cursor": str | None, "total": int, "firing": int,
})
AlertChecked = TypedDict("AlertChecked", {"met": bool, "value": float, "text": str})
AlertDeleted = TypedDict("AlertDeleted", {"alert_id": str, "deleted": bool})
TestedChannel = TypedDict("TestedChannel", {"channel": str, "ok": bool, "error": str})
AlertTested = TypedDict("AlertTested", {"channels": list[TestedChannel]})
AlertHistory = TypedDict("AlertHistory", {"items": list[AlertOccurrence]})
AuditActor = TypedDict("AuditActor", {
    "tenant_id": str | None, "api_key_id": str | None, "name": str | None, "ip": str | None,
    "user_agent": str | None, "on_behalf_of": str | None,
})
AuditTarget = TypedDict("AuditTarget", {"kind": str, "id": str | None, "name": str | None})
AuditEntry = TypedDict("AuditEntry", {
    "id": str, "at": float, "tenant_id": str | None, "actor": AuditActor, "via": str, "action": str,
    "target": AuditTarget, "run_id": str | None, "outcome": str, "status": int, "err_id": str | None,
    "request_id": str, "details": dict[str, str | int | float | bool | list[str]],
})
AuditPage = TypedDict("AuditPage", {"items": list[AuditEntry], "next_cursor": str | None})
NatsHealth = TypedDict("NatsHealth", {
    "status": str, "ready": bool, "since": NotRequired[float], "detail": NotRequired[str],
})
SpaceLeft = TypedDict("SpaceLeft", {"of": str, "free_bytes": int, "limit_bytes": int})
StorageHealth = TypedDict("StorageHealth", {
    "ready": bool, "cause": NotRequired[str | None], "detail": NotRequired[str],
    "low": NotRequired[list[SpaceLeft]],
})
IndexHealth = TypedDict("IndexHealth", {
    "ready": bool, "revision": NotRequired[int], "behind": NotRequired[int], "runs": NotRequired[int],
})
Health = TypedDict("Health", {
    "status": str, "version": NotRequired[str], "nats": NatsHealth, "storage": StorageHealth,
    "index": IndexHealth, "clock_offset_sec": NotRequired[float], "unreadable": NotRequired[dict[str, int]],
})
KeyAccess = TypedDict("KeyAccess", {
    "key_id": str | None, "tenant_id": str | None, "name": str | None, "scopes": list[str],
    "groups": list[str], "sees_all_tenants": bool, "endpoints": list[str],
})
EndedRuns = TypedDict("EndedRuns", {"at": float, "completed": int, "failed": int, "cancelled": int})
FailingFlow = TypedDict("FailingFlow", {
    "flow_name": str, "completed": int, "failed": int, "cancelled": int, "last_run_id": str,
    "last_failed_at": float, "last_error": str | None, "sparkline": FlowSparkline,
})
QueueView = TypedDict("QueueView", {
    "tag": str, "pending": int, "running": int, "oldest_pending_sec": float | None, "waiting": int,
    "in_work": int, "oldest_sec": float, "workers": int, "workers_held": int,
})
LostRuns = TypedDict("LostRuns", {"worker_id": str, "tag": str, "runs": int, "last_seen_at": float | None})
WorkerCounts = TypedDict("WorkerCounts", {
    "alive": int, "paused": int, "draining": int, "disconnected": int, "slots": int, "slots_busy": int,
})
FiringAlerts = TypedDict("FiringAlerts", {"total": int, "first": list[str]})
UnreadableView = TypedDict("UnreadableView", {
    "kind": str, "key": str, "revision": int, "problem": str, "found_at": float,
})
UnreadableList = TypedDict("UnreadableList", {"total": int, "newest": list[UnreadableView]})
Overview = TypedDict("Overview", {
    "at": float, "window": Literal['1h', '24h', '7d'], "since": float, "stretch_sec": float,
    "statuses": dict[str, int], "ended": list[EndedRuns], "failing": list[FailingFlow],
    "queues": list[QueueView], "lost_runs": list[LostRuns], "workers": WorkerCounts,
    "firing_alerts": FiringAlerts | None, "unreadable": NotRequired[UnreadableList],
})
RunFigures = TypedDict("RunFigures", {
    "completed": int, "failed": int, "cancelled": int, "per_hour": float, "success_rate": float | None,
    "duration_ms": FlowQuantiles, "queue_ms": FlowQuantiles,
})
FlowComparison = TypedDict("FlowComparison", {
    "flow_name": str, "current": RunFigures, "previous": RunFigures, "sparkline": FlowSparkline,
})
SlotCounts = TypedDict("SlotCounts", {"workers": int, "slots": int, "slots_busy": int})
TagComparison = TypedDict("TagComparison", {
    "tag": str, "current": RunFigures, "previous": RunFigures, "sparkline": FlowSparkline,
    "slots": SlotCounts,
})
Statistics = TypedDict("Statistics", {
    "period": Literal['1h', '24h', '30d', '7d'], "at": float, "since": int, "previous_since": int,
    "bucket_sec": int, "current": RunFigures, "previous": RunFigures, "buckets": list[RunFigures],
    "previous_buckets": list[RunFigures], "flows": list[FlowComparison], "flow_count": int,
    "tags": list[TagComparison], "tag_count": int, "slots": SlotCounts,
})
