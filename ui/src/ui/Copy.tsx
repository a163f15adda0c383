import { Check, Copy } from "lucide-react";
import { useState } from "react";
import { useMessages } from "../i18n/messages";
import { IconButton } from "./controls";
import { messages } from "./messages";

const SHOWN_MS = 1_500;

/** A button that copies a text and confirms it. */
export function CopyButton({ text }: { text: string }) {
  const t = useMessages(messages);
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), SHOWN_MS);
  };
  const Icon = copied ? Check : Copy;
  return <IconButton label={copied ? t("copied") : t("copy")} icon={<Icon size={14} />} onClick={copy} />;
}
