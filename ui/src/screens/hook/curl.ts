/** A delivery as commands for a terminal, signed as the hook expects it. */
import { quoted } from "../../lib/commands";
import type { Hook } from "../../triggers/hookApi";

const BODY = `'{"hello": "world"}'`;
const NEW_ID = "$(openssl rand -hex 16)";

/** What stands in the place of these in the signed text. */
const VARIABLES = new Map([
  ["{timestamp}", '"$TIME"'],
  ["{body}", '"$BODY"'],
]);

type Signed = Pick<Hook, "kind" | "signature" | "subject">;

/** The address of the hook: as configured, or that of this page. */
export const addressOf = (hook: Pick<Hook, "url" | "path">): string =>
  hook.url ?? `${location.origin}${hook.path}`;

/** `secret` is null where it is not shown any more. */
export function curlExample(hook: Signed, address: string, secret: string | null): string {
  if (hook.kind === "nats") return `nats pub ${quoted(hook.subject ?? "")} ${BODY}`;
  const lines = [`SECRET=${quoted(secret ?? "...")}`, `BODY=${BODY}`, ...signing(hook)];
  const headers = [`"Content-Type: application/json"`, ...headersOf(hook)];
  const sent = headers.map((header) => `  -H ${header} \\`);
  return [...lines, `curl ${quoted(address)} \\`, ...sent, `  -d "$BODY"`].join("\n");
}

/** HMAC of a text on standard input. */
const hmac = (algorithm: string, output: string, key = '-hmac "$SECRET"'): string =>
  `openssl dgst -${algorithm} ${key} ${output}`;
const HEX = "-hex | sed 's/^.* //'";
const BASE64 = "-binary | openssl base64 -A";

function signing({ kind, signature }: Signed): string[] {
  const body = `printf '%s' "$BODY"`;
  switch (kind) {
    case "github":
      return [`SIGNATURE=$(${body} | ${hmac("sha256", HEX)})`];
    case "stripe":
      return ["TIME=$(date +%s)", `SIGNATURE=$(printf '%s' "$TIME.$BODY" | ${hmac("sha256", HEX)})`];
    case "standard-webhooks":
      return [
        `ID=msg_${NEW_ID}`,
        "TIME=$(date +%s)",
        `KEY=$(printf '%s' "\${SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')`,
        `SIGNATURE=$(printf '%s' "$ID.$TIME.$BODY" | ${hmac("sha256", BASE64, "-mac HMAC -macopt hexkey:$KEY")})`,
      ];
    case "hmac": {
      const timed = signature.timestamp_header !== "";
      const form = signature.signed_text || (timed ? "{timestamp}.{body}" : "{body}");
      const text = form
        .split(/(\{timestamp\}|\{body\})/)
        .filter(Boolean)
        .map((part) => VARIABLES.get(part) ?? quoted(part))
        .join("");
      const output = signature.encoding === "base64" ? BASE64 : HEX;
      return [
        ...(timed ? ["TIME=$(date +%s)"] : []),
        `SIGNATURE=$(printf '%s' ${text} | ${hmac(signature.algorithm, output)})`,
      ];
    }
    default:
      return [];
  }
}

/** Words of the shell: what people have typed into the hook is quoted. */
function headersOf({ kind, signature }: Signed): string[] {
  switch (kind) {
    case "github":
      return [
        `"X-GitHub-Event: push"`,
        `"X-GitHub-Delivery: ${NEW_ID}"`,
        `"X-Hub-Signature-256: sha256=$SIGNATURE"`,
      ];
    case "stripe":
      return [`"Stripe-Signature: t=$TIME,v1=$SIGNATURE"`];
    case "standard-webhooks":
      return [`"webhook-id: $ID"`, `"webhook-timestamp: $TIME"`, `"webhook-signature: v1,$SIGNATURE"`];
    case "hmac":
      return [
        ...(signature.timestamp_header ? [`${quoted(`${signature.timestamp_header}: `)}"$TIME"`] : []),
        `${quoted(`${signature.header || "X-Signature"}: ${signature.prefix}`)}"$SIGNATURE"`,
      ];
    default:
      return [`${quoted(signature.header ? `${signature.header}: ` : "Authorization: Bearer ")}"$SECRET"`];
  }
}
