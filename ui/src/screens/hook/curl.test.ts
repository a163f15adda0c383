// @vitest-environment node
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { curlExample } from "./curl";

const PLAIN = {
  header: "",
  algorithm: "sha256" as const,
  encoding: "hex" as const,
  prefix: "",
  timestamp_header: "",
  signed_text: "",
};
const ADDRESS = "https://example.org/hooks/orders";
const BODY = '{"hello": "world"}';

/** The headers and the body that a shell would send, with `curl` replaced by a function that prints them. */
function sentBy(kind: string, secret: string, signature = PLAIN) {
  const script = curlExample({ kind, signature, subject: null } as never, ADDRESS, secret);
  const printed = execFileSync(
    "sh",
    ["-c", `curl() { for each; do printf '%s\\n' "$each"; done; }\n${script}`],
    {
      encoding: "utf-8",
    },
  );
  const words = printed.split("\n");
  const headers = words.filter((_, at) => words[at - 1] === "-H").map((each) => each.split(/: (.*)/s));
  return { address: words[0], body: words[words.indexOf("-d") + 1], ...Object.fromEntries(headers) };
}

const signed = (secret: string | Buffer, text: string, algorithm = "sha256") =>
  createHmac(algorithm, secret).update(text);

describe("the example of a delivery", () => {
  it("sends the token in a header", () => {
    const sent = sentBy("token", "it's a $ecret");
    expect(sent).toMatchObject({ address: ADDRESS, body: BODY, Authorization: "Bearer it's a $ecret" });
    expect(sentBy("token", "s3", { ...PLAIN, header: "X-Token" })["X-Token"]).toBe("s3");
  });

  it("is signed as GitHub signs", () => {
    const sent = sentBy("github", "s3cret");
    expect(sent["X-Hub-Signature-256"]).toBe(`sha256=${signed("s3cret", BODY).digest("hex")}`);
    expect(sent["X-GitHub-Delivery"]).toMatch(/^[0-9a-f]{32}$/);
  });

  it("is signed as Stripe signs", () => {
    const sent = sentBy("stripe", "whsec_abc");
    const [, time, signature] = /^t=(\d+),v1=([0-9a-f]+)$/.exec(sent["Stripe-Signature"]) ?? [];
    expect(signature).toBe(signed("whsec_abc", `${time}.${BODY}`).digest("hex"));
  });

  it("is signed as Standard Webhooks says", () => {
    const key = Buffer.from([0, 1, 2, 250, 251, 252, 10, 13]);
    const sent = sentBy("standard-webhooks", `whsec_${key.toString("base64")}`);
    const text = `${sent["webhook-id"]}.${sent["webhook-timestamp"]}.${BODY}`;
    expect(sent["webhook-signature"]).toBe(`v1,${signed(key, text).digest("base64")}`);
  });

  it("follows the options of a plain HMAC", () => {
    expect(sentBy("hmac", "k")["X-Signature"]).toBe(signed("k", BODY).digest("hex"));
    const sent = sentBy("hmac", "k", {
      ...PLAIN,
      header: "X-Proof",
      algorithm: "sha512" as never,
      encoding: "base64" as never,
      prefix: "v0=",
      timestamp_header: "X-Time",
      signed_text: "v0:{timestamp}:{body}",
    });
    const text = `v0:${sent["X-Time"]}:${BODY}`;
    expect(sent["X-Proof"]).toBe(`v0=${signed("k", text, "sha512").digest("base64")}`);
  });

  it("executes nothing that somebody has typed into the hook", () => {
    const bait = "$(printf bait)`printf bait`$BODY'\"\\";
    const sent = sentBy("hmac", "k", {
      ...PLAIN,
      header: "X-$BODY`id`'",
      prefix: bait,
      timestamp_header: "X-`id`$HOME",
      signed_text: `${bait}{timestamp}{body}${bait}`,
    });
    const text = `${bait}${sent["X-`id`$HOME"]}${BODY}${bait}`;
    expect(sent["X-$BODY`id`'"]).toBe(`${bait}${signed("k", text).digest("hex")}`);
    expect(sentBy("token", "s3", { ...PLAIN, header: "X-$BODY'" })["X-$BODY'"]).toBe("s3");
  });

  it("is a message for a NATS subject", () => {
    const hook = { kind: "nats", signature: PLAIN, subject: "pyoco.in.orders" } as never;
    expect(curlExample(hook, ADDRESS, null)).toBe(`nats pub 'pyoco.in.orders' '${BODY}'`);
  });
});
