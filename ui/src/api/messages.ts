import { defineMessages } from "../i18n/messages";

export const messages = defineMessages({
  en: {
    unreachable: "The gateway is not responding",
    unreachableCure:
      "Check that it is running and reachable from this machine. This page retries automatically.",
    notFromGateway: "The response did not come from the gateway",
    unexpected: "An unexpected error occurred on this page",
  },
  ja: {
    unreachable: "ゲートウェイが応答しません",
    unreachableCure:
      "ゲートウェイが起動していて、このマシンから接続できることを確認してください。この画面は自動で再試行します。",
    notFromGateway: "ゲートウェイ以外からの応答です",
    unexpected: "この画面で予期しないエラーが発生しました",
  },
});
