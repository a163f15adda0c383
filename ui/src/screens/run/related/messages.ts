import { defineMessages } from "../../../i18n/messages";

export const messages = defineMessages({
  en: {
    title: "Related runs",
    thisRun: "this run",
    originGone: "The run that this one repeats was removed.",
    sameCause: { one: "{count} run with this cause", other: "{count} runs with this cause" },
    showReruns: "Show the reruns of {run}",
    hideReruns: "Hide the reruns of {run}",
    noReruns: "No reruns.",
    allReruns: { one: "Show {count} rerun", other: "Show all {count} reruns" },
    parallel: { one: "{count} task", other: "{count} tasks in parallel" },
    calls: { one: "called once", other: "called {count} times" },
    attempts: { one: "{count} attempt", other: "{count} attempts" },
    rerun: "Rerun",
  },
  ja: {
    title: "関連する run",
    thisRun: "この run",
    originGone: "再実行元の run は削除されています。",
    sameCause: "同じきっかけの run {count}件",
    showReruns: "{run} の再実行を表示",
    hideReruns: "{run} の再実行を隠す",
    noReruns: "再実行はありません。",
    allReruns: "再実行{count}件をすべて表示",
    parallel: "並列タスク{count}件",
    calls: "呼び出し{count}回",
    attempts: "試行{count}回",
    rerun: "再実行",
  },
});
