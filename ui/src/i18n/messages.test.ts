import ts from "typescript";
import { describe, expect, it } from "vitest";
import { defineMessages, type Message, type Messages, translator } from "./messages";

type AnyMessages = Messages<Record<string, Message>>;
const files = import.meta.glob<Record<string, unknown>>(
  ["../**/*messages.ts", "../**/*Messages.ts", "!./messages.ts"],
  { eager: true },
);
const sets = Object.entries(files).flatMap(([path, module]) =>
  Object.entries(module).map(([name, set]) => [`${path} ${name}`, set as AnyMessages] as const),
);
const codes = import.meta.glob<string>(["../**/*.{ts,tsx}", "!../**/*essages.ts", "!../**/*.test.*"], {
  eager: true,
  query: "?raw",
  import: "default",
});
const sources = Object.values(codes).join("\n");

/** Words that are the same in both languages: names, and literal input. */
const SAME_EVERYWHERE = new Set([
  "flow.yaml",
  "Pyoco",
  "JSON",
  "SHA-256",
  "NATS",
  "stdout",
  "stderr",
  "/openapi.json",
  "gpu, linux",
  "g",
]);
const ATTRIBUTES =
  /^(title|alt|placeholder|label|hint|note|aria-(label|description|roledescription|valuetext))$/;
const isText = (text: string) => /\p{L}/u.test(text) && !SAME_EVERYWHERE.has(text.trim());

/** Visible texts in a file that are not among the messages. */
function literals(path: string, code: string): string[] {
  const file = ts.createSourceFile(path, code, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX);
  const found: string[] = [];
  const tell = (node: ts.Node, text: string) => {
    if (isText(text))
      found.push(`${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}: ${text.trim()}`);
  };
  /** The texts that an expression may yield, without its conditions. */
  const shown = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node)) tell(node, node.text);
    else if (ts.isTemplateExpression(node))
      tell(node, [node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join(" "));
    else if (ts.isConditionalExpression(node)) [node.whenTrue, node.whenFalse].forEach(shown);
    else if (ts.isBinaryExpression(node)) {
      if (node.operatorToken.kind !== ts.SyntaxKind.AmpersandAmpersandToken) shown(node.left);
      shown(node.right);
    } else if (ts.isParenthesizedExpression(node)) shown(node.expression);
  };
  const look = (node: ts.Node): void => {
    if (ts.isJsxText(node)) tell(node, node.text);
    if (ts.isJsxExpression(node) && node.expression && !ts.isJsxAttribute(node.parent))
      shown(node.expression);
    if (ts.isJsxAttribute(node) && ATTRIBUTES.test(node.name.getText()) && node.initializer) {
      const { initializer } = node;
      shown(ts.isJsxExpression(initializer) ? (initializer.expression ?? initializer) : initializer);
    }
    ts.forEachChild(node, look);
  };
  look(file);
  return found;
}

function placeholders(message: Message): string[] {
  const text = typeof message === "string" ? message : message.other;
  return [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1] ?? "").sort();
}

describe("every text is there in both languages", () => {
  it("finds the texts", () => expect(sets.length).toBeGreaterThan(2));

  it.each(sets)("%s", (_, { en, ja }) => {
    expect(Object.keys(ja).sort()).toEqual(Object.keys(en).sort());
    for (const [key, message] of Object.entries(en)) {
      const japanese = ja[key] ?? "";
      expect(JSON.stringify(message), `${key} is empty in English`).not.toContain('""');
      expect(japanese, `${key} is empty in Japanese`).not.toBe("");
      expect(placeholders(japanese), `placeholders of ${key}`).toEqual(placeholders(message));
    }
  });

  it.each(sets)("%s is not the same text twice", (_, { en, ja }) => {
    const same = Object.entries(en)
      .filter(([key, message]) => typeof message === "string" && message === ja[key])
      .filter(([, message]) => isText((message as string).replace(/\{\w+\}/g, "")));
    expect(same).toEqual([]);
  });

  it.each(sets)("%s uses one Japanese term per concept", (_, { ja }) => {
    const outdated =
      /ホイール|受信箱|取り消|取消|待ち行列|索引|端末|コンマ|ブラウザ(?!ー)|[0-9}] (件|台|回|行|時間|日)/;
    expect(Object.entries(ja).filter(([, text]) => outdated.test(JSON.stringify(text)))).toEqual([]);
  });

  // A key may be composed where it is used: its prefix is searched too.
  it.each(sets)("%s has no text that nobody uses", (_, { en }) => {
    const unused = Object.keys(en).filter((key) => {
      const stem = key.includes(".") ? key.slice(0, key.lastIndexOf(".") + 1) : null;
      return !sources.includes(`"${key}"`) && !(stem && sources.includes(`\`${stem}\${`));
    });
    expect(unused).toEqual([]);
  });
});

describe("no text is written elsewhere", () => {
  const screens = Object.entries(codes).filter(([path]) => path.endsWith(".tsx"));

  it.each(screens)("%s", (path, code) => expect(literals(path, code)).toEqual([]));

  it("or it is found", () => {
    const code = `const A = ({ on, t }) => (
      <p title="Shut" data-x="none" aria-label={on ? "On" : t("off")}>
        {on && "Live"} {t("x")} Hello {on === "a" ? "b" : \`so \${t("y")}\`} · – / <b>flow.yaml</b>
      </p>
    );`;
    const texts = literals("a.tsx", code).map((each) => each.replace(/^\d+: /, ""));
    expect(texts).toEqual(["Shut", "On", "Live", "Hello", "b", "so"]);
  });
});

describe("a text is filled in", () => {
  const texts = defineMessages({
    en: { runs: { one: "{count} run of {flow}", other: "{count} runs of {flow}" }, plain: "Plain" },
    ja: { runs: "{flow} の実行 {count} 件", plain: "普通" },
  });

  it("with the number's own form", () => {
    const t = translator(texts, "en");
    expect(t("runs", { count: 1, flow: "etl" })).toBe("1 run of etl");
    expect(t("runs", { count: 1200, flow: "etl" })).toBe("1,200 runs of etl");
    expect(translator(texts, "ja")("runs", { count: 1, flow: "etl" })).toBe("etl の実行 1 件");
  });

  it("or as it is", () => expect(translator(texts, "ja")("plain")).toBe("普通"));
});
