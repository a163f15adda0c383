/** Japanese for the checks of the doctor; the gateway's own texts are English, and have the details. */
import type { Language } from "../../i18n/language";

interface CheckText {
  name: string;
  /** What to do if it fails; the command that does it comes from the gateway. */
  hint: string;
  /** The details of a check that passed, where the gateway's are a sentence; `{program}` is that of the sentence. */
  passed?: string;
  /** The gateway's cure is the same sentence as the hint, and not a command. */
  isWhole?: true;
}

const program = {
  hint: "コマンドをインストールするか、.aiflowrc.json を修正してください。",
  passed: "{program} を使用できます",
};
const JAPANESE: Partial<Record<string, CheckText>> = {
  git: { name: "Git", hint: "Git をインストールしてください。" },
  repo: { name: "リポジトリ", hint: "Git リポジトリの最上位のフォルダーを指定してください。" },
  git_config: {
    name: "Git の設定",
    hint: "プログラムを実行する設定があります。信頼できる場合は自分の設定に移してください。",
    passed: "プログラムを実行する設定はありません",
  },
  worktree: {
    name: "作業ツリー",
    hint: "コミットされていない変更があります。コミットするか stash してください。",
    passed: "変更なし",
    isWhole: true,
  },
  origin: { name: "リモート", hint: "リモートを追加してください。" },
  base_branch: {
    name: "ベースブランチ",
    hint: "リモートに接続でき、ベースブランチがあることを確認してください。",
  },
  folders: {
    name: "フォルダー",
    hint: "フォルダーに書き込めるようにしてください。",
    passed: "書き込み可能",
  },
  node: { name: "Node.js", hint: "コーディング CLI に必要な場合があります。" },
  ai_cli: { name: "コーディング CLI", ...program },
  ai_cli_planner: { name: "コーディング CLI（計画）", ...program },
  ai_cli_qa: { name: "コーディング CLI（QA）", ...program },
  ai_cli_fallback: { name: "コーディング CLI（予備）", ...program },
  unit_test: { name: "ユニットテスト", ...program },
  e2e_test: { name: "E2E テスト", ...program },
  lint: { name: "リント", ...program },
  typecheck: { name: "型チェック", ...program },
};

/** The gateway's own texts are English: only the names are identifiers. */
const ENGLISH_NAMES: Partial<Record<string, string>> = {
  git: "Git",
  repo: "Repository",
  git_config: "Git configuration",
  worktree: "Working tree",
  origin: "Remote",
  base_branch: "Base branch",
  folders: "Folders",
  node: "Node.js",
  ai_cli: "Coding CLI",
  ai_cli_planner: "Coding CLI (planning)",
  ai_cli_qa: "Coding CLI (QA)",
  ai_cli_fallback: "Coding CLI (fallback)",
  unit_test: "Unit tests",
  e2e_test: "End-to-end tests",
  lint: "Lint",
  typecheck: "Type check",
  port: "Port",
};

/** The name of a check; that of a newer version is shown as it is. */
export const checkName = (name: string, language: Language): string =>
  checkText(name, language)?.name ?? ENGLISH_NAMES[name] ?? name;

/** The details of a check that passed. */
export const passedText = (text: string, details: string | null | undefined): string =>
  text.replace("{program}", (details ?? "").replace(/ available$/, ""));

/** Null: the page is in English, or the check is unknown. */
export const checkText = (name: string, language: Language): CheckText | null =>
  (language === "ja" && JAPANESE[name]) || null;
