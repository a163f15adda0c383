"""The table of errors, with their texts and cures in English and Japanese."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Lang = Literal["en", "ja"]


def system_language(environ: Mapping[str, str] = os.environ) -> Lang:
    """The language of the locale variables."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if locale := environ.get(name):
            return "ja" if locale.lower().startswith("ja") else "en"
    return "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSpec:
    """One row of the error table. Texts carry no full stop, so that a detail can follow them."""

    number: int
    status: int | None = None  # HTTP status; None if the error is never an HTTP response
    en: str
    ja: str  # for 1 to 24 fixed by the contract
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
    GATEWAY_UNREACHABLE: Final = ErrorSpec(
        number=1,
        en="The gateway cannot be reached",
        ja="稼働確認に失敗しました",
        cure_en="Start the gateway with `pyoco-server up`, and check its address and the network.",
        cure_ja="`pyoco-server up` でゲートウェイを起動し、アドレスとネットワークを確認してください。",
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
        cure_ja="PYOCO_NATS_URL の NATS が動いていることを確認してから再試行してください。",
    )
    ORPHAN_RUN: Final = ErrorSpec(
        number=4,
        en="A run may be left behind that no worker will execute (best-effort clean-up failed)",
        ja="孤児runが残っている可能性があります（best-effort cleanup失敗）",
        cure_en="Look up the run_id of the log line with GET /runs/{run_id}. If the run exists and must not "
        "be executed, cancel it with POST /runs/{run_id}/cancel.",
        cure_ja="ログの run_id を GET /runs/{run_id} で確認してください。run が残っていて実行したくない"
        "場合は、POST /runs/{run_id}/cancel でキャンセルしてください。",
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
        status=404,
        en="The flow was not found",
        ja="flowが見つかりません",
        cure_en="Check the flow_name, and that the workers of this tag have the flow.",
        cure_ja="flow_name と、このタグのワーカーにフローがあることを確認してください。",
    )
    EXECUTION_FAILED: Final = ErrorSpec(
        number=7,
        en="The run failed during execution",
        ja="実行に失敗しました",
        cure_en="Check the params, the flow's code and its dependencies, then submit a new run.",
        cure_ja="パラメーター・フローのコード・依存パッケージを確認し、新しい run を投入してください。",
    )
    TERMINAL_WRITE_FAILED: Final = ErrorSpec(
        number=8,
        en="The final state of the run could not be recorded",
        ja="terminal状態の記録に失敗しました",
        cure_en="Check NATS; once it is back, the run is delivered again automatically.",
        cure_ja="NATS の復旧後に自動で再配信されます。NATS の状態を確認してください。",
    )
    PROGRESS_ACK_FAILED: Final = ErrorSpec(
        number=9,
        en="The in_progress ack could not be sent",
        ja="in_progress ACK の送信に失敗しました",
        cure_en="Check the connection to NATS; the ack is sent again while the run is executed.",
        cure_ja="NATS への接続を確認してください。ACK は run の実行中に自動で再送されます。",
    )
    SNAPSHOT_TOO_LARGE: Final = ErrorSpec(
        number=10,
        en="The run's snapshot is too large",
        ja="スナップショットが大きすぎます",
        cure_en="Raise PYOCO_MAX_RUN_SNAPSHOT_BYTES, or make the run's params and task list smaller.",
        cure_ja="PYOCO_MAX_RUN_SNAPSHOT_BYTES を上げるか、"
        "run のパラメーターとタスク一覧を小さくしてください。",
    )
    DLQ_PUBLISH_FAILED: Final = ErrorSpec(
        number=11,
        en="The dead letter could not be published (best effort)",
        ja="DLQへのpublishに失敗しました（best-effort）",
        cure_en="Check the run's snapshot for the cause of the failure.",
        cure_ja="run のスナップショットで失敗の原因を確認してください。",
    )
    INVALID_JOB: Final = ErrorSpec(
        number=12,
        en="A job on the queue is not valid",
        ja="不正なジョブを受信しました",
        cure_en="Check what publishes to this subject: only the gateway should.",
        cure_ja="この subject に送信しているプログラムを確認してください"
        "（送信するのはゲートウェイだけです）。",
    )
    LOGGING_FAILED: Final = ErrorSpec(
        number=13,
        en="Log output failed (best effort)",
        ja="ログ出力に失敗しました（best-effort）",
        cure_en="Check the PYOCO_LOG_* settings and where the standard output goes.",
        cure_ja="ログ設定（PYOCO_LOG_*）と標準出力の出力先を確認してください。",
    )
    API_KEY_MISSING: Final = ErrorSpec(
        number=14,
        status=401,
        en="An API key is required",
        ja="API key が必要です",
        cure_en="Send your API key in the X-API-Key header and try again.",
        cure_ja="X-API-Key ヘッダーに API キーを指定して再試行してください。",
    )
    API_KEY_INVALID: Final = ErrorSpec(
        number=15,
        status=403,
        en="The API key is not valid",
        ja="API key が無効です",
        cure_en="Check the API key, or ask for a new one, and try again.",
        cure_ja="API キーを確認するか、新しいキーの発行を依頼して再試行してください。",
    )
    WORKFLOW_TOO_LARGE: Final = ErrorSpec(
        number=16,
        status=413,
        en="The workflow file is too large",
        ja="ワークフローファイルが大きすぎます",
        cure_en="Make the file smaller, or raise PYOCO_WORKFLOW_YAML_MAX_BYTES.",
        cure_ja="ファイルを小さくするか、PYOCO_WORKFLOW_YAML_MAX_BYTES を上げてください。",
    )
    INVALID_LIST_QUERY: Final = ErrorSpec(
        number=17,
        status=422,
        en="The list query is not valid",
        ja="一覧クエリが不正です",
        cure_en="Correct the query parameters named in `errors` and try again.",
        cure_ja="`errors` に示されたクエリパラメーターを修正して再試行してください。",
    )
    INVALID_CLI_ARGUMENT: Final = ErrorSpec(
        number=18,
        en="A command-line argument or setting is not valid",
        ja="CLI引数が不正です（入力形式を確認してください）",
        cure_en="Correct the input as the message says; `--help` shows an example for each command.",
        cure_ja="メッセージに従って入力を修正してください（`--help` に各コマンドの例があります）。",
    )
    INVALID_WORKERS_REQUEST: Final = ErrorSpec(
        number=19,
        status=422,
        en="The workers request is not valid",
        ja="workersリクエストが不正です",
        cure_en="Correct the fields named in `errors` and try again.",
        cure_ja="`errors` に示された項目を修正して再試行してください。",
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
        cure_ja="ワーカーの状態と、タスクを途中で停止できるかを確認してください。"
        "そのうえで、もう一度キャンセルするか、ワーカーを停止してください。",
    )
    WHEEL_VERSION_REJECTED: Final = ErrorSpec(
        number=22,
        status=409,
        en="The wheel's version is not newer than the registered one",
        ja="wheelバージョンが不正です（同一/過去バージョンは不可）",
        cure_en="Raise the wheel's version and upload it again.",
        cure_ja="wheel のバージョンを上げて、もう一度アップロードしてください。",
    )
    WHEEL_NOT_FOUND: Final = ErrorSpec(
        number=23,
        status=404,
        en="The wheel was not found",
        ja="wheelが見つかりません",
        cure_en="Check the wheel's name and try again.",
        cure_ja="wheel 名を確認して再試行してください。",
    )
    WHEEL_SYNC_FAILED: Final = ErrorSpec(
        number=24,
        en="The wheels could not be synchronised (best effort)",
        ja="wheel同期に失敗しました（best-effort）",
        cure_en="Check dependencies, permissions and network; the next synchronisation tries again.",
        cure_ja="依存関係・権限・ネットワークを確認してください。次回の同期で自動的に再試行されます。",
    )
    RUN_CONFLICT: Final = ErrorSpec(
        number=25,
        status=409,
        en="The run's current state does not allow this",
        ja="現在の run の状態ではこの操作を実行できません",
        cure_en="Check the run with GET /runs/{run_id}, and follow the message.",
        cure_ja="GET /runs/{run_id} で run の状態を確認し、メッセージに従ってください。",
    )
    IDEMPOTENCY_CONFLICT: Final = ErrorSpec(
        number=26,
        status=409,
        en="The Idempotency-Key belongs to another request",
        ja="Idempotency-Key は別のリクエストで使用済みです",
        cure_en="Use a new key for a new request; resend a request with exactly the same payload.",
        cure_ja="新しいリクエストには新しいキーを使い、再送するときは同じ内容を送ってください。",
    )
    DEAD_LETTER_NOT_FOUND: Final = ErrorSpec(
        number=27,
        status=404,
        en="The dead letter was not found",
        ja="デッドレターが見つかりません",
        cure_en="List the existing ones with GET /dlq; old ones are removed automatically, and others may "
        "have been deleted.",
        cure_ja="GET /dlq で一覧を確認してください（古いものは自動で削除されます）。",
    )
    NOT_REPLAYABLE: Final = ErrorSpec(
        number=28,
        status=409,
        en="The dead letter cannot be replayed",
        ja="このデッドレターは再実行できません",
        cure_en="Submit the work as a new run, or delete the dead letter.",
        cure_ja="新しい run として投入し直すか、デッドレターを削除してください。",
    )
    BULK_NOT_FOUND: Final = ErrorSpec(
        number=29,
        status=404,
        en="The bulk operation was not found",
        ja="一括操作が見つかりません",
        cure_en="List the existing ones with GET /bulk; they are kept for PYOCO_BULK_TTL_SEC.",
        cure_ja="GET /bulk で一覧を確認してください（PYOCO_BULK_TTL_SEC の間だけ保存されます）。",
    )
    BULK_REFUSED: Final = ErrorSpec(
        number=30,
        status=409,
        en="The bulk operation was refused; nothing was done",
        ja="一括操作は拒否されました（何も変更されていません）",
        cure_en="Repeat the dry run, check what matches, and send its token.",
        cure_ja="dry_run をやり直して対象を確認し、返された token を送ってください。",
    )
    INDEX_NOT_READY: Final = ErrorSpec(
        number=31,
        status=503,
        en="The index of runs is being built",
        ja="run 一覧のインデックスを構築中です",
        cure_en="Try again in a moment; GET /health shows the progress.",
        cure_ja="しばらくしてから再試行してください（進捗は GET /health で確認できます）。",
    )
    SCOPE_MISSING: Final = ErrorSpec(
        number=32,
        status=403,
        en="The API key lacks the required scope",
        ja="この API キーには必要な権限がありません",
        cure_en="Use a key that has the required scope, or ask for one: "
        "`pyoco-server-admin api-key create --scopes` creates it.",
        cure_ja="必要な scope を持つ API キーを使うか、発行を依頼してください"
        "（`pyoco-server-admin api-key create --scopes` で作成します）。",
    )
    ORIGIN_REFUSED: Final = ErrorSpec(
        number=33,
        status=403,
        en="The request comes from a site that this gateway does not trust",
        ja="許可されていないホストまたはサイトからのリクエストです",
        cure_en="If the name is one of this gateway's own, add it to PYOCO_HTTP_ALLOWED_HOSTS.",
        cure_ja="このゲートウェイ自身のホスト名であれば、PYOCO_HTTP_ALLOWED_HOSTS に追加してください。",
    )
    RATE_LIMITED: Final = ErrorSpec(
        number=34,
        status=429,
        en="Too many requests",
        ja="リクエストが多すぎます",
        cure_en="Wait for the time in Retry-After; the limit is PYOCO_HTTP_RATE_LIMIT.",
        cure_ja="Retry-After の秒数だけ待って再試行してください（上限は PYOCO_HTTP_RATE_LIMIT）。",
    )
    WAIT_NOT_FOUND: Final = ErrorSpec(
        number=35,
        status=404,
        en="The wait was not found",
        ja="質問が見つかりません",
        cure_en="Check the wait_id; GET /waits lists the open waits.",
        cure_ja="wait_id を確認してください。回答待ちの質問は GET /waits で確認できます。",
    )
    WAIT_CONFLICT: Final = ErrorSpec(
        number=36,
        status=409,
        en="No answer is expected here",
        ja="回答できる質問がありません",
        cure_en="Check the current state of the run or the wait.",
        cure_ja="run または質問（wait）の現在の状態を確認してください。",
    )
    WAIT_EXPIRED: Final = ErrorSpec(
        number=37,
        status=410,
        en="The wait has expired",
        ja="回答期限が過ぎています",
        cure_en="If the run failed with human_timeout, POST /runs/{run_id}/retry asks again.",
        cure_ja="run が human_timeout で失敗した場合は、POST /runs/{run_id}/retry で、もう一度質問できます。",
    )
    PROPOSAL_CHANGED: Final = ErrorSpec(
        number=38,
        status=412,
        en="The proposal has changed since it was shown",
        ja="提案が、表示された内容から変わっています",
        cure_en="Read the wait again, and send the proposal_digest of the proposal that you approve.",
        cure_ja="質問（wait）を取得し直し、承認する提案の proposal_digest を送ってください。",
    )
    ANSWER_INVALID: Final = ErrorSpec(
        number=39,
        status=422,
        en="The answer does not match the schema of the wait",
        ja="回答の形式が正しくありません",
        cure_en="Correct the listed fields; the wait stays open. Its schema is in GET /waits/{wait_id}.",
        cure_ja="示された項目を修正してください。"
        "質問は引き続き回答できます（スキーマ: GET /waits/{wait_id}）。",
    )
    NOT_ASSIGNED: Final = ErrorSpec(
        number=40,
        status=403,
        en="You may not answer this wait",
        ja="この質問には回答できません",
        cure_en="Use the API key of one of its assignees; without self-approval, not that of the submitter.",
        cure_ja="assignees に指定された API キーを使ってください。"
        "自己承認が認められていない場合、run を投入したキーでは回答できません。",
    )
    NOTIFICATION_FAILED: Final = ErrorSpec(
        number=41,
        en="A notification could not be delivered",
        ja="通知を配信できませんでした",
        cure_en="Check that PYOCO_NOTIFY_URL accepts POST requests and answers with 2xx.",
        cure_ja="PYOCO_NOTIFY_URL が POST を受け付け、2xx を返すか確認してください。",
    )
    UPLOADS_BUSY: Final = ErrorSpec(
        number=42,
        status=503,
        en="Too many uploads are in progress",
        ja="受信中のデータが多すぎます",
        cure_en="Wait for the time in Retry-After, then send it again.",
        cure_ja="Retry-After の秒数だけ待って再試行してください。",
    )
    ANSWERS_BUSY: Final = ErrorSpec(
        number=43,
        status=503,
        en="Too many answers are being checked",
        ja="検証中の回答が多すぎます",
        cure_en="Wait for the time in Retry-After, then send it again; a simpler schema is checked faster.",
        cure_ja="Retry-After の秒数だけ待って再送してください。スキーマを簡単にすると検証が速くなります。",
    )
    UNVERIFIED_RUN: Final = ErrorSpec(
        number=44,
        status=409,
        en="The stored run does not match its signature and is not executed again",
        ja="保存されている run が署名と一致しないため、再実行できません",
        cure_en="Submit it again. If no worker of an earlier version is left, find the worker group whose "
        "NATS credentials were used to change the run, and replace them.",
        cure_ja="run を投入し直してください。旧バージョンのワーカーが残っていない場合は、"
        "どのワーカーグループの NATS 認証情報で run が書き換えられたかを調べ、それを変更してください。",
    )
    RECORD_UNREADABLE: Final = ErrorSpec(
        number=45,
        # Not a 5xx: it stays so until an operator removes the record, and a retry does not help.
        status=409,
        en="A stored record cannot be read",
        ja="保存されているレコードを読み取れません",
        cure_en="A retry does not help; ask the operator: `pyoco-server-admin unreadable` lists such records "
        "and removes them.",
        cure_ja="再試行しても解決しません。運用担当者に連絡してください"
        "（`pyoco-server-admin unreadable` で確認・削除できます）。",
    )
    NATS_CANNOT_WRITE: Final = ErrorSpec(
        number=46,
        status=503,
        en="NATS cannot write",
        ja="NATS がデータを書き込めません",
        cure_en="Free disk space and restart the NATS server (the embedded one is restarted automatically); "
        "or, if a storage limit is reached, raise it. No accepted run is lost.",
        cure_ja="ディスク不足の場合は、空き容量を増やして NATS サーバーを再起動してください"
        "（組み込みの NATS は自動的に再起動します）。保存容量の上限に達している場合は、上限を上げてください。"
        "受け付け済みの run は失われません。",
    )
    SCHEDULE_NOT_FOUND: Final = ErrorSpec(
        number=47,
        status=404,
        en="There is no such schedule",
        ja="指定されたスケジュールが見つかりません",
        cure_en="Check its id: GET /schedules lists the existing ones.",
        cure_ja="スケジュールの ID を確認してください（GET /schedules で一覧を取得できます）。",
    )
    SCHEDULE_CONFLICT: Final = ErrorSpec(
        number=48,
        status=409,
        en="The schedule exists already, or was changed meanwhile",
        ja="スケジュールが既に存在するか、ほかの操作で変更されています",
        cure_en="Read it again (GET /schedules/{schedule_id}) and send your change with its revision; for a "
        "new schedule, choose another id.",
        cure_ja="GET /schedules/{schedule_id} で取得し直し、現在の revision を指定して変更してください。"
        "新しく作成する場合は、別の ID を指定してください。",
    )
    SCHEDULE_BUSY: Final = ErrorSpec(
        number=49,
        status=409,
        en="The schedule has a run that has to end first",
        ja="このスケジュールで先に開始した run がまだ終わっていません",
        cure_en="Wait until it has ended; or allow both runs at once (`overlap`: `allow_all`).",
        cure_ja="前の run が終わるまで待つか、`overlap` に `allow_all` を指定して同時に実行してください。",
    )
    MAILBOX_FULL: Final = ErrorSpec(
        number=50,
        status=409,
        en="The run has no room for more signals",
        ja="run が受け取れるシグナルの上限に達しています",
        cure_en="Wait until the run has received some (GET /runs/{run_id}/signals lists them), send smaller "
        "data, or send a reference to large data.",
        cure_ja="run がシグナルを受け取るまで待つか（GET /runs/{run_id}/signals で確認できます）、"
        "データを小さくするか、大きなデータは参照だけを送ってください。",
    )
    CLOCK_DIFFERS: Final = ErrorSpec(
        number=51,
        en="The clocks of the gateway and the NATS server differ",
        ja="ゲートウェイと NATS サーバーの時計がずれています",
        cure_en="Synchronise the clocks of all machines, for example by NTP.",
        cure_ja="すべてのマシンの時計を NTP などで同期してください。",
    )
    BACKFILL_NOT_FOUND: Final = ErrorSpec(
        number=52,
        status=404,
        en="There is no such backfill in progress",
        ja="指定されたバックフィルは実行中ではありません",
        cure_en="It has ended, or was cancelled: GET /schedules/{schedule_id}/backfills lists those in "
        "progress, and the schedule's decisions what became of the others.",
        cure_ja="すでに終了したか、中止されています。実行中のものは GET /schedules/{schedule_id}/backfills、"
        "結果はスケジュールの decisions で確認できます。",
    )
    SCHEDULE_FULL: Final = ErrorSpec(
        number=53,
        status=409,
        en="The schedule has too much in progress",
        ja="このスケジュールで実行中または待機中のものが上限に達しています",
        cure_en="Wait until some of its runs or backfills have ended, or cancel a backfill "
        "(DELETE /schedules/{schedule_id}/backfills/{backfill_id}).",
        cure_ja="run やバックフィルが終わるまで待つか、バックフィルを中止してください"
        "（DELETE /schedules/{schedule_id}/backfills/{backfill_id}）。",
    )
    EVENT_TOKEN_INVALID: Final = ErrorSpec(
        number=54,
        status=401,
        en="The token of workflow events is missing or wrong",
        ja="ワークフローイベントのトークンがないか、正しくありません",
        cure_en="Send the value of AX_WORKFLOW_EVENT_TOKEN as `?token=`, in the header "
        "x-workflow-event-token, or as `Authorization: Bearer`.",
        cure_ja="AX_WORKFLOW_EVENT_TOKEN の値を、クエリ `token`、ヘッダ x-workflow-event-token、"
        "または `Authorization: Bearer` で送ってください。",
    )
    TEMPLATE_NOT_FOUND: Final = ErrorSpec(
        number=55,
        status=404,
        en="There is no such workflow template",
        ja="ワークフローテンプレートが見つかりません",
        cure_en="Check its id or the event name: GET /api/workflow-templates lists the existing ones.",
        cure_ja="テンプレートの ID またはイベント名を確認してください"
        "（GET /api/workflow-templates で一覧を取得できます）。",
    )
    TEMPLATE_CONFLICT: Final = ErrorSpec(
        number=56,
        status=409,
        en="The workflow templates do not allow this",
        ja="ワークフローテンプレートの状態と矛盾しています",
        cure_en="Specify the template_id of an external_event template; for a change, read the template "
        "again and send its `updated_at` as `base_updated_at`, or choose another name.",
        cure_ja="external_event テンプレートの template_id を指定してください。変更する場合は、"
        "テンプレートを取得し直して `updated_at` を `base_updated_at` に指定するか、別の名前にしてください。",
    )
    ACTION_NOT_EXECUTABLE: Final = ErrorSpec(
        number=57,
        status=409,
        en="The action of the template has no flow",
        ja="テンプレートのアクションに対応する flow がありません",
        cure_en="Bind it to a flow: PUT /api/workflow-actions/{key}; or start a worker that has a flow of "
        "this name.",
        cure_ja="PUT /api/workflow-actions/{key} で flow に対応付けるか、"
        "同じ名前の flow を持つワーカーを起動してください。",
    )
    EVENT_INVALID: Final = ErrorSpec(
        number=58,
        status=400,
        en="The month is missing or not valid",
        ja="年月が指定されていないか、正しくありません",
        cure_en="Give a year from 2000 on and a month from 1 to 12, in the event or in its template; of a "
        "summary, `ym` as YYYY-MM.",
        cure_ja="イベントまたはテンプレートに、2000 以降の年と 1〜12 の月を指定してください"
        "（集計では `ym` を YYYY-MM 形式で指定します）。",
    )
    TEMPLATE_BUSY: Final = ErrorSpec(
        number=59,
        status=409,
        en="A run of the template is active",
        ja="このテンプレートの run が実行中です",
        cure_en="Send the event again when the run has ended; an event with an idempotency key is also sent "
        "again by the server.",
        cure_ja="run が終わってからイベントを再送してください"
        "（idempotency_key のあるイベントはサーバーも再送します）。",
    )
    HOOK_NOT_FOUND: Final = ErrorSpec(
        number=60,
        status=404,
        en="There is no such hook",
        ja="指定されたフックが見つかりません",
        cure_en="Check its id: GET /hooks lists the existing ones.",
        cure_ja="フックの ID を確認してください（GET /hooks で一覧を取得できます）。",
    )
    HOOK_CONFLICT: Final = ErrorSpec(
        number=61,
        status=409,
        en="The hook exists already, or was changed meanwhile",
        ja="フックが既に存在するか、ほかの操作で変更されています",
        cure_en="Read it again (GET /hooks/{hook_id}) and send your change with its revision; for a new "
        "hook, choose another id; finish a rotation before the next one.",
        cure_ja="GET /hooks/{hook_id} で取得し直し、現在の revision を指定して変更してください。"
        "新しく作成する場合は別の ID を指定してください。シークレットの更新は、前回の更新を完了してから"
        "行ってください。",
    )
    HOOK_REFUSED: Final = ErrorSpec(
        number=62,
        status=401,
        en="The token or signature of the delivery is missing or wrong, or there is no such hook",
        ja="トークンまたは署名が正しくないか、フックが存在しません",
        cure_en="Check the address and the secret of the sender, and its clock; "
        "`pyoco-client hooks deliveries` shows why it was refused.",
        cure_ja="送信元に設定した URL とシークレット、送信元の時計を確認してください"
        "（拒否の理由は `pyoco-client hooks deliveries` で確認できます）。",
    )
    HOOK_BUSY: Final = ErrorSpec(
        number=63,
        status=409,
        en="The hook has a run that has to end first",
        ja="このフックで先に開始した run がまだ終わっていません",
        cure_en="Send the delivery again when it has ended; or allow both runs at once (`overlap`: `allow`).",
        cure_ja="前の run が終わってから再送するか、`overlap` に `allow` を指定して同時に実行してください。",
    )
    NO_SECRETS_KEY: Final = ErrorSpec(
        number=64,
        status=409,
        en="There is no key to encrypt secrets with",
        ja="シークレットを暗号化する鍵が設定されていません",
        cure_en="If the gateways have a key, set the same PYOCO_SECRETS_KEYS here; the key of a gateway with "
        "an embedded NATS server is the file secrets.key in its data folder: set PYOCO_SECRETS_KEY_FILE to "
        "its path. Only where there is none yet, create one with `pyoco-server-admin secrets create-key`, "
        "set it as PYOCO_SECRETS_KEYS for every gateway, and restart them.",
        cure_ja="ゲートウェイに鍵がある場合は、同じ PYOCO_SECRETS_KEYS をここにも設定してください。"
        "組み込みの NATS サーバーを使うゲートウェイの鍵は、データフォルダーの secrets.key です。"
        "そのパスを PYOCO_SECRETS_KEY_FILE に設定してください。鍵がまだない場合に限り、"
        "`pyoco-server-admin secrets create-key` で作成し、すべてのゲートウェイの PYOCO_SECRETS_KEYS に"
        "設定して再起動してください。",
    )
    SECRET_UNREADABLE: Final = ErrorSpec(
        number=65,
        status=503,
        en="A stored secret cannot be decrypted with the keys of this gateway",
        ja="保存されているシークレットを、このゲートウェイの鍵では復号できません",
        cure_en="Add the key that it was encrypted with to PYOCO_SECRETS_KEYS of every gateway. If that key "
        "is lost, give the hook a new secret at once (`pyoco-client hooks rotate HOOK --keep 0s`).",
        cure_ja="暗号化に使った鍵を、すべてのゲートウェイの PYOCO_SECRETS_KEYS に追加してください。"
        "鍵を失った場合は、フックのシークレットをすぐに入れ替えてください"
        "（`pyoco-client hooks rotate HOOK --keep 0s`）。",
    )
    DELIVERY_NOT_FOUND: Final = ErrorSpec(
        number=66,
        status=404,
        en="There is no such delivery",
        ja="指定された配信が見つかりません",
        cure_en="GET /hooks/{hook_id}/deliveries lists the kept ones; of each hook the newest are kept.",
        cure_ja="GET /hooks/{hook_id}/deliveries で一覧を確認してください"
        "（フックごとに新しいものだけが保存されます）。",
    )
    NOT_REDELIVERABLE: Final = ErrorSpec(
        number=67,
        status=409,
        en="The delivery cannot be processed again",
        ja="この配信は再処理できません",
        cure_en="Have the sender send it again.",
        cure_ja="送信元から再送してください。",
    )
    HOOK_MESSAGE_REFUSED: Final = ErrorSpec(
        number=68,
        en="A message for a hook was refused, and is not delivered again",
        ja="フック宛てのメッセージを拒否しました（再配信されません）",
        cure_en="Correct what publishes to this subject, or the hook, as the message says, and publish it "
        "again.",
        cure_ja="メッセージに従って、送信側のプログラムまたはフックを修正し、もう一度送信してください。",
    )
    CHAT_WEBHOOK_INVALID: Final = ErrorSpec(
        number=69,
        status=400,
        en="The Google Chat webhook is missing or not valid",
        ja="Google Chat の Webhook が設定されていないか、正しくありません",
        cure_en="Copy it from Google Chat: "
        "https://chat.googleapis.com/v1/spaces/.../messages?key=...&token=...",
        cure_ja="Google Chat からコピーした URL を設定してください"
        "（https://chat.googleapis.com/v1/spaces/.../messages?key=...&token=...）。",
    )
    ACTION_NOT_FOUND: Final = ErrorSpec(
        number=70,
        status=404,
        en="There is no such action",
        ja="アクションが見つかりません",
        cure_en="Check its key: GET /api/workflow-actions lists the existing ones.",
        cure_ja="キーを確認してください（GET /api/workflow-actions で一覧を取得できます）。",
    )
    RESULT_NOT_FOUND: Final = ErrorSpec(
        number=71,
        status=404,
        en="There is no such result",
        ja="結果が見つかりません",
        cure_en="Read the run with GET /runs/{run_id}: a result exists when the run is COMPLETED.",
        cure_ja="GET /runs/{run_id} で run の状態を確認してください（結果は COMPLETED の run にあります）。",
    )
    ARTIFACT_NOT_FOUND: Final = ErrorSpec(
        number=72,
        status=404,
        en="The run has no such artifact",
        ja="run にこの名前のアーティファクトはありません",
        cure_en="Check its name: GET /runs/{run_id}/artifacts lists the files of the run, and those that "
        "were left out. A file is stored when the task that has written it ends.",
        cure_ja="名前を確認してください（GET /runs/{run_id}/artifacts で、保存されたファイルと"
        "保存されなかったファイルを確認できます）。ファイルは、それを書き込んだタスクの終了時に保存されます。",
    )
    VIEW_NOT_FOUND: Final = ErrorSpec(
        number=77,
        status=404,
        en="There is no such view",
        ja="ビューが見つかりません",
        cure_en="Check its name: GET /views lists the existing ones.",
        cure_ja="名前を確認してください（GET /views で一覧を取得できます）。",
    )
    VIEW_CONFLICT: Final = ErrorSpec(
        number=78,
        status=409,
        en="The view exists already, or was changed meanwhile",
        ja="ビューが既に存在するか、ほかの操作で変更されています",
        cure_en="Read it again (GET /views/{name}) and send your change with its revision; for a new view, "
        "choose another name.",
        cure_ja="GET /views/{name} で取得し直し、現在の revision を指定して変更してください。"
        "新しく作成する場合は、別の名前を指定してください。",
    )
    API_KEYS_BUSY: Final = ErrorSpec(
        number=79,
        status=503,
        en="Too many API keys are being checked",
        ja="確認中の API キーが多すぎます",
        cure_en="Wait for the time in Retry-After, then send it again. A key of the public package is slow "
        "to check: `pyoco-server-admin api-key rotate` replaces it by one that is not.",
        cure_ja="Retry-After の秒数だけ待って再試行してください。"
        "公開パッケージの API キーは確認に時間がかかります。"
        "`pyoco-server-admin api-key rotate` で新しい形式のキーに置き換えられます。",
    )
    ALERT_NOT_FOUND: Final = ErrorSpec(
        number=73,
        status=404,
        en="There is no such alert",
        ja="アラートが見つかりません",
        cure_en="Check its id: GET /alerts lists the existing ones.",
        cure_ja="ID を確認してください（GET /alerts で一覧を取得できます）。",
    )
    ALERT_CONFLICT: Final = ErrorSpec(
        number=74,
        status=409,
        en="The alert cannot be changed this way",
        ja="アラートをこのように変更することはできません",
        cure_en="Read the alert again (GET /alerts/{alert_id}) and repeat the change with its revision; "
        "if there are too many alerts, delete one.",
        cure_ja="アラートを読み直し（GET /alerts/{alert_id}）、その revision で変更をやり直してください。"
        "件数の上限に達している場合は、不要なアラートを削除してください。",
    )


ERRORS: Final[tuple[ErrorSpec, ...]] = tuple(
    sorted((spec for spec in vars(Err).values() if isinstance(spec, ErrorSpec)), key=lambda spec: spec.number)
)
