"""The actions that an explanation offers."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action: its text, the command, and the HTTP request."""

    en: str
    ja: str
    command: str | None = None
    request: str | None = None


CANCEL: Final = Action(
    en="Cancel the run",
    ja="run をキャンセルする",
    command="pyoco-client cancel --run-id {run_id}",
    request="POST /runs/{run_id}/cancel",
)
RERUN: Final = Action(
    en="Rerun from the start",
    ja="run を最初から再実行する",
    command="pyoco-client rerun --run-id {run_id}",
    request="POST /runs/{run_id}/rerun",
)
RERUN_FAILED: Final = Action(
    en="Rerun only what failed or never ran",
    ja="失敗・未実行のタスクだけを再実行する",
    command="pyoco-client rerun --run-id {run_id} --from failed",
    request='POST /runs/{run_id}/rerun {{"mode": "failed"}}',
)
LOGS: Final = Action(
    en="Read the run's output",
    ja="run の出力を確認する",
    command="pyoco-client logs --run-id {run_id}",
    request="GET /runs/{run_id}/logs",
)
START_WORKER: Final = Action(
    en="Start a worker with this tag",
    ja="このタグのワーカーを起動する",
    command="pyoco-worker --tag {tag} --flows DIR",
)
MORE_SLOTS: Final = Action(
    en="Start one more worker, or give the workers more slots",
    ja="ワーカーを追加するか、スロットを増やす",
    command="pyoco-worker --tag {tag} --flows DIR --concurrency N",
)
SEE_WORKERS: Final = Action(
    en="Check the workers",
    ja="ワーカーの状態を確認する",
    command="pyoco-client workers",
    request="GET /workers",
)
UNPAUSE: Final = Action(
    en="Resume a paused worker",
    ja="一時停止中のワーカーを再開する",
    command="pyoco-client worker --worker-id WORKER_ID --resume",
    request='PATCH /workers/WORKER_ID {{"paused": false}}',
)
SEE_HEALTH: Final = Action(
    en="Check the gateway's view of NATS", ja="ゲートウェイから NATS の状態を確認する", request="GET /health"
)
SEE_DEAD_LETTERS: Final = Action(
    en="Check the dead letter of the run",
    ja="run のデッドレターを確認する",
    command="pyoco-client dlq list --run-id {run_id}",
    request="GET /dlq?run_id={run_id}",
)
SEE_WAITS: Final = Action(
    en="Show the question",
    ja="質問の内容を確認する",
    command="pyoco-client waits --run-id {run_id}",
    request="GET /waits?run_id={run_id}",
)
ANSWER: Final = Action(
    en="Answer (if there is one question)",
    ja="回答する（質問が1つの場合）",
    command="pyoco-client resume {run_id} --json JSON",
    request='POST /resume {{"runId": "{run_id}", "payload": ...}}',
)
ASK_AGAIN: Final = Action(
    en="Ask again with a new deadline",
    ja="新しい期限でもう一度質問する",
    command="pyoco-client retry {run_id}",
    request="POST /runs/{run_id}/retry",
)
