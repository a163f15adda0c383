"""The texts and actions of every finding, in English and Japanese. Braces name fields of its evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from pyoco_server.errors.error_table import Lang
from pyoco_server.records.moments import duration_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action: its stable code, its text, the command, and the HTTP request."""

    code: str
    en: str
    ja: str
    command: str | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    en: str
    ja: str
    # What happens next if nobody does anything.
    next_en: str
    next_ja: str
    actions: tuple[Action, ...] = ()

    def message(self, words: Mapping[str, str], lang: Lang) -> str:
        return (self.ja if lang == "ja" else self.en).format_map(words)

    def by_itself(self, words: Mapping[str, str], lang: Lang) -> str:
        return (self.next_ja if lang == "ja" else self.next_en).format_map(words)


CANCEL: Final = Action(
    code="cancel",
    en="Cancel the run",
    ja="run をキャンセルする",
    command="pyoco-client cancel {run_id}",
    request="POST /runs/{run_id}/cancel",
)
RERUN: Final = Action(
    code="rerun",
    en="Rerun from the start",
    ja="run を最初から再実行する",
    command="pyoco-client rerun {run_id}",
    request="POST /runs/{run_id}/rerun",
)
RERUN_FAILED: Final = Action(
    code="rerun_failed",
    en="Rerun only what failed or never ran",
    ja="失敗・未実行のタスクだけを再実行する",
    command="pyoco-client rerun {run_id} --from failed",
    request='POST /runs/{run_id}/rerun {{"mode": "failed"}}',
)
LOGS: Final = Action(
    code="logs",
    en="Read the run's output",
    ja="run の出力を確認する",
    command="pyoco-client logs {run_id}",
    request="GET /runs/{run_id}/logs",
)
START_WORKER: Final = Action(
    code="start_worker",
    en="Start a worker with this tag",
    ja="このタグのワーカーを起動する",
    command="pyoco-worker --flows ./flows --tag {tag}",
)
MORE_SLOTS: Final = Action(
    code="more_slots",
    en="Start one more worker, or give the workers more slots",
    ja="ワーカーを追加するか、スロットを増やす",
    command="pyoco-worker --flows ./flows --tag {tag} --concurrency N",
)
SEE_WORKERS: Final = Action(
    code="workers",
    en="Check the workers",
    ja="ワーカーの状態を確認する",
    command="pyoco-client workers",
    request="GET /workers",
)
UNPAUSE: Final = Action(
    code="resume_worker",
    en="Resume a paused worker",
    ja="一時停止中のワーカーを再開する",
    command="pyoco-client worker --worker-id WORKER_ID --resume",
    request='PATCH /workers/WORKER_ID {{"paused": false}}',
)
SEE_HEALTH: Final = Action(
    code="health",
    en="Check the gateway's view of NATS",
    ja="ゲートウェイから NATS の状態を確認する",
    request="GET /health",
)
SEE_DEAD_LETTERS: Final = Action(
    code="dead_letters",
    en="Check the dead letter of the run",
    ja="run のデッドレターを確認する",
    command="pyoco-client dlq list --run-id {run_id}",
    request="GET /dlq?run_id={run_id}",
)
SEE_WAITS: Final = Action(
    code="questions",
    en="Show the question",
    ja="質問の内容を確認する",
    command="pyoco-client waits --run-id {run_id}",
    request="GET /waits?run_id={run_id}",
)
ANSWER: Final = Action(
    code="answer",
    en="Answer (if there is one question)",
    ja="回答する（質問が1つの場合）",
    command="pyoco-client resume {run_id} --json JSON",
    request='POST /resume {{"runId": "{run_id}", "payload": ...}}',
)
SEND_SIGNAL: Final = Action(
    code="send_signal",
    en="Send the signal",
    ja="シグナルを送信する",
    command="pyoco-client signal {run_id} {topic} --json JSON",
    request="POST /runs/{run_id}/signals/{topic}",
)
SEND_EVENT: Final = Action(
    code="send_event",
    en="Send the event",
    ja="イベントを送信する",
    command="pyoco-client event {topic} --json JSON",
    request='POST /events {{"name": "{topic}", "data": ...}}',
)
ASK_AGAIN: Final = Action(
    code="ask_again",
    en="Ask again with a new deadline",
    ja="新しい期限でもう一度質問する",
    command="pyoco-client retry {run_id}",
    request="POST /runs/{run_id}/retry",
)

# Of a run that another worker will take over, that waits in the queue, that has ended, or that has ended
# because a question has no answer.
_taken_over = partial(
    Text,
    next_en="After {ack_wait_sec} without a heartbeat, the queue delivers the run to another worker, "
    "which continues after the last finished task.",
    next_ja="{ack_wait_sec}の間応答がなければ、キューが別のワーカーに run を渡し、"
    "最後に完了したタスクの続きから再開します。",
)
_queued = partial(
    Text,
    next_en="The run stays in the queue and starts as soon as a worker can take it.",
    next_ja="run はキューで待機し、ワーカーが受け取れるようになり次第開始します。",
)
_ended = partial(
    Text,
    next_en="This run is finished. Nothing happens unless you rerun it.",
    next_ja="この run は終了しています。再実行しない限り、何も起こりません。",
)
_unanswered = partial(
    Text,
    next_en="This run is finished. Nothing happens unless you ask again or rerun it.",
    next_ja="この run は終了しています。もう一度質問するか再実行しない限り、何も起こりません。",
)

TEXTS: Final[Mapping[str, Text]] = {
    "nats_unavailable": Text(
        en="The gateway cannot reach NATS to check the run: {detail}.",
        ja="ゲートウェイが NATS に接続できず、run の状態を確認できません: {detail}",
        next_en="The gateway reconnects automatically. Runs in progress continue, and no accepted run is "
        "lost.",
        next_ja="ゲートウェイは自動的に再接続します。"
        "実行中の run は継続し、受け付け済みの run は失われません。",
        actions=(SEE_HEALTH,),
    ),
    "nats_cannot_write": Text(
        en="NATS cannot write, so no run makes progress: {detail}.",
        ja="NATS がデータを書き込めないため、run は進みません: {detail}",
        next_en="The run continues when NATS can write again. No accepted run is lost.",
        next_ja="NATS が書き込めるようになると run は継続します。受け付け済みの run は失われません。",
        actions=(SEE_HEALTH,),
    ),
    # Of any run that has not ended, before its other findings.
    "unverified": Text(
        en="The stored run does not match its signature: its flow, params, tag or tenant was changed, and "
        "not by a gateway.",
        ja="保存されている run が署名と一致しません（フロー・パラメーター・タグ・テナントのいずれかが、"
        "ゲートウェイ以外によって書き換えられています）。",
        next_en="A job that is in the queue is executed as it was submitted. The run is not queued again: "
        "without a job, it fails.",
        next_ja="キュー内のジョブは、投入されたときの内容で実行されます。"
        "この run が再びキューに入ることはなく、ジョブがなければ失敗します。",
        actions=(SEE_WORKERS, CANCEL),
    ),
    # PENDING
    "no_worker_for_tag": _queued(
        en="No worker serves the tag '{tag}'; active workers serve: {served_tags}.",
        ja="タグ「{tag}」に対応するワーカーがありません（稼働中のワーカーのタグ: {served_tags}）。",
        actions=(START_WORKER, SEE_WORKERS, CANCEL),
    ),
    "workers_gone": _queued(
        en="Every worker with the tag '{tag}' has stopped or is disconnected: {workers}.",
        ja="タグ「{tag}」のワーカーは、すべて停止または切断しています: {workers}",
        actions=(START_WORKER, SEE_WORKERS, CANCEL),
    ),
    "workers_paused": _queued(
        en="Every active worker with the tag '{tag}' is paused or draining: {workers}.",
        ja="タグ「{tag}」の稼働中のワーカーは、すべて一時停止中またはドレイン中です: {workers}",
        actions=(UNPAUSE, START_WORKER, CANCEL),
    ),
    "executors_failing": Text(
        en="No worker with the tag '{tag}' can start an executor: {workers}.",
        ja="タグ「{tag}」のワーカーは、いずれもエグゼキューターを起動できません: {workers}",
        next_en="The workers retry automatically and start the run when one of them succeeds.",
        next_ja="ワーカーは自動的に再試行し、起動に成功し次第 run を開始します。",
        actions=(SEE_WORKERS, START_WORKER, CANCEL),
    ),
    "queue_paused": Text(
        en="The queue of the tag '{tag}' (its NATS consumer) is paused.",
        ja="タグ「{tag}」のキュー（NATS のコンシューマー）が一時停止されています。",
        next_en="Jobs are delivered again when the pause ends or is lifted in NATS.",
        next_ja="NATS 側の一時停止が終わるか解除されると、配信が再開します。",
        actions=(CANCEL,),
    ),
    "ack_wait_too_short": Text(
        en="The queue of the tag '{tag}' (its NATS consumer) has an AckWait of {ack_wait_sec}: workers take "
        "no runs from it, because a run would be executed twice.",
        ja="タグ「{tag}」のキュー（NATS のコンシューマー）の AckWait は{ack_wait_sec}です。"
        "run が二重に実行されるおそれがあるため、ワーカーはこのキューから run を受け取りません。",
        next_en="The run starts when AckWait is at least {expected_sec}: `nats consumer edit --wait 30s`.",
        next_ja="AckWait を {expected_sec}以上にすると開始します（`nats consumer edit --wait 30s`）。",
        actions=(CANCEL,),
    ),
    "all_slots_busy": Text(
        en="All {slots} slots of the tag '{tag}' are busy: {workers}.",
        ja="タグ「{tag}」の {slots}個のスロットはすべて使用中です: {workers}",
        next_en="The run starts when its turn comes and a slot is free.",
        next_ja="順番が来てスロットが空き次第、開始します。",
        actions=(MORE_SLOTS, SEE_WORKERS, CANCEL),
    ),
    "in_work_limit_reached": Text(
        en="{limit} jobs with the tag '{tag}' are in progress, the most the queue allows at once.",
        ja="タグ「{tag}」の処理中のジョブが上限（{limit}件）に達しています。",
        next_en="The run starts when one of them has ended.",
        next_ja="処理中のジョブのいずれかが終わり次第、開始します。",
        actions=(
            Action(
                code="raise_limit",
                en="Raise max_ack_pending of the tag's consumer "
                "(PYOCO_CONSUMER_MAX_ACK_PENDING applies to new consumers only)",
                ja="タグのコンシューマーの max_ack_pending を上げる"
                "（PYOCO_CONSUMER_MAX_ACK_PENDING は新規作成時のみ有効）",
            ),
            CANCEL,
        ),
    ),
    "waiting_in_queue": _queued(
        en="The run is job {position} of {waiting} in the queue, and has waited for {waiting_sec}.",
        ja="キュー内のジョブ {waiting}件中 {position}番目です（待ち時間: {waiting_sec}）。",
    ),
    "far_back_in_queue": _queued(
        en="{waiting} jobs are queued; this run has waited for {waiting_sec} and is not near the front yet.",
        ja="キュー内のジョブは {waiting}件で、この run の順番はまだ先です（待ち時間: {waiting_sec}）。",
    ),
    "job_missing": Text(
        en="The run has no job in the queue: its submission was interrupted, or the job was removed.",
        ja="キューにこの run のジョブがありません（投入が中断されたか、ジョブが削除されました）。",
        next_en="The sweep of a gateway publishes it again within about {mended_within_sec}.",
        next_ja="ゲートウェイの定期チェックが、約{mended_within_sec}以内に再投入します。",
        actions=(CANCEL,),
    ),
    "delivered_not_begun": Text(
        en="The job was delivered to a worker that has not started it yet, or has returned it to the queue.",
        ja="ジョブはワーカーに配信されましたが、まだ開始されていないか、キューに戻されました。",
        next_en="It starts within moments, or is delivered to another worker within {ack_wait_sec}.",
        next_ja="まもなく開始するか、{ack_wait_sec}以内に別のワーカーへ再配信されます。",
        actions=(SEE_WORKERS, CANCEL),
    ),
    "about_to_start": Text(
        en="The run is next to start; it has waited for {waiting_sec} (workers: {workers}).",
        ja="次に開始される run です（待ち時間: {waiting_sec}、ワーカー: {workers}）。",
        next_en="It starts within moments.",
        next_ja="まもなく開始します。",
        actions=(SEE_WORKERS,),
    ),
    # PENDING, after its other findings: of a run that has waited for people
    "answered": Text(
        en="What it waited for came {waiting_sec} ago: an answer (or its default), the end of a sleep, a "
        "signal or an event. The run is in the queue again, for a worker with the tag '{tag}'.",
        ja="待機は{waiting_sec}前に終わりました（回答または既定の回答、スリープの終了、シグナル、イベント）。"
        "run はキューに戻り、タグ「{tag}」のワーカーを待っています。",
        next_en="The worker that takes it continues after the last finished task.",
        next_ja="受け取ったワーカーが、最後に完了したタスクの続きから再開します。",
    ),
    "other_questions_open": Text(
        en="Other questions of the run are open, in {waits}: {message}",
        ja="この run には、未回答の質問がほかにもあります（{waits}）: {message}",
        next_en="They can be answered meanwhile; the next deadline is in {left_sec}.",
        next_ja="run の再開を待たずに回答できます。次の期限まで{left_sec}です。",
        actions=(SEE_WAITS, ANSWER),
    ),
    # RUNNING
    "executing": Text(
        en="Worker {worker_id} is executing {running_tasks}; no task has finished for {quiet_sec}.",
        ja="ワーカー {worker_id} が {running_tasks} を実行中です"
        "（直近{quiet_sec}に完了したタスクはありません）。",
        next_en="The run continues. A task without a time limit may take as long as it needs.",
        next_ja="run は継続します。制限時間のないタスクは、終わるまで実行されます。",
        actions=(LOGS, CANCEL),
    ),
    "between_tasks": Text(
        en="Worker {worker_id} has the run and is between two tasks, or has just started.",
        ja="ワーカー {worker_id} が処理中です（タスクの開始前、またはタスクの合間）。",
        next_en="The next task starts within moments.",
        next_ja="まもなく次のタスクが始まります。",
        actions=(LOGS, CANCEL),
    ),
    "worker_disconnected": _taken_over(
        en="Worker {worker_id} is disconnected; its last heartbeat was {silent_sec} ago.",
        ja="ワーカー {worker_id} との接続が切れています（最終応答: {silent_sec}前）。",
        actions=(SEE_WORKERS, CANCEL),
    ),
    "handed_over": Text(
        en="Worker {worker_id} is gone: its connection to NATS was closed, and its last heartbeat was "
        "{silent_sec} ago. The run was returned to the queue {handed_over_sec} ago.",
        ja="ワーカー {worker_id} は NATS との接続が切れ、停止したと判断されました"
        "（最終応答: {silent_sec}前）。run は{handed_over_sec}前にキューへ戻されました。",
        next_en="The next free worker continues after the last finished task.",
        next_ja="次に空いたワーカーが、最後に完了したタスクの続きから再開します。",
        actions=(SEE_WORKERS, CANCEL),
    ),
    "worker_stopped": _taken_over(
        en="Worker {worker_id} has stopped and returned the run to the queue; its last heartbeat was "
        "{silent_sec} ago.",
        ja="ワーカー {worker_id} は停止し、run をキューに戻しました（最終応答: {silent_sec}前）。",
        actions=(SEE_WORKERS, CANCEL),
    ),
    "worker_unknown": _taken_over(
        en="There is no record of worker {worker_id}; its last heartbeat was {silent_sec} ago.",
        ja="ワーカー {worker_id} の記録がありません（最終応答: {silent_sec}前）。",
        actions=(SEE_WORKERS, CANCEL),
    ),
    "heartbeat_overdue": _taken_over(
        en="Worker {worker_id} has the run, but its last heartbeat was {silent_sec} ago: it may be gone.",
        ja="ワーカー {worker_id} がこの run を担当していますが、{silent_sec}前からハートビートがありません。"
        "停止している可能性があります。",
        actions=(LOGS, SEE_WORKERS, CANCEL),
    ),
    "handed_back": _taken_over(
        en="Worker {worker_id} is alive but no longer has the run, which is waiting for another worker.",
        ja="ワーカー {worker_id} は稼働中ですが、この run を手放しました。別のワーカーの引き継ぎ待ちです。",
        actions=(SEE_WORKERS, CANCEL),
    ),
    "worker_paused": Text(
        en="Worker {worker_id} is paused: it continues this run and takes no new ones.",
        ja="ワーカー {worker_id} は一時停止中です（この run は継続し、新しい run は受け取りません）。",
        next_en="The run continues.",
        next_ja="run は継続します。",
    ),
    "worker_draining": Text(
        en="Worker {worker_id} is draining: it exits once its runs have ended.",
        ja="ワーカー {worker_id} はドレイン中です（実行中の run が終わると停止します）。",
        next_en="If the run does not end within the drain time limit, another worker takes it over.",
        next_ja="ドレインの制限時間内に終わらなければ、別のワーカーが引き継ぎます。",
    ),
    "later_attempt": Text(
        en="This is attempt {attempt}: earlier workers did not finish the run; {left} more may follow.",
        ja="{attempt}回目の試行です。以前のワーカーは完了できませんでした（残り {left}回）。",
        next_en="Tasks that finished in an earlier attempt are not executed again.",
        next_ja="以前の試行で完了したタスクは再実行されません。",
        actions=(LOGS,),
    ),
    "executed_again": Text(
        en="Finished tasks were executed again: {tasks}. The first of them because {reason}.",
        ja="完了済みのタスクを再実行しました: {tasks}（最初のタスクの理由: {reason}）",
        next_en="The results of this attempt are used.",
        next_ja="この試行の結果が有効です。",
        actions=(LOGS,),
    ),
    "artifacts_left_out": Text(
        en="{file_count} files of the run are not stored as artifacts. The first one is {name}: {reason}.",
        ja="アーティファクトとして保存されなかったファイルが{file_count}件あります"
        "（最初のファイル: {name}、理由: {reason}）",
        next_en="Nothing. The run continues or has ended as if they were stored.",
        next_ja="何も起こりません。run の実行や結果には影響しません。",
        actions=(
            Action(
                code="artifacts",
                en="List the files of the run, stored or not",
                ja="run のファイルの一覧を確認する",
                command="pyoco-client artifacts list {run_id}",
                request="GET /runs/{run_id}/artifacts",
            ),
            LOGS,
        ),
    ),
    "last_attempt": Text(
        en="This is attempt {attempt}, the last one: the job was delivered {delivery} times.",
        ja="{attempt}回目で、最後の試行です（配信 {delivery}回）。",
        next_en="If this worker does not finish it either, the run is FAILED (deliveries_exhausted).",
        next_ja="このワーカーも完了できない場合、run は FAILED（deliveries_exhausted）になります。",
        actions=(LOGS,),
    ),
    "time_limit": Text(
        en="The run's time limit is {timeout_sec}; {left_sec} remaining.",
        ja="run の制限時間は{timeout_sec}、残り{left_sec}です。",
        next_en="After that it is FAILED (timeout).",
        next_ja="超過すると FAILED（timeout）になります。",
    ),
    # SCHEDULED
    "scheduled": Text(
        en="The run starts in {left_sec}, at {start_at}.",
        ja="この run は{left_sec}後（{start_at}）に開始します。",
        next_en="At that time a gateway puts it into the queue of the tag {tag}; until then it uses nothing.",
        next_ja="時刻になるとゲートウェイがタグ {tag} のキューに入れます。それまではリソースを使いません。",
        actions=(CANCEL,),
    ),
    "start_overdue": Text(
        en="The run was to start {overdue_sec} ago, at {start_at}, and is not in the queue yet.",
        ja="開始予定時刻（{start_at}）を{overdue_sec}過ぎていますが、まだキューに入っていません。",
        next_en="Gateways start what is due, in the order of the start times; after an outage this takes a "
        "moment. The sweep starts a run that no gateway released.",
        next_ja="ゲートウェイが開始時刻の早い順に開始します（障害の直後は少し時間がかかります）。"
        "開始されなかった run は、定期チェックが開始します。",
        actions=(SEE_HEALTH, CANCEL),
    ),
    # WAITING_HUMAN
    "waiting_human": Text(
        en="The run has been waiting {waiting_sec} for a person to answer, in {waits}: {message}",
        ja="人の回答を待っています（{waits}、経過: {waiting_sec}）: {message}",
        next_en="It continues as soon as somebody answers; the next deadline is in {left_sec}.",
        next_ja="回答があり次第再開します。次の期限まで{left_sec}です。",
        actions=(SEE_WAITS, ANSWER, CANCEL),
    ),
    "human_deadline_over": Text(
        en="Nobody answered in time, in {waits}: {message}",
        ja="期限までに回答がありませんでした（{waits}）: {message}",
        next_en="Within moments a gateway uses the default answer, or ends the run.",
        next_ja="まもなくゲートウェイが既定の回答で再開するか、run を終了します。",
        actions=(SEE_WAITS,),
    ),
    "question_changed": Text(
        en="A question is asked again, in {tasks}: its message, its schema or its rule of approval has "
        "changed since it was asked ({why}).",
        ja="質問のメッセージ、回答の形式、または承認の条件が前回から変わったため、"
        "もう一度質問しています（{tasks}、{why}）。",
        next_en="An answer to the earlier question is not used. If the question changes with each execution, "
        "the task fails: take values that differ each time from a step (ctx.step).",
        next_ja="前回の質問への回答は使われません。実行のたびに質問が変わる場合、タスクは失敗します"
        "（毎回異なる値は ctx.step で取得してください）。",
        actions=(SEE_WAITS,),
    ),
    # WAITING
    "sleeping": Text(
        en="The run is sleeping until {ends_at}, in {waits}.",
        ja="run はスリープ中です（{waits}、{ends_at} まで）。",
        next_en="It continues in {left_sec}. Until then it occupies no worker.",
        next_ja="{left_sec}後に再開します。それまでワーカーは使用しません。",
        actions=(CANCEL,),
    ),
    "waiting_signal": Text(
        en="Task {waits} has been waiting for the signal {topics} since {since_at}.",
        ja="タスク {waits} がシグナル {topics} を待っています（{since_at} から）。",
        next_en="The run continues as soon as the signal is sent; time left: {left_sec}.",
        next_ja="シグナルが届き次第、run は再開します。残り時間: {left_sec}",
        actions=(SEND_SIGNAL, CANCEL),
    ),
    "waiting_event": Text(
        en="Task {waits} has been waiting for a matching event {topics} since {since_at}.",
        ja="タスク {waits} が条件に合うイベント {topics} を待っています（{since_at} から）。",
        next_en="The run continues as soon as such an event arrives; time left: {left_sec}.",
        next_ja="該当するイベントが届き次第、run は再開します。残り時間: {left_sec}",
        actions=(SEND_EVENT, CANCEL),
    ),
    "wait_over": Text(
        en="The wait is over.",
        ja="待機は終わりました。",
        next_en="Within moments a gateway queues the run for a worker.",
        next_ja="まもなくゲートウェイが run をキューに戻します。",
    ),
    # CANCELLING
    "cancel_grace": Text(
        en="Worker {worker_id} was told to stop the run; it has {grace_left_sec} left to stop on its own.",
        ja="ワーカー {worker_id} に停止を通知しました（猶予時間の残り: {grace_left_sec}）。",
        next_en="The flow stops before its next task; after the grace period it is terminated.",
        next_ja="次のタスクの前に停止します。猶予時間を過ぎると強制終了します。",
    ),
    "cancel_overdue": Text(
        en="The grace period of {grace_sec} is over; worker {worker_id} is terminating the run.",
        ja="猶予時間（{grace_sec}）が過ぎたため、ワーカー {worker_id} が run を強制終了しています。",
        next_en="The run is CANCELLED within moments; if the worker crashes, the sweep of a gateway ends it.",
        next_ja="まもなく CANCELLED になります。"
        "ワーカーが停止した場合は、ゲートウェイの定期チェックが終了させます。",
        actions=(SEE_WORKERS,),
    ),
    "cancel_without_worker": Text(
        en="A cancel was requested, but no worker is there to stop the run.",
        ja="キャンセルが要求されましたが、run を停止させるワーカーがありません。",
        next_en="The sweep of a gateway ends it after about {ended_within_sec} without a heartbeat.",
        next_ja="無応答が{ended_within_sec}ほど続くと、ゲートウェイの定期チェックが CANCELLED にします。",
    ),
    "status_of_newer_version": Text(
        en="The run is {status}, a status of a newer version than this gateway's.",
        ja="run の状態は {status} です。このゲートウェイより新しいバージョンの状態です。",
        next_en="This gateway leaves the run alone; gateways and workers of the newer version continue it.",
        next_ja="このゲートウェイは run を変更しません。"
        "新しいバージョンのゲートウェイとワーカーが処理を続けます。",
        actions=(SEE_HEALTH,),
    ),
    # ended
    "completed": _ended(
        en="The run has completed.",
        ja="run は正常に完了しました。",
        actions=(LOGS, RERUN),
    ),
    "completed_with_failures": _ended(
        en="The run has completed, but these tasks failed: {failed_tasks}.",
        ja="run は完了しましたが、次のタスクが失敗しました: {failed_tasks}",
        actions=(RERUN_FAILED, LOGS),
    ),
    "failed_execution_error": _ended(
        en="Task {failed_tasks} failed: {task_error}",
        ja="タスク {failed_tasks} が失敗しました: {task_error}",
        actions=(LOGS, RERUN_FAILED, RERUN, SEE_DEAD_LETTERS),
    ),
    "failed_outside_tasks": _ended(
        en="The flow failed outside of its tasks: {error}",
        ja="タスクの外でフローのエラーが発生しました: {error}",
        actions=(LOGS, RERUN, SEE_DEAD_LETTERS),
    ),
    "failed_flow_not_found": _ended(
        en="Worker {worker_id} does not have the flow: {error}",
        ja="ワーカー {worker_id} にフローがありません: {error}",
        actions=(
            Action(
                code="deploy_flow",
                en="Deploy the flow to every worker with the tag, then rerun",
                ja="このタグのすべてのワーカーにフローを配置してから再実行する",
                command="pyoco-client rerun {run_id}",
                request="POST /runs/{run_id}/rerun",
            ),
            SEE_WORKERS,
        ),
    ),
    "failed_invalid_job": _ended(
        en="The run's job in the queue could not be read: {error}",
        ja="キュー内のジョブを読み取れませんでした: {error}",
        actions=(RERUN, SEE_DEAD_LETTERS),
    ),
    "failed_unverified": _ended(
        en="The stored run did not match its signature, so it was not queued again: {error}",
        ja="保存されている run が署名と一致しないため、キューに戻されませんでした: {error}",
        actions=(SEE_WORKERS, SEE_DEAD_LETTERS),
    ),
    "failed_executor_crashed": _ended(
        en="The process that executed the flow crashed: {error}",
        ja="フローを実行していたプロセスが異常終了しました: {error}",
        actions=(LOGS, RERUN_FAILED, SEE_DEAD_LETTERS),
    ),
    "failed_deliveries_exhausted": _ended(
        en="Every attempt ended without a result: {error}",
        ja="すべての試行が完了せずに終わりました: {error}",
        actions=(LOGS, RERUN_FAILED, SEE_WORKERS, SEE_DEAD_LETTERS),
    ),
    "failed_timeout": _ended(
        en="The time limit was exceeded: {error}",
        ja="制限時間を超えました: {error}",
        actions=(LOGS, RERUN_FAILED, SEE_DEAD_LETTERS),
    ),
    "failed_human_timeout": _unanswered(
        # The error names the question and its deadline.
        en="The run has failed: {error}",
        ja="期限までに回答がなかったため、run は失敗しました: {error}",
        actions=(ASK_AGAIN, SEE_DEAD_LETTERS),
    ),
    "failed_human_withdrawn": _unanswered(
        # The error names the question, who withdrew it, and why.
        en="The run has failed: {error}",
        ja="質問が取り下げられたため、run は失敗しました: {error}",
        actions=(ASK_AGAIN, SEE_DEAD_LETTERS),
    ),
    "failed": _ended(
        en="The run has failed ({reason}): {error}",
        ja="run は失敗しました（{reason}）: {error}",
        actions=(LOGS, RERUN_FAILED, RERUN),
    ),
    "cancelled": _ended(
        en="The run was cancelled (by {requested_by}, reason: {cancel_reason}).",
        ja="run はキャンセルされました（要求者: {requested_by}、理由: {cancel_reason}）。",
        actions=(RERUN_FAILED, RERUN),
    ),
    "cancel_forced": _ended(
        en="The run was cancelled and terminated: {error}",
        ja="run はキャンセルされ、強制終了されました: {error}",
        actions=(LOGS, RERUN_FAILED, RERUN),
    ),
}

# Of waits for which there is no time left to show.
_WITHOUT_TIMEOUT: Final = {
    "waiting_signal": replace(
        TEXTS["waiting_signal"],
        next_en="The run continues as soon as the signal is sent; the wait has no timeout.",
        next_ja="シグナルが届き次第、run は再開します。待機に制限時間はありません。",
    ),
    "waiting_event": replace(
        TEXTS["waiting_event"],
        next_en="The run continues as soon as such an event arrives; the wait has no timeout.",
        next_ja="該当するイベントが届き次第、run は再開します。待機に制限時間はありません。",
    ),
}

_SEVERAL_FAILED: Final = replace(
    TEXTS["failed_execution_error"],
    en="Tasks {failed_tasks} failed. The error of the first one: {task_error}",
    ja="タスク {failed_tasks} が失敗しました。最初のタスクのエラー: {task_error}",
)

# What a record may not say: who cancels without an API key has no name, and a reason is optional.
_WITHOUT_REASON: Final = replace(
    TEXTS["failed"],
    en="The run has failed: {error}",
    ja="run は失敗しました: {error}",
)
_CANCELLED: Final = {
    (False, False): replace(
        TEXTS["cancelled"], en="The run was cancelled.", ja="run はキャンセルされました。"
    ),
    (True, False): replace(
        TEXTS["cancelled"],
        en="The run was cancelled by {requested_by}.",
        ja="run はキャンセルされました（要求者: {requested_by}）。",
    ),
    (False, True): replace(
        TEXTS["cancelled"],
        en="The run was cancelled (reason: {cancel_reason}).",
        ja="run はキャンセルされました（理由: {cancel_reason}）。",
    ),
}

_NOTHING = "-"
_SEPARATORS: Final[Mapping[Lang, str]] = {"en": ", ", "ja": "、"}


def text_of(code: str, evidence: Mapping[str, Any]) -> Text:
    if code in _WITHOUT_TIMEOUT and evidence["left_sec"] is None:
        return _WITHOUT_TIMEOUT[code]
    if code == "failed_execution_error" and len(evidence["failed_tasks"]) > 1:
        return _SEVERAL_FAILED
    if code == "failed" and evidence["reason"] is None:
        return _WITHOUT_REASON
    if code == "cancelled":
        said = (evidence["requested_by"] is not None, evidence["cancel_reason"] is not None)
        return _CANCELLED.get(said, TEXTS[code])
    return TEXTS[code]


def in_words(evidence: Mapping[str, Any], lang: Lang) -> dict[str, str]:
    """The evidence as text: durations and lists in words."""
    return {name: _word(name, value, lang) for name, value in evidence.items()}


def _word(name: str, value: Any, lang: Lang) -> str:
    if value is None or value == []:
        return _NOTHING
    if isinstance(value, list):
        return _SEPARATORS[lang].join(_named(each) for each in value)
    if name.endswith("_sec"):
        return duration_text(float(value), lang)
    if name.endswith("_at"):
        return datetime.fromtimestamp(float(value), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return str(value)


def _named(value: Any) -> str:
    return str(value.get("worker_id") or value.get("task")) if isinstance(value, dict) else str(value)
