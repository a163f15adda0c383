/** Japanese for the codes of agent requests; the gateway's own texts are English, and have the details. */
import { currentLanguage } from "../i18n/language";

const JAPANESE: Partial<Record<string, string>> = {
  NO_REPOSITORY: "このゲートウェイはリポジトリを扱っていません",
  REQUEST_NOT_FOUND: "依頼が見つかりません",
  RUN_NOT_FOUND: "run が見つかりません",
  ARTIFACT_NOT_FOUND: "ファイルが見つかりません",
  INVALID_REQUEST: "入力に誤りがあります",
  INVALID_PRIORITY: "優先度が正しくありません",
  INVALID_STATUS: "状態の指定が正しくありません",
  FILE_ALREADY_EXISTS: "同じ ID の依頼があります",
  FILE_NOT_WRITABLE: "ファイルに書き込めません。権限とディスクの空き容量を確認してください",
  REQUEST_UNREADABLE: "依頼のファイルを解釈できません。ヘッダーを修正してください",
  CANNOT_EDIT_WHILE_RUNNING: "実行中は要望を編集できません。先に停止してください",
  ALREADY_RUNNING: "実行中です。先に停止してください",
  NOT_RUNNING: "実行中ではありません",
  NOT_NEEDS_INPUT: "回答待ちの質問はありません",
  WORKTREE_DIRTY: "コミットされていない変更があります。コミットするか stash してください",
  BASE_BRANCH_NOT_FOUND: "ベースブランチがリモートにありません",
  REMOTE_ORIGIN_MISSING: "リモートがないか、接続できません",
  GIT_NOT_INSTALLED: "Git がインストールされていません",
  NOT_A_GIT_REPO: "Git リポジトリのフォルダーではありません",
  GIT_CONFIG_UNTRUSTED: "リポジトリの Git 設定にプログラムを実行する項目があります",
  LOCK_HELD: "別のプロセスがこのリポジトリを使用中です",
  COMMAND_NOT_FOUND: "コマンドが見つかりません",
  COMMAND_FAILED: "コマンドが失敗しました",
  UNIT_TEST_FAILED: "ユニットテストが失敗しました",
  E2E_TEST_FAILED: "E2E テストが失敗しました",
  PUSH_FAILED: "プッシュできませんでした",
  AUTH_REQUIRED: "リモートの認証が必要です。入力を求められずに接続できるよう設定してください",
  PLAN_INVALID: "計画が要件を満たしていません",
  STEP_TOO_LARGE: "ステップが大きすぎます",
  RETRY_EXCEEDED: "再試行の上限に達しました。要望を具体的にして再実行してください",
  AMBIGUOUS_REQUIREMENT: "要望に確認が必要な点があります",
  WORK_NOT_SAVED: "停止しましたが、作業内容が保存されていません",
  INTERNAL_ERROR: "予期しないエラーが発生しました",
};

/** Of codes that end a run: what happened, without its details. */
const ENGLISH: Partial<Record<string, string>> = {
  COMMAND_NOT_FOUND: "A command was not found",
  COMMAND_FAILED: "A command failed",
  UNIT_TEST_FAILED: "The unit tests failed",
  E2E_TEST_FAILED: "The end-to-end tests failed",
  PUSH_FAILED: "The push failed",
  AUTH_REQUIRED: "The remote requires authentication. Set it up so that git connects without asking",
  PLAN_INVALID: "The plan does not meet the requirements",
  STEP_TOO_LARGE: "A step is too large",
  RETRY_EXCEEDED: "The retry limit was reached. Make the request more specific, and rerun it",
  WORK_NOT_SAVED: "Stopped, but the work is not saved",
  INTERNAL_ERROR: "An unexpected error occurred",
};

export interface ReasonText {
  title: string;
  cure: string | null;
}

/** Why a run failed, and what to do about it, in the language of the page; null: the code is unknown. */
export function reasonText(code: string | null): ReasonText | null {
  const isJapanese = currentLanguage() === "ja";
  const text = (isJapanese ? JAPANESE : ENGLISH)[code ?? ""];
  if (!text) return null;
  const end = isJapanese ? "。" : ".";
  const [title = text, ...rest] = text.split(isJapanese ? "。" : ". ");
  return { title: `${title}${end}`, cure: rest.length > 0 ? `${rest.join("")}${end}` : null };
}

/** What a code means; null: the page is in English, or the code is unknown. */
export const codeText = (code: string | null | undefined): string | null =>
  (currentLanguage() === "ja" && JAPANESE[code ?? ""]) || null;
