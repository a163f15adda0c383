import { defineMessages } from "../../i18n/messages";

export const messages = defineMessages({
  en: {
    title: "Environment check",
    good: "Everything is ready.",
    bad: { one: "{count} check failed", other: "{count} checks failed" },
    again: "Check again",
    passed: "OK",
    failed: "Failed",
  },
  ja: {
    title: "環境チェック",
    good: "問題はありません。",
    bad: "{count}件の問題があります",
    again: "再チェック",
    passed: "正常",
    failed: "異常",
  },
});
