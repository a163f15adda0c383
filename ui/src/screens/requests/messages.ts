import { defineMessages } from "../../i18n/messages";

export const messages = defineMessages({
  en: {
    title: "Requests",
    count: { one: "{count} request", other: "{count} requests" },
    doctor: "Environment check",
    search: "Filter requests",
    searchPlaceholder: "Text in title, id, branch or label",
    keyNext: "Next request",
    keyPrevious: "Previous request",
    showAll: "Show all {count}",
    emptyTitle: "No requests yet",
    emptyText:
      "A request says what you want changed in the repository. A coding agent plans it, implements it step by step on a branch of its own, tests it and pushes it; you create the pull request. Create one here, or on the command line:",
    nothingTitle: "No request matches",
    nothingClear: "Clear the filter",
  },
  ja: {
    title: "依頼",
    count: "{count}件",
    doctor: "環境チェック",
    search: "依頼を絞り込む",
    searchPlaceholder: "タイトル・ID・ブランチ・ラベル",
    keyNext: "次の依頼",
    keyPrevious: "前の依頼",
    showAll: "{count}件すべてを表示",
    emptyTitle: "依頼はまだありません",
    emptyText:
      "依頼には、リポジトリに加えたい変更を書きます。コーディングエージェントが計画を立て、専用のブランチで1ステップずつ実装し、テストしてプッシュします。PR は人が作成します。ここから、またはコマンドラインで作成できます:",
    nothingTitle: "該当する依頼はありません",
    nothingClear: "絞り込みを解除",
  },
});
