"""What each finding says to a person, in both languages: the one table of an explanation's words.

A text may name the finding's evidence in braces: spans of time and lists are put into words first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyoco_server.errors.error_table import Lang
from pyoco_server.runs.explain.explain_actions import (
    ANSWER,
    ASK_AGAIN,
    CANCEL,
    LOGS,
    MORE_SLOTS,
    RERUN,
    RERUN_FAILED,
    SEE_DEAD_LETTERS,
    SEE_HEALTH,
    SEE_WAITS,
    SEE_WORKERS,
    START_WORKER,
    UNPAUSE,
    Action,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    en: str
    ja: str
    # What will happen by itself.
    next_en: str
    next_ja: str
    actions: tuple[Action, ...] = ()

    def message(self, words: Mapping[str, str], lang: Lang) -> str:
        return (self.ja if lang == "ja" else self.en).format_map(words)

    def by_itself(self, words: Mapping[str, str], lang: Lang) -> str:
        return (self.next_ja if lang == "ja" else self.next_en).format_map(words)


_TAKES_OVER_EN = (
    "When the queue has heard nothing for {ack_wait_sec}, it gives the run to another worker, "
    "which goes on after the last finished task."
)
_TAKES_OVER_JA = (
    "{ack_wait_sec}の間応答がなければ、キューが別のworkerにrunを渡し、完了済みtaskの続きから再開します。"
)
_WAITS_EN = "The run stays in the queue, and starts as soon as a worker can take it."
_WAITS_JA = "runはキューに残り、workerが受け取れるようになり次第開始します。"
_OVER_EN = "Nothing: an ended run does not change any more."
_OVER_JA = "終了したrunは変化しません。"

TEXTS: Final[Mapping[str, Text]] = {
    "nats_unavailable": Text(
        en="The gateway cannot ask NATS about the run: {detail}.",
        ja="gatewayからNATSに接続できず、runの状態を確認できません: {detail}",
        next_en="The gateway reconnects by itself. Runs in work go on, and no run that was accepted is lost.",
        next_ja="gatewayは自動的に再接続します。実行中のrunは継続し、受付済みのrunは失われません。",
        actions=(SEE_HEALTH,),
    ),
    # PENDING
    "no_worker_for_tag": Text(
        en="No worker is known that serves the tag '{tag}'; the living ones serve: {served_tags}.",
        ja="tag '{tag}' を処理するworkerがありません（稼働中workerのtag: {served_tags}）。",
        next_en=_WAITS_EN,
        next_ja=_WAITS_JA,
        actions=(START_WORKER, SEE_WORKERS, CANCEL),
    ),
    "workers_gone": Text(
        en="Every worker of the tag '{tag}' has stopped or is disconnected: {workers}.",
        ja="tag '{tag}' のworkerはすべて停止または切断されています: {workers}",
        next_en=_WAITS_EN,
        next_ja=_WAITS_JA,
        actions=(START_WORKER, SEE_WORKERS, CANCEL),
    ),
    "workers_paused": Text(
        en="Every living worker of the tag '{tag}' is paused or draining: {workers}.",
        ja="tag '{tag}' の稼働中workerはすべて一時停止中またはdrain中です: {workers}",
        next_en=_WAITS_EN,
        next_ja=_WAITS_JA,
        actions=(UNPAUSE, START_WORKER, CANCEL),
    ),
    "executors_failing": Text(
        en="No worker of the tag '{tag}' can start an executor: {workers}.",
        ja="tag '{tag}' のworkerはいずれもexecutorを起動できません: {workers}",
        next_en="The workers try again by themselves, and start the run when one of them succeeds.",
        next_ja="workerは自動的に再試行し、起動に成功し次第runを開始します。",
        actions=(SEE_WORKERS, START_WORKER, CANCEL),
    ),
    "queue_paused": Text(
        en="The queue of the tag '{tag}' was paused in NATS (its consumer).",
        ja="tag '{tag}' のキュー（NATSのconsumer）が一時停止されています。",
        next_en="Jobs are delivered again when the pause is over, or taken back in NATS.",
        next_ja="NATS側の一時停止が終わるか解除されると配信が再開します。",
        actions=(CANCEL,),
    ),
    "all_slots_busy": Text(
        en="All {slots} slots of the tag '{tag}' are busy: {workers}.",
        ja="tag '{tag}' のスロット{slots}個はすべて使用中です: {workers}",
        next_en="The run starts when its turn has come and a slot is free.",
        next_ja="順番が来てスロットが空き次第開始します。",
        actions=(MORE_SLOTS, SEE_WORKERS, CANCEL),
    ),
    "in_work_limit_reached": Text(
        en="{limit} jobs of the tag '{tag}' are in work, as many as the queue allows at once.",
        ja="tag '{tag}' の処理中ジョブが上限（{limit}件）に達しています。",
        next_en="The run starts when one of them has ended.",
        next_ja="処理中のジョブが終わり次第開始します。",
        actions=(
            Action(
                en="Raise max_ack_pending of the tag's consumer (PYOCO_CONSUMER_MAX_ACK_PENDING is for new)",
                ja="consumerのmax_ack_pendingを上げる（PYOCO_CONSUMER_MAX_ACK_PENDINGは新規作成時のみ有効）",
            ),
            CANCEL,
        ),
    ),
    "waiting_in_queue": Text(
        en="The run is number {position} of {waiting} in the queue, and has waited for {waiting_sec}.",
        ja="キュー待ち{waiting}件中{position}番目です（待ち時間: {waiting_sec}）。",
        next_en=_WAITS_EN,
        next_ja=_WAITS_JA,
    ),
    "far_back_in_queue": Text(
        en="{waiting} runs are in the queue; this one has waited for {waiting_sec}, not near the front.",
        ja="キュー待ちは{waiting}件で、このrunはまだ先頭付近にありません（待ち時間: {waiting_sec}）。",
        next_en=_WAITS_EN,
        next_ja=_WAITS_JA,
    ),
    "job_missing": Text(
        en="The run has no job in the queue: its submission was interrupted, or somebody removed the job.",
        ja="キューにこのrunのジョブがありません（投入が中断されたか、ジョブが削除されました）。",
        next_en="The sweep of a gateway publishes it again within about {mended_within_sec}.",
        next_ja="gatewayのsweepが約{mended_within_sec}以内に再投入します。",
        actions=(CANCEL,),
    ),
    "delivered_not_begun": Text(
        en="The job was given to a worker that has not begun it, or has handed it back.",
        ja="ジョブはworkerに配信されましたが、まだ開始されていないか、キューに戻されました。",
        next_en="It begins within moments, or is delivered to another worker within {ack_wait_sec}.",
        next_ja="まもなく開始するか、{ack_wait_sec}以内に別のworkerへ再配信されます。",
        actions=(SEE_WORKERS, CANCEL),
    ),
    "about_to_start": Text(
        en="Nothing keeps the run: it has waited for {waiting_sec}, and is the next to start ({workers}).",
        ja="妨げはありません。次に開始されます（待ち時間: {waiting_sec}、worker: {workers}）。",
        next_en="It starts within moments.",
        next_ja="まもなく開始します。",
        actions=(SEE_WORKERS,),
    ),
    # RUNNING
    "executing": Text(
        en="Worker {worker_id} executes {running_tasks}; no task has finished for {quiet_sec}.",
        ja="worker {worker_id} が {running_tasks} を実行中です（{quiet_sec}の間、完了したtaskなし）。",
        next_en="The run goes on. A task that has no time limit of its own may take as long as it likes.",
        next_ja="runは継続します。taskに時間制限がなければ、終わるまで実行されます。",
        actions=(LOGS, CANCEL),
    ),
    "between_tasks": Text(
        en="Worker {worker_id} has the run, and is between two tasks or has just begun.",
        ja="worker {worker_id} が処理中です（task開始前、またはtaskの合間）。",
        next_en="The next task starts within moments.",
        next_ja="まもなく次のtaskが始まります。",
        actions=(LOGS, CANCEL),
    ),
    "worker_disconnected": Text(
        en="Worker {worker_id} is disconnected; it was last heard of {silent_sec} ago.",
        ja="worker {worker_id} は切断されています（最後の応答: {silent_sec}前）。",
        next_en=_TAKES_OVER_EN,
        next_ja=_TAKES_OVER_JA,
        actions=(SEE_WORKERS, CANCEL),
    ),
    "worker_stopped": Text(
        en="Worker {worker_id} has stopped and handed the run back; its last sign is {silent_sec} old.",
        ja="worker {worker_id} は停止し、runをキューに戻しました（最後の応答: {silent_sec}前）。",
        next_en=_TAKES_OVER_EN,
        next_ja=_TAKES_OVER_JA,
        actions=(SEE_WORKERS, CANCEL),
    ),
    "worker_unknown": Text(
        en="There is no record of worker {worker_id}, and its last sign is {silent_sec} old.",
        ja="worker {worker_id} の記録がありません（最後の応答: {silent_sec}前）。",
        next_en=_TAKES_OVER_EN,
        next_ja=_TAKES_OVER_JA,
        actions=(SEE_WORKERS, CANCEL),
    ),
    "heartbeat_overdue": Text(
        en="Worker {worker_id} lives and has the run, but the run's last heartbeat is {silent_sec} old.",
        ja="worker {worker_id} は稼働中ですが、runのheartbeatが{silent_sec}前から更新されていません。",
        next_en=_TAKES_OVER_EN,
        next_ja=_TAKES_OVER_JA,
        actions=(LOGS, SEE_WORKERS, CANCEL),
    ),
    "handed_back": Text(
        en="Worker {worker_id} lives but does not have the run any more: it waits to be taken over.",
        ja="worker {worker_id} は稼働中ですが、このrunを手放しています。引き継ぎ待ちです。",
        next_en=_TAKES_OVER_EN,
        next_ja=_TAKES_OVER_JA,
        actions=(SEE_WORKERS, CANCEL),
    ),
    "worker_paused": Text(
        en="Worker {worker_id} is paused: it goes on with this run and takes no new ones.",
        ja="worker {worker_id} は一時停止中です（このrunは継続し、新しいrunは受け取りません）。",
        next_en="The run goes on.",
        next_ja="runは継続します。",
    ),
    "worker_draining": Text(
        en="Worker {worker_id} was asked to end when its runs have.",
        ja="worker {worker_id} はdrain中です（実行中のrunが終わると停止します）。",
        next_en="If the run takes longer than the worker may wait, another worker takes it over.",
        next_ja="待ち時間を超えた場合は、別のworkerが引き継ぎます。",
    ),
    "later_attempt": Text(
        en="This is attempt {attempt}: the workers before did not finish it; {left} more may follow.",
        ja="{attempt}回目の試行です。以前のworkerは完了できませんでした（残り{left}回）。",
        next_en="Tasks that finished in an earlier attempt are not executed again.",
        next_ja="以前の試行で完了したtaskは再実行されません。",
        actions=(LOGS,),
    ),
    "executed_again": Text(
        en="Finished tasks were executed again: {tasks}. The first of them because {reason}.",
        ja="完了済みのtaskを再実行しました: {tasks}（最初のtaskの理由: {reason}）",
        next_en="Nothing: the results of this attempt count.",
        next_ja="この試行の結果が有効です。",
        actions=(LOGS,),
    ),
    "last_attempt": Text(
        en="This is attempt {attempt}, and the last one: the job was delivered {delivery} times.",
        ja="{attempt}回目、最後の試行です（配信{delivery}回）。",
        next_en="If this worker does not finish it either, the run is FAILED (deliveries_exhausted).",
        next_ja="このworkerも完了できない場合、runはFAILED（deliveries_exhausted）になります。",
        actions=(LOGS,),
    ),
    "time_limit": Text(
        en="The run may take {timeout_sec}; {left_sec} are left.",
        ja="runの制限時間は{timeout_sec}、残り{left_sec}です。",
        next_en="After that it is ended, and FAILED (timeout).",
        next_ja="超過するとFAILED（timeout）で終了します。",
    ),
    # WAITING_HUMAN
    "waiting_human": Text(
        en="The run has waited for {waiting_sec} for an answer of a person, in {waits}: {message}",
        ja="人の回答を待っています（{waits}、経過: {waiting_sec}）: {message}",
        next_en="It goes on as soon as somebody answers; the next deadline is over in {left_sec}.",
        next_ja="回答があり次第再開します。次の期限まで{left_sec}です。",
        actions=(SEE_WAITS, ANSWER, CANCEL),
    ),
    "human_deadline_over": Text(
        en="Nobody has answered in time, in {waits}: {message}",
        ja="期限までに回答がありませんでした（{waits}）: {message}",
        next_en="A gateway takes the answer that was given for this case, or ends the run, within moments.",
        next_ja="まもなくgatewayが既定の回答で再開するか、runを終了します。",
        actions=(SEE_WAITS,),
    ),
    # CANCELLING
    "cancel_grace": Text(
        en="Worker {worker_id} was told to stop the run; {grace_left_sec} are left for it to stop by itself.",
        ja="worker {worker_id} に停止を通知しました（猶予の残り: {grace_left_sec}）。",
        next_en="The flow stops at its next task; after the grace period it is ended by force.",
        next_ja="次のtaskの前に停止します。猶予を過ぎると強制終了します。",
    ),
    "cancel_overdue": Text(
        en="The grace period of {grace_sec} is over, and worker {worker_id} is ending the run by force.",
        ja="猶予（{grace_sec}）が過ぎ、worker {worker_id} が強制終了しています。",
        next_en="The run is CANCELLED within moments; if the worker dies, the sweep ends it.",
        next_ja="まもなくCANCELLEDになります。workerが停止した場合はsweepが終了させます。",
        actions=(SEE_WORKERS,),
    ),
    "cancel_without_worker": Text(
        en="The run is to be cancelled, and no worker is there to stop it.",
        ja="キャンセル要求済みですが、停止処理を行うworkerがいません。",
        next_en="The sweep of a gateway ends it after {ended_within_sec} of silence, or so.",
        next_ja="無応答が{ended_within_sec}ほど続くと、gatewayのsweepがCANCELLEDにします。",
    ),
    # ended
    "completed": Text(
        en="The run has completed.",
        ja="runは正常に完了しました。",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(LOGS, RERUN),
    ),
    "completed_with_failures": Text(
        en="The run has completed without these tasks, which failed: {failed_tasks}.",
        ja="runは完了しましたが、次のtaskが失敗しました: {failed_tasks}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(RERUN_FAILED, LOGS),
    ),
    "failed_execution_error": Text(
        en="The flow's own code failed, in {failed_tasks}: {error}",
        ja="flowのコードが失敗しました（{failed_tasks}）: {error}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(LOGS, RERUN_FAILED, RERUN, SEE_DEAD_LETTERS),
    ),
    "failed_flow_not_found": Text(
        en="Worker {worker_id} does not know the flow: {error}",
        ja="worker {worker_id} にflowがありません: {error}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(
            Action(
                en="Give the flow to every worker of the tag, then repeat the run",
                ja="tagのすべてのworkerにflowを配置してから再実行する",
                command="pyoco-client rerun --run-id {run_id}",
                request="POST /runs/{run_id}/rerun",
            ),
            SEE_WORKERS,
        ),
    ),
    "failed_invalid_job": Text(
        en="The run's job in the queue could not be read: {error}",
        ja="キュー上のジョブを読み取れませんでした: {error}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(RERUN, SEE_DEAD_LETTERS),
    ),
    "failed_executor_crashed": Text(
        en="The process that executed the flow ended by itself: {error}",
        ja="flowを実行していたプロセスが異常終了しました: {error}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(LOGS, RERUN_FAILED, SEE_DEAD_LETTERS),
    ),
    "failed_deliveries_exhausted": Text(
        en="Every attempt ended without a result: {error}",
        ja="すべての試行が完了せずに終わりました: {error}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(LOGS, RERUN_FAILED, SEE_WORKERS, SEE_DEAD_LETTERS),
    ),
    "failed_timeout": Text(
        en="It took longer than it may: {error}",
        ja="制限時間を超えました: {error}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(LOGS, RERUN_FAILED, SEE_DEAD_LETTERS),
    ),
    "failed_human_timeout": Text(
        # The error says that nobody has answered, what, and until when.
        en="The run has failed: {error}",
        ja="人の回答がなかったため、runは失敗しました: {error}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(ASK_AGAIN, SEE_DEAD_LETTERS),
    ),
    "failed": Text(
        en="The run has failed ({reason}): {error}",
        ja="runは失敗しました（{reason}）: {error}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(LOGS, RERUN_FAILED, RERUN),
    ),
    "cancelled": Text(
        en="The run was cancelled (by {requested_by}, reason: {cancel_reason}).",
        ja="runはキャンセルされました（要求者: {requested_by}、理由: {cancel_reason}）。",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(RERUN_FAILED, RERUN),
    ),
    "cancel_forced": Text(
        en="The run was cancelled, and ended by force: {error}",
        ja="runはキャンセルされ、強制終了されました: {error}",
        next_en=_OVER_EN,
        next_ja=_OVER_JA,
        actions=(LOGS, RERUN_FAILED, RERUN),
    ),
}
