import { defineMessages } from "../../../i18n/messages";

export const messages = defineMessages({
  en: {
    why: "Why",
    whyMore: "Why, and what to do",
    ifNothingIsDone: "If nothing is done:",
    evidence: "Evidence",
    taskFailed: "Task {task} failed",
    tasksFailed: "{count} tasks failed:",
    more: { one: "and {count} more", other: "and {count} more" },
  },
  ja: {
    why: "理由",
    whyMore: "理由と対処",
    ifNothingIsDone: "何もしない場合:",
    evidence: "根拠",
    taskFailed: "タスク {task} が失敗しました",
    tasksFailed: "{count}件のタスクが失敗しました:",
    more: "ほか{count}件",
  },
});
