import { defineMessages } from "../i18n/messages";

export const messages = defineMessages({
  en: {
    params: "Params",
    paramsAs: "Enter as",
    "as.form": "Form",
    "as.json": "JSON",
    takesNone: "This flow takes no params.",
    mustBeObject: "Params must be a JSON object.",
    noRuns: "no results",
    successRate: "Completed runs among those that completed or failed",
    endedCounts: "{completed} completed · {failed} failed · {cancelled} cancelled",
    "window.24h": "24 hours",
    "window.7d": "7 days",
    "window.30d": "30 days",
  },
  ja: {
    params: "パラメーター",
    paramsAs: "入力方法",
    "as.form": "フォーム",
    "as.json": "JSON",
    takesNone: "このフローにパラメーターはありません。",
    mustBeObject: "パラメーターは JSON オブジェクトで入力してください。",
    noRuns: "結果なし",
    successRate: "完了または失敗した run のうち、完了したものの割合",
    endedCounts: "完了 {completed}・失敗 {failed}・キャンセル {cancelled}",
    "window.24h": "24時間",
    "window.7d": "7日間",
    "window.30d": "30日間",
  },
});
