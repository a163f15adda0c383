"""The exceptions of this product. Each carries an error of the table (error_table.py).

    PyocoError
    ├── InvalidRequest          ERR-PYOCO-0002   422
    │   ├── WheelTooLarge                        413
    │   └── DeliveryTooLarge                     413
    ├── NatsUnavailable         ERR-PYOCO-0003   503
    │   ├── NatsForbidden
    │   ├── UnusableConsumer
    │   ├── UnusableStream
    │   ├── EventNotProcessed
    │   ├── NatsCannotWrite     ERR-PYOCO-0046   503
    │   └── EmbeddedServerError
    ├── RunNotFound             ERR-PYOCO-0005   404
    ├── ResultNotFound          ERR-PYOCO-0071   404
    ├── FlowNotFound            ERR-PYOCO-0006   404
    ├── WorkflowTooLarge        ERR-PYOCO-0016   413
    ├── InvalidListQuery        ERR-PYOCO-0017   422
    ├── InvalidWorkersRequest   ERR-PYOCO-0019   422
    ├── WorkerNotFound          ERR-PYOCO-0020   404
    ├── WheelVersionRejected    ERR-PYOCO-0022   409
    ├── WheelNotFound           ERR-PYOCO-0023   404
    ├── ArtifactNotFound        ERR-PYOCO-0072   404
    ├── RunConflict             ERR-PYOCO-0025   409
    ├── IdempotencyConflict     ERR-PYOCO-0026   409
    ├── DeadLetterNotFound      ERR-PYOCO-0027   404
    ├── NotReplayable           ERR-PYOCO-0028   409
    ├── BulkNotFound            ERR-PYOCO-0029   404
    ├── BulkRefused             ERR-PYOCO-0030   409
    ├── IndexNotReady           ERR-PYOCO-0031   503
    ├── ApiKeyMissing           ERR-PYOCO-0014   401
    ├── ApiKeyInvalid           ERR-PYOCO-0015   403
    ├── ApiKeysBusy             ERR-PYOCO-0079   503
    ├── ScopeMissing            ERR-PYOCO-0032   403
    ├── OriginRefused           ERR-PYOCO-0033   403
    ├── RateLimited             ERR-PYOCO-0034   429
    ├── WaitNotFound            ERR-PYOCO-0035   404
    ├── WaitConflict            ERR-PYOCO-0036   409
    │   └── AmbiguousWait
    ├── WaitExpired             ERR-PYOCO-0037   410
    │   └── WaitExpiredForGood
    ├── ProposalChanged         ERR-PYOCO-0038   412
    ├── InvalidAnswer           ERR-PYOCO-0039   422
    ├── NotAssigned             ERR-PYOCO-0040   403
    │   └── SelfApproval
    ├── UploadsBusy             ERR-PYOCO-0042   503
    ├── AnswersBusy             ERR-PYOCO-0043   503
    ├── UnverifiedRun           ERR-PYOCO-0044   409
    ├── UnreadableRecord        ERR-PYOCO-0045   409
    ├── ScheduleNotFound        ERR-PYOCO-0047   404
    ├── ScheduleConflict        ERR-PYOCO-0048   409
    │   └── ScheduleBusy        ERR-PYOCO-0049   409
    │       └── ScheduleFull    ERR-PYOCO-0053   409
    ├── BackfillNotFound        ERR-PYOCO-0052   404
    ├── MailboxFull             ERR-PYOCO-0050   409
    ├── EventTokenInvalid       ERR-PYOCO-0054   401
    ├── TemplateNotFound        ERR-PYOCO-0055   404
    ├── TemplateConflict        ERR-PYOCO-0056   409
    ├── ActionNotExecutable     ERR-PYOCO-0057   409
    ├── EventInvalid            ERR-PYOCO-0058   400
    ├── TemplateBusy            ERR-PYOCO-0059   409
    ├── HookNotFound            ERR-PYOCO-0060   404
    ├── HookConflict            ERR-PYOCO-0061   409
    ├── HookRefused             ERR-PYOCO-0062   401
    ├── HookBusy                ERR-PYOCO-0063   409
    ├── NoSecretsKey            ERR-PYOCO-0064   409
    ├── SecretUnreadable        ERR-PYOCO-0065   503
    ├── DeliveryNotFound        ERR-PYOCO-0066   404
    ├── NotRedeliverable        ERR-PYOCO-0067   409
    ├── ChatWebhookInvalid      ERR-PYOCO-0069   400
    ├── ActionNotFound          ERR-PYOCO-0070   404
    ├── ViewNotFound            ERR-PYOCO-0077   404
    ├── ViewConflict            ERR-PYOCO-0078   409
    ├── AlertNotFound           ERR-PYOCO-0073   404
    ├── AlertConflict           ERR-PYOCO-0074   409
    └── InvalidCliArgument      ERR-PYOCO-0018
        └── ConfigError

Errors without an exception are reported where they happen, as a log line or an HTTP response.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pyoco_server.errors.address_redaction import without_addresses
from pyoco_server.errors.error_table import Err, ErrorSpec, Lang


def shortened(value: object, limit: int = 80) -> str:
    """The value's repr, cut to `limit` characters: enough to recognise it in an error message."""
    shown = repr(value)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def shortened_json(value: object, limit: int = 80) -> str:
    """The same in JSON, for a value that came as JSON: `true` and `null`, not `True` and `None`."""
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field of an input, and where."""

    field: str  # a dotted path, such as `params.x` or `tasks.load.callable`; empty: the input as a whole
    message: str
    value: str | None = None  # shortened; never given for a secret
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        where = "=".join(part for part in (self.field, self.value) if part)
        if self.line is not None:
            column = "" if self.column is None else f", column {self.column}"
            place = f"line {self.line}{column}"
            where = f"{where} ({place})" if where else place
        return f"{where}: {self.message}" if where else self.message


class PyocoError(Exception):
    """The base of every error a user of this product may see."""

    error: ClassVar[ErrorSpec]
    # The machine-readable `error` of the response, for endpoints of waits.
    word: str | None = None
    # The `Retry-After` of the response. http_api/responses/http_problems.py has the default of a 503.
    retry_after_sec: float | None = None
    # Whether the detail is part of a contract: the response has nothing but it.
    exact_detail: ClassVar[bool] = False

    def __init__(self, detail: str = "", *, problems: Sequence[FieldProblem] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problems = tuple(problems)
        # Further headers of the HTTP response.
        self.headers: dict[str, str] = {}

    @property
    def public_detail(self) -> str:
        """The detail as callers of the gateway may see it."""
        return self.detail

    def sentence(self, lang: Lang = "en", *, public: bool = False) -> str:
        """The error's text, followed by the detail, or by the problems when there is no detail."""
        detail = (self.public_detail if public else self.detail) or "; ".join(map(str, self.problems))
        return f"{self.error.text(lang)}: {detail}" if detail else self.error.text(lang)

    def __str__(self) -> str:
        return self.sentence()


class InvalidRequest(PyocoError):
    error = Err.INVALID_REQUEST


class WheelTooLarge(InvalidRequest):
    """An invalid request with the status of a body that is too large."""

    error = replace(Err.INVALID_REQUEST, status=413)


class DeliveryTooLarge(InvalidRequest):
    """The same, of a delivery to a hook."""

    error = replace(Err.INVALID_REQUEST, status=413)


class NatsUnavailable(PyocoError):
    error = Err.NATS_UNAVAILABLE

    @property
    def public_detail(self) -> str:
        """Without addresses, which the log has."""
        return without_addresses(self.detail)


class NatsForbidden(NatsUnavailable):
    """NATS is reachable, but the configured user lacks a permission: a retry does not help."""

    error = replace(
        Err.NATS_UNAVAILABLE,
        en="NATS does not allow this",
        ja="NATS で許可されていない操作です",
        cure_en="Check the NATS user in the settings (PYOCO_NATS_*) and its permissions: "
        "`pyoco-server-admin nats-config` prints the permissions that each part needs.",
        cure_ja="NATS のユーザー設定（PYOCO_NATS_*）と権限を確認してください"
        "（必要な権限は `pyoco-server-admin nats-config` で確認できます）。",
    )


class UnusableConsumer(NatsUnavailable):
    """An existing consumer has settings with which no worker can execute runs, or would do so twice."""

    error = replace(
        Err.NATS_UNAVAILABLE,
        en="The consumer of a tag cannot be used",
        ja="タグのコンシューマーを使用できません",
        cure_en="Change its AckWait with `nats consumer edit --wait 30s`, or delete the consumer "
        "(`nats consumer rm`): a worker creates it again with PYOCO_CONSUMER_ACK_WAIT_SEC.",
        cure_ja="`nats consumer edit --wait 30s` で AckWait を変更するか、`nats consumer rm` で"
        "コンシューマーを削除してください（ワーカーが PYOCO_CONSUMER_ACK_WAIT_SEC で作り直します）。",
    )


class UnusableStream(NatsUnavailable):
    """An existing stream or bucket has options with which this version cannot use it."""

    error = replace(
        Err.NATS_UNAVAILABLE,
        en="An existing stream or bucket of NATS cannot be used",
        ja="NATS の既存のストリームまたはバケットを使用できません",
        cure_en="`pyoco-server-admin adopt --dry-run` lists what has to be changed, and `pyoco-server-admin "
        "adopt` changes it. For a stream that cannot be changed, choose another name in the settings, or "
        "remove it.",
        cure_ja="`pyoco-server-admin adopt --dry-run` で必要な変更を確認し、`pyoco-server-admin adopt` で"
        "変更してください。変更できないストリームは、設定で別の名前を指定するか、削除してください。",
    )


class EventNotProcessed(NatsUnavailable):
    """An unexpected error with a workflow event, which may be repeated."""

    error = replace(
        Err.NATS_UNAVAILABLE,
        en="The event could not be processed",
        ja="イベントを処理できませんでした",
        cure_en="Send it again later; the log of the gateway has the details.",
        cure_ja="時間をおいて再送してください。詳細はゲートウェイのログを確認してください。",
    )


class NatsCannotWrite(NatsUnavailable):
    """NATS is reachable, but does not store what is published: its disk is full, or a limit is reached."""

    error = Err.NATS_CANNOT_WRITE


class EmbeddedServerError(NatsUnavailable):
    """The bundled NATS server could not be started, or stopped."""


class RunNotFound(PyocoError):
    error = Err.RUN_NOT_FOUND


class ResultNotFound(PyocoError):
    error = Err.RESULT_NOT_FOUND


class FlowNotFound(PyocoError):
    error = Err.FLOW_NOT_FOUND


class WorkflowTooLarge(PyocoError):
    error = Err.WORKFLOW_TOO_LARGE


class InvalidListQuery(PyocoError):
    error = Err.INVALID_LIST_QUERY


class InvalidWorkersRequest(PyocoError):
    error = Err.INVALID_WORKERS_REQUEST


class WorkerNotFound(PyocoError):
    error = Err.WORKER_NOT_FOUND


class WheelVersionRejected(PyocoError):
    error = Err.WHEEL_VERSION_REJECTED


class WheelNotFound(PyocoError):
    error = Err.WHEEL_NOT_FOUND


class ArtifactNotFound(PyocoError):
    error = Err.ARTIFACT_NOT_FOUND


class RunConflict(PyocoError):
    error = Err.RUN_CONFLICT


class IdempotencyConflict(PyocoError):
    error = Err.IDEMPOTENCY_CONFLICT


class DeadLetterNotFound(PyocoError):
    error = Err.DEAD_LETTER_NOT_FOUND


class NotReplayable(PyocoError):
    error = Err.NOT_REPLAYABLE


class BulkNotFound(PyocoError):
    error = Err.BULK_NOT_FOUND


class BulkRefused(PyocoError):
    error = Err.BULK_REFUSED


class IndexNotReady(PyocoError):
    error = Err.INDEX_NOT_READY


class ApiKeyMissing(PyocoError):
    error = Err.API_KEY_MISSING


class ApiKeyInvalid(PyocoError):
    error = Err.API_KEY_INVALID


class ApiKeysBusy(PyocoError):
    error = Err.API_KEYS_BUSY


class ScopeMissing(PyocoError):
    error = Err.SCOPE_MISSING


class OriginRefused(PyocoError):
    error = Err.ORIGIN_REFUSED


class RateLimited(PyocoError):
    error = Err.RATE_LIMITED


class WaitNotFound(PyocoError):
    error = Err.WAIT_NOT_FOUND
    word = "not_found"


class WaitConflict(PyocoError):
    """The answer is not accepted: `word` is `invalid_state`, `already_decided`, `already_voted` or
    `ambiguous_wait`.
    """

    error = Err.WAIT_CONFLICT

    def __init__(self, word: str, detail: str) -> None:
        super().__init__(detail)
        self.word = word


class AmbiguousWait(WaitConflict):
    error = replace(
        Err.WAIT_CONFLICT,
        en="The run waits for several answers",
        ja="この run には回答待ちの質問が複数あります",
        cure_en="Answer one of them by its id: POST /waits/{wait_id}/respond.",
        cure_ja="wait_id を指定して回答してください（POST /waits/{wait_id}/respond）。",
    )

    def __init__(self, detail: str = "") -> None:
        super().__init__("ambiguous_wait", detail)


class WaitExpired(PyocoError):
    error = Err.WAIT_EXPIRED
    word = "expired"


class WaitExpiredForGood(WaitExpired):
    """A `retry` of its run would not ask again."""

    error = replace(
        Err.WAIT_EXPIRED,
        cure_en="It cannot be asked again; GET /runs/{run_id} shows how the run went on.",
        cure_ja="もう一度質問することはできません。run のその後は GET /runs/{run_id} で確認できます。",
    )


class ProposalChanged(PyocoError):
    error = Err.PROPOSAL_CHANGED
    word = "proposal_changed"


class InvalidAnswer(PyocoError):
    error = Err.ANSWER_INVALID
    word = "invalid_answer"


class NotAssigned(PyocoError):
    error = Err.NOT_ASSIGNED
    word = "not_assigned"


class SelfApproval(NotAssigned):
    """The submitter of a run answers a question that somebody else has to answer."""

    word = "self_approval"


class UploadsBusy(PyocoError):
    error = Err.UPLOADS_BUSY


class AnswersBusy(PyocoError):
    error = Err.ANSWERS_BUSY
    word = "busy"


class UnverifiedRun(PyocoError):
    error = Err.UNVERIFIED_RUN


class UnreadableRecord(PyocoError):
    """A stored record exists and cannot be read."""

    error = Err.RECORD_UNREADABLE

    def __init__(self, detail: str = "", *, owner: str | None = None) -> None:
        super().__init__(detail)
        # Its tenant, if that much can be read.
        self.owner = owner


class ScheduleNotFound(PyocoError):
    error = Err.SCHEDULE_NOT_FOUND


class ScheduleConflict(PyocoError):
    error = Err.SCHEDULE_CONFLICT


class ScheduleBusy(ScheduleConflict):
    error = Err.SCHEDULE_BUSY


class ScheduleFull(ScheduleBusy):
    error = Err.SCHEDULE_FULL


class BackfillNotFound(PyocoError):
    error = Err.BACKFILL_NOT_FOUND


class MailboxFull(PyocoError):
    error = Err.MAILBOX_FULL


class EventTokenInvalid(PyocoError):
    error = Err.EVENT_TOKEN_INVALID
    exact_detail = True


class TemplateNotFound(PyocoError):
    error = Err.TEMPLATE_NOT_FOUND
    exact_detail = True


class TemplateConflict(PyocoError):
    error = Err.TEMPLATE_CONFLICT
    exact_detail = True


class ActionNotExecutable(PyocoError):
    error = Err.ACTION_NOT_EXECUTABLE
    exact_detail = True


class EventInvalid(PyocoError):
    error = Err.EVENT_INVALID
    exact_detail = True


class TemplateBusy(PyocoError):
    error = Err.TEMPLATE_BUSY
    exact_detail = True


class HookNotFound(PyocoError):
    error = Err.HOOK_NOT_FOUND


class HookConflict(PyocoError):
    error = Err.HOOK_CONFLICT


class HookRefused(PyocoError):
    error = Err.HOOK_REFUSED


class HookBusy(PyocoError):
    error = Err.HOOK_BUSY


class NoSecretsKey(PyocoError):
    error = Err.NO_SECRETS_KEY


class SecretUnreadable(PyocoError):
    error = Err.SECRET_UNREADABLE


class DeliveryNotFound(PyocoError):
    error = Err.DELIVERY_NOT_FOUND


class NotRedeliverable(PyocoError):
    error = Err.NOT_REDELIVERABLE


class ChatWebhookInvalid(PyocoError):
    error = Err.CHAT_WEBHOOK_INVALID
    exact_detail = True


class ActionNotFound(PyocoError):
    error = Err.ACTION_NOT_FOUND


class ViewNotFound(PyocoError):
    error = Err.VIEW_NOT_FOUND


class ViewConflict(PyocoError):
    error = Err.VIEW_CONFLICT


class AlertNotFound(PyocoError):
    error = Err.ALERT_NOT_FOUND


class AlertConflict(PyocoError):
    error = Err.ALERT_CONFLICT


class InvalidCliArgument(PyocoError):
    error = Err.INVALID_CLI_ARGUMENT


class ConfigError(InvalidCliArgument):
    """One or more settings have invalid values; all of them are reported at once."""
