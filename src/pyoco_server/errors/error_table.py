"""The table of errors: each with its ids, its texts and its cure, in English and Japanese."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

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
        cure_ja="示された項目を修正してください。待ちは開いたままです（schema: GET /waits/{wait_id}）。",
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
    ANSWERS_BUSY: Final = ErrorSpec(
        number=43,
        status=503,
        en="Too many answers are being checked",
        ja="検証中の回答が多すぎます",
        cure_en="Wait as long as Retry-After says, and send it again; a simpler schema is checked sooner.",
        cure_ja="Retry-After の秒数だけ待って再送してください。schemaを簡単にすると検証が速くなります。",
    )


ERRORS: Final[tuple[ErrorSpec, ...]] = tuple(
    sorted((spec for spec in vars(Err).values() if isinstance(spec, ErrorSpec)), key=lambda spec: spec.number)
)
