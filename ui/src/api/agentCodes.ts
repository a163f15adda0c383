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

/** What a code means; null: the page is in English, or the code is unknown. */
export const codeText = (code: string | null | undefined): string | null =>
  (currentLanguage() === "ja" && JAPANESE[code ?? ""]) || null;
