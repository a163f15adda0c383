"""Every error the product can report, once: its ids, its texts, its cure, and the exception that carries it.

    PyocoError
    ├── InvalidRequest          ERR-PYOCO-0002   422
    │   └── WheelTooLarge                        413
    ├── NatsUnavailable         ERR-PYOCO-0003   503
    │   ├── NatsForbidden
    │   └── EmbeddedServerError
    ├── RunNotFound             ERR-PYOCO-0005   404
    ├── FlowNotFound            ERR-PYOCO-0006
    ├── WorkflowTooLarge        ERR-PYOCO-0016   413
    ├── InvalidListQuery        ERR-PYOCO-0017   422
    ├── InvalidWorkersRequest   ERR-PYOCO-0019   422
    ├── WorkerNotFound          ERR-PYOCO-0020   404
    ├── WheelVersionRejected    ERR-PYOCO-0022   409
    ├── WheelNotFound           ERR-PYOCO-0023   404
    ├── RunConflict             ERR-PYOCO-0025   409
    ├── IdempotencyConflict     ERR-PYOCO-0026   409
    ├── DeadLetterNotFound      ERR-PYOCO-0027   404
    ├── NotReplayable           ERR-PYOCO-0028   409
    ├── BulkNotFound            ERR-PYOCO-0029   404
    ├── BulkRefused             ERR-PYOCO-0030   409
    ├── IndexNotReady           ERR-PYOCO-0031   503
    ├── ApiKeyMissing           ERR-PYOCO-0014   401
    ├── ApiKeyInvalid           ERR-PYOCO-0015   403
    ├── ScopeMissing            ERR-PYOCO-0032   403
    ├── OriginRefused           ERR-PYOCO-0033   403
    ├── RateLimited             ERR-PYOCO-0034   429
    ├── WaitNotFound            ERR-PYOCO-0035   404
    ├── WaitConflict            ERR-PYOCO-0036   409
    ├── WaitExpired             ERR-PYOCO-0037   410
    ├── ProposalChanged         ERR-PYOCO-0038   412
    ├── InvalidAnswer           ERR-PYOCO-0039   422
    ├── NotAssigned             ERR-PYOCO-0040   403
    ├── UploadsBusy             ERR-PYOCO-0042   503
    └── InvalidCliArgument      ERR-PYOCO-0018
        └── ConfigError

Errors without an exception here are reported where they happen, as a log line or an HTTP answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

Lang = Literal["en", "ja"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSpec:
    """One row of the error table. Texts carry no full stop, so that a detail can follow them."""

    number: int
    status: int | None = None  # the HTTP status; None where the error is never an HTTP answer
    en: str
    ja: str  # word for word the text of the contract
    cure_en: str
    cure_ja: str

    @property
    def err_id(self) -> str:
        return f"ERR-PYOCO-{self.number:04d}"

    @property
    def msg_id(self) -> str:
        return f"MSG-PYOCO-{self.number:04d}"

    def text(self, lang: Lang = "en") -> str:
        return self.ja if lang == "ja" else self.en

    def cure(self, lang: Lang = "en") -> str:
        return self.cure_ja if lang == "ja" else self.cure_en

    def log_fields(self, **context: object) -> dict[str, object]:
        """The ids and the given context, for the `extra=` of a log call."""
        return {"err_id": self.err_id, "msg_id": self.msg_id, **context}


class Err:
    """The table: one name per error id."""

    GATEWAY_UNREACHABLE: Final = ErrorSpec(
        number=1,
        en="The gateway cannot be reached",
        ja="稼働確認に失敗しました",
        cure_en="Start the gateway with `pyoco-server up`, and check its address and the network.",
        cure_ja="Gatewayの起動と疎通を確認してください。",
    )
    INVALID_REQUEST: Final = ErrorSpec(
        number=2,
        status=422,
        en="The request is not valid",
        ja="リクエストが不正です",
        cure_en="Correct the fields named in `errors` and send the request again.",
        cure_ja="`errors` に示された入力を修正して再送してください。",
    )
    NATS_UNAVAILABLE: Final = ErrorSpec(
        number=3,
        status=503,
        en="NATS is not available",
        ja="NATSが利用できません",
        cure_en="Check that NATS is running at PYOCO_NATS_URL, then try again.",
        cure_ja="NATSの復旧後に再試行してください（接続先は PYOCO_NATS_URL で確認できます）。",
    )
    ORPHAN_RUN: Final = ErrorSpec(
        number=4,
        en="A run may be left behind that no worker will execute (clean-up failed, best effort)",
        ja="孤児runが残っている可能性があります（best-effort cleanup失敗）",
        cure_en="Look up the run_id of the log line, and delete the run if it was not queued.",
        cure_ja="運用で該当run_idを確認し、必要なら削除してください。",
    )
    RUN_NOT_FOUND: Final = ErrorSpec(
        number=5,
        status=404,
        en="The run was not found",
        ja="runが見つかりません",
        cure_en="Check the run_id.",
        cure_ja="run_id を確認してください。",
    )
    FLOW_NOT_FOUND: Final = ErrorSpec(
        number=6,
        en="The flow was not found",
        ja="flowが見つかりません",
        cure_en="Check the flow_name, and that the workers of this tag have the flow.",
        cure_ja="flow_name と、workerへのflowの配置を確認してください。",
    )
    EXECUTION_FAILED: Final = ErrorSpec(
        number=7,
        en="The run failed while it was executed",
        ja="実行に失敗しました",
        cure_en="Check the params, the flow's code and its dependencies, then submit a new run.",
        cure_ja="入力・コード・依存を確認し、再投入してください。",
    )
    TERMINAL_WRITE_FAILED: Final = ErrorSpec(
        number=8,
        en="The final state of the run could not be recorded",
        ja="terminal状態の記録に失敗しました",
        cure_en="Nothing to do once NATS is back: the run is delivered again.",
        cure_ja="NATS復旧後に再試行されます（NAKで再配送）。NATSの状態を確認してください。",
    )
    PROGRESS_ACK_FAILED: Final = ErrorSpec(
        number=9,
        en="The in_progress ack could not be sent",
        ja="in_progress ACK の送信に失敗しました",
        cure_en="Check the connection to NATS; the ack is sent again while the run goes on.",
        cure_ja="NATS復旧後に再試行されます。NATSへの接続を確認してください。",
    )
    SNAPSHOT_TOO_LARGE: Final = ErrorSpec(
        number=10,
        en="The run's snapshot is too large",
        ja="スナップショットが大きすぎます",
        cure_en="Raise PYOCO_MAX_RUN_SNAPSHOT_BYTES, or make the run's params and task list smaller.",
        cure_ja="上限設定（PYOCO_MAX_RUN_SNAPSHOT_BYTES）を見直してください。",
    )
    DLQ_PUBLISH_FAILED: Final = ErrorSpec(
        number=11,
        en="The dead letter could not be published (best effort)",
        ja="DLQへのpublishに失敗しました（best-effort）",
        cure_en="Look at the run's snapshot for the cause of the failure.",
        cure_ja="まずrunスナップショットで原因を確認してください。",
    )
    INVALID_JOB: Final = ErrorSpec(
        number=12,
        en="A job on the queue is not valid",
        ja="不正なジョブを受信しました",
        cure_en="Check what publishes to this subject: only the gateway should.",
        cure_ja="producer・subject・実装を確認してください。",
    )
    LOGGING_FAILED: Final = ErrorSpec(
        number=13,
        en="Log output failed (best effort)",
        ja="ログ出力に失敗しました（best-effort）",
        cure_en="Check the PYOCO_LOG_* settings and where the standard output goes.",
        cure_ja="ログ設定（PYOCO_LOG_*）と実行環境を確認してください。",
    )
    API_KEY_MISSING: Final = ErrorSpec(
        number=14,
        status=401,
        en="An API key is needed",
        ja="API key が必要です",
        cure_en="Send your API key in the X-API-Key header and try again.",
        cure_ja="API key を付与して再試行してください。",
    )
    API_KEY_INVALID: Final = ErrorSpec(
        number=15,
        status=403,
        en="The API key is not valid",
        ja="API key が無効です",
        cure_en="Check the API key, or ask for a new one, and try again.",
        cure_ja="API key を確認または再発行して再試行してください。",
    )
    WORKFLOW_TOO_LARGE: Final = ErrorSpec(
        number=16,
        status=413,
        en="The workflow file is too large",
        ja="ワークフローファイルが大きすぎます",
        cure_en="Make the file smaller, or raise PYOCO_WORKFLOW_YAML_MAX_BYTES.",
        cure_ja="ファイルサイズを削減するか、上限設定（PYOCO_WORKFLOW_YAML_MAX_BYTES）を見直してください。",
    )
    INVALID_LIST_QUERY: Final = ErrorSpec(
        number=17,
        status=422,
        en="The list query is not valid",
        ja="一覧クエリが不正です",
        cure_en="Correct the query parameters named in `errors` and try again.",
        cure_ja="クエリを修正して再試行してください。",
    )
    INVALID_CLI_ARGUMENT: Final = ErrorSpec(
        number=18,
        en="A command-line argument or setting is not valid",
        ja="CLI引数が不正です（入力形式を確認してください）",
        cure_en="Correct the input as the message says; `--help` shows an example for each command.",
        cure_ja="helpとエラーメッセージに従って入力を修正し、再実行してください。",
    )
    INVALID_WORKERS_REQUEST: Final = ErrorSpec(
        number=19,
        status=422,
        en="The workers request is not valid",
        ja="workersリクエストが不正です",
        cure_en="Correct the fields named in `errors` and try again.",
        cure_ja="入力を修正して再試行してください。",
    )
    WORKER_NOT_FOUND: Final = ErrorSpec(
        number=20,
        status=404,
        en="The worker was not found",
        ja="workerが見つかりません",
        cure_en="Check the worker_id and try again.",
        cure_ja="worker_id を確認して再試行してください。",
    )
    CANCEL_TIMED_OUT: Final = ErrorSpec(
        number=21,
        en="The cancel request timed out (best effort)",
        ja="cancel要求がタイムアウトしました（best-effort）",
        cure_en="Check the worker and whether the task can stop; cancel again, or stop the worker.",
        cure_ja="worker状態とタスク実装を確認し、必要なら再取消または運用停止を実施してください。",
    )
    WHEEL_VERSION_REJECTED: Final = ErrorSpec(
        number=22,
        status=409,
        en="The wheel's version is not newer than the registered one",
        ja="wheelバージョンが不正です（同一/過去バージョンは不可）",
        cure_en="Raise the wheel's version and upload it again.",
        cure_ja="wheelバージョンを上げて再試行してください。",
    )
    WHEEL_NOT_FOUND: Final = ErrorSpec(
        number=23,
        status=404,
        en="The wheel was not found",
        ja="wheelが見つかりません",
        cure_en="Check the wheel's name and try again.",
        cure_ja="wheel名を確認して再試行してください。",
    )
    WHEEL_SYNC_FAILED: Final = ErrorSpec(
        number=24,
        en="The wheels could not be synchronised (best effort)",
        ja="wheel同期に失敗しました（best-effort）",
        cure_en="Check dependencies, permissions and network; the next synchronisation tries again.",
        cure_ja="依存関係・権限・ネットワークを確認してください。次回同期で再試行されます。",
    )
    RUN_CONFLICT: Final = ErrorSpec(
        number=25,
        status=409,
        en="The state of the run does not allow this",
        ja="runの状態ではこの操作を実行できません",
        cure_en="Look at the run with GET /runs/{run_id}, and do what the message says first.",
        cure_ja="GET /runs/{run_id} でrunの状態を確認し、メッセージに従ってください。",
    )
    IDEMPOTENCY_CONFLICT: Final = ErrorSpec(
        number=26,
        status=409,
        en="The Idempotency-Key belongs to another request",
        ja="Idempotency-Key は別のリクエストで使用済みです",
        cure_en="Use a new key for a new request; repeat a request with the very same payload.",
        cure_ja="新しいリクエストには新しいkeyを使い、再送では同じ内容を送ってください。",
    )
    DEAD_LETTER_NOT_FOUND: Final = ErrorSpec(
        number=27,
        status=404,
        en="The dead letter was not found",
        ja="DLQメッセージが見つかりません",
        cure_en="Look at GET /dlq for those there are: old ones are removed, others may be deleted.",
        cure_ja="GET /dlq で確認してください（古いものは自動で削除されます）。",
    )
    NOT_REPLAYABLE: Final = ErrorSpec(
        number=28,
        status=409,
        en="The dead letter cannot be replayed",
        ja="DLQメッセージを再実行できません",
        cure_en="Submit the work as a new run, or delete the dead letter.",
        cure_ja="新しいrunとして投入し直すか、DLQメッセージを削除してください。",
    )
    BULK_NOT_FOUND: Final = ErrorSpec(
        number=29,
        status=404,
        en="The bulk operation was not found",
        ja="一括操作が見つかりません",
        cure_en="Look at GET /bulk for those there are: they are kept for PYOCO_BULK_TTL_SEC.",
        cure_ja="GET /bulk で確認してください（PYOCO_BULK_TTL_SEC の間保存されます）。",
    )
    BULK_REFUSED: Final = ErrorSpec(
        number=30,
        status=409,
        en="The bulk operation was refused, nothing was done",
        ja="一括操作を拒否しました（何も変更していません）",
        cure_en="Make a dry run again, look at what matches, and send its token.",
        cure_ja="dry_run をやり直し、対象を確認してから、その token を送ってください。",
    )
    INDEX_NOT_READY: Final = ErrorSpec(
        number=31,
        status=503,
        en="The index of runs is being built",
        ja="run一覧のindexを構築中です",
        cure_en="Try again in a moment; GET /health tells how far it is.",
        cure_ja="しばらくしてから再試行してください（進み具合は GET /health で確認できます）。",
    )
    SCOPE_MISSING: Final = ErrorSpec(
        number=32,
        status=403,
        en="The API key is not for this",
        ja="この API key では実行できません",
        cure_en="Use a key that has the scope, or ask for one.",
        cure_ja="必要な scope を持つ API key を使うか、発行を依頼してください。",
    )
    ORIGIN_REFUSED: Final = ErrorSpec(
        number=33,
        status=403,
        en="The request comes from a site that this gateway does not trust",
        ja="許可されていないホストまたはサイトからのリクエストです",
        cure_en="If the name is one of this gateway's own, add it to PYOCO_HTTP_ALLOWED_HOSTS.",
        cure_ja="このGateway自身の名前であれば、PYOCO_HTTP_ALLOWED_HOSTS に追加してください。",
    )
    RATE_LIMITED: Final = ErrorSpec(
        number=34,
        status=429,
        en="Too many requests",
        ja="リクエストが多すぎます",
        cure_en="Wait as long as Retry-After says; the limit is PYOCO_HTTP_RATE_LIMIT.",
        cure_ja="Retry-After の秒数だけ待って再試行してください（上限は PYOCO_HTTP_RATE_LIMIT）。",
    )
    WAIT_NOT_FOUND: Final = ErrorSpec(
        number=35,
        status=404,
        en="Wait not found",
        ja="待ちが見つかりません",
        cure_en="Check the wait_id; GET /waits lists what waits for an answer.",
        cure_ja="wait_id を確認してください。回答待ちの一覧は GET /waits で確認できます。",
    )
    WAIT_CONFLICT: Final = ErrorSpec(
        number=36,
        status=409,
        en="There is nothing to answer here",
        ja="回答できる状態ではありません",
        cure_en="Look at the run or the wait: it says what became of it.",
        cure_ja="run または wait の現在の状態を確認してください。",
    )
    WAIT_EXPIRED: Final = ErrorSpec(
        number=37,
        status=410,
        en="The wait has expired",
        ja="回答期限が過ぎています",
        cure_en="POST /runs/{run_id}/retry asks again.",
        cure_ja="POST /runs/{run_id}/retry で再度質問できます。",
    )
    PROPOSAL_CHANGED: Final = ErrorSpec(
        number=38,
        status=412,
        en="This is not the proposal that was shown",
        ja="表示された提案と一致しません",
        cure_en="Read the wait again, and send the proposal_digest of what you approve.",
        cure_ja="wait を読み直し、承認する提案の proposal_digest を送ってください。",
    )
    ANSWER_INVALID: Final = ErrorSpec(
        number=39,
        status=422,
        en="The answer is not what was asked for",
        ja="回答の形式が正しくありません",
        cure_en="Mend the named fields; the wait stays open. Its schema is in GET /waits/{wait_id}.",
        cure_ja="示された項目を修正してください（待ちは開いたままです）。schema は GET /waits/{wait_id} にあります。",
    )
    NOT_ASSIGNED: Final = ErrorSpec(
        number=40,
        status=403,
        en="Somebody else is to answer this",
        ja="この待ちの回答者ではありません",
        cure_en="Use the API key of one of its assignees.",
        cure_ja="assignees に含まれる API キーを使ってください。",
    )
    NOTIFICATION_FAILED: Final = ErrorSpec(
        number=41,
        en="A notification could not be delivered",
        ja="通知を配信できませんでした",
        cure_en="Look whether PYOCO_NOTIFY_URL takes POST requests and answers with 2xx.",
        cure_ja="PYOCO_NOTIFY_URL が POST を受け付け、2xx を返すか確認してください。",
    )
    UPLOADS_BUSY: Final = ErrorSpec(
        number=42,
        status=503,
        en="Too many wheels are being uploaded",
        ja="アップロード中のwheelが多すぎます",
        cure_en="Wait as long as Retry-After says, and upload it again.",
        cure_ja="Retry-After の秒数だけ待って再試行してください。",
    )


ERRORS: Final[tuple[ErrorSpec, ...]] = tuple(
    sorted((spec for spec in vars(Err).values() if isinstance(spec, ErrorSpec)), key=lambda spec: spec.number)
)


def shortened(value: object, limit: int = 80) -> str:
    """The value's repr, cut to `limit` characters: enough to recognise it in an error message."""
    shown = repr(value)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field of an input, and where."""

    field: str  # a dotted path, such as `params.x` or `tasks.load.callable`; empty: the input as a whole
    message: str
    value: str | None = None  # a shortened repr; never given for a secret
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
    # What `error` of the answer says to programs, where spec 4 has a word for it.
    word: str | None = None

    def __init__(self, detail: str = "", *, problems: Sequence[FieldProblem] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problems = tuple(problems)
        # What an HTTP answer says beside it.
        self.headers: dict[str, str] = {}

    def sentence(self, lang: Lang = "en") -> str:
        """The error's text, followed by the detail, or by the problems when there is no detail."""
        detail = self.detail or "; ".join(map(str, self.problems))
        return f"{self.error.text(lang)}: {detail}" if detail else self.error.text(lang)

    def __str__(self) -> str:
        return self.sentence()


class InvalidRequest(PyocoError):
    error = Err.INVALID_REQUEST


class WheelTooLarge(InvalidRequest):
    """An invalid request whose status says that size is what is wrong with it."""

    error = replace(Err.INVALID_REQUEST, status=413)


class NatsUnavailable(PyocoError):
    error = Err.NATS_UNAVAILABLE


class NatsForbidden(NatsUnavailable):
    """NATS is there, but its user in our settings may not do this: waiting does not help."""

    error = replace(
        Err.NATS_UNAVAILABLE,
        en="NATS does not allow this",
        ja="NATSの権限がありません",
        cure_en="Check the user of NATS in the settings (PYOCO_NATS_*), and its permissions: "
        "`pyoco-server-admin nats-config` prints those that each part needs.",
        cure_ja="NATSのユーザー設定（PYOCO_NATS_*）と権限を確認してください"
        "（必要な権限は `pyoco-server-admin nats-config` で確認できます）。",
    )


class EmbeddedServerError(NatsUnavailable):
    """The NATS server that this product starts itself could not be started, or ended."""


class RunNotFound(PyocoError):
    error = Err.RUN_NOT_FOUND


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
    """No answer is taken: the word says why (`invalid_state`, `already_decided`, `ambiguous_wait`)."""

    error = Err.WAIT_CONFLICT

    def __init__(self, word: str, detail: str) -> None:
        super().__init__(detail)
        self.word = word


class WaitExpired(PyocoError):
    error = Err.WAIT_EXPIRED
    word = "expired"


class ProposalChanged(PyocoError):
    error = Err.PROPOSAL_CHANGED
    word = "proposal_changed"


class InvalidAnswer(PyocoError):
    error = Err.ANSWER_INVALID
    word = "invalid_answer"


class NotAssigned(PyocoError):
    error = Err.NOT_ASSIGNED
    word = "not_assigned"


class UploadsBusy(PyocoError):
    error = Err.UPLOADS_BUSY


class InvalidCliArgument(PyocoError):
    error = Err.INVALID_CLI_ARGUMENT


class ConfigError(InvalidCliArgument):
    """A setting has a value that cannot be used; every bad one is named at once."""
