import { defineMessages } from "../i18n/messages";

export const messages = defineMessages({
  en: {
    unreachable: "The gateway does not answer",
    unreachableCure:
      "Check that it runs and that this machine can reach it. This page tries again by itself.",
    notFromGateway: "The answer is not one of the gateway",
    unexpected: "Something unexpected happened in this page",
  },
  ja: {
    unreachable: "ゲートウェイが応答しません",
    unreachableCure:
      "起動していること、この端末から届くことを確認してください。この画面は自動で再試行します。",
    notFromGateway: "ゲートウェイ以外からの応答です",
    unexpected: "画面で予期しない問題が起きました",
  },
});
