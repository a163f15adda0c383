/** The kinds of hooks by name, which are the same in all languages but for two. */
import { defineMessages, useMessages } from "../i18n/messages";

export const KINDS = ["token", "github", "stripe", "standard-webhooks", "hmac", "nats"] as const;
export type Kind = (typeof KINDS)[number];
export const OVERLAPS = ["allow", "skip", "reject"] as const;

const messages = defineMessages({
  en: {
    token: "Token",
    github: "GitHub",
    stripe: "Stripe",
    "standard-webhooks": "Standard Webhooks",
    hmac: "HMAC signature",
    nats: "NATS subject",
    allow: "Start another run",
    skip: "Accept the delivery, start nothing",
    reject: "Refuse the delivery (409)",
  },
  ja: {
    token: "トークン",
    github: "GitHub",
    stripe: "Stripe",
    "standard-webhooks": "Standard Webhooks",
    hmac: "HMAC 署名",
    nats: "NATS サブジェクト",
    allow: "並行して開始する",
    skip: "配信を受け付け、run は開始しない",
    reject: "配信を拒否する（409）",
  },
});

export const useHookWords = () => useMessages(messages);
