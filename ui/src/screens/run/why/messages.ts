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
    "parked.scheduled": "The run starts at {time}.",
    "parked.human": "{tasks} waits for an answer: {message}",
    "parked.sleep": "{tasks} sleeps until {time}.",
    "parked.signal": "{tasks} waits for the signal {topics}.",
    "parked.event": "{tasks} waits for the event {topics}.",
  },
  ja: {
    why: "理由",
    whyMore: "理由と対処",
    ifNothingIsDone: "何もしない場合:",
    evidence: "根拠",
    taskFailed: "タスク {task} が失敗しました",
    tasksFailed: "{count}件のタスクが失敗しました:",
    more: "ほか{count}件",
    "parked.scheduled": "この run は {time} に開始します。",
    "parked.human": "{tasks} が回答を待っています: {message}",
    "parked.sleep": "{tasks} は {time} までスリープします。",
    "parked.signal": "{tasks} がシグナル {topics} を待っています。",
    "parked.event": "{tasks} がイベント {topics} を待っています。",
  },
});
