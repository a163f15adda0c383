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
const sources = Object.values(
  import.meta.glob<string>(["../**/*.{ts,tsx}", "!../**/*essages.ts", "!../**/*.test.*"], {
    eager: true,
    query: "?raw",
    import: "default",
  }),
).join("\n");

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

  // A key may be put together where it is used: its beginning is looked for as well.
  it.each(sets)("%s has no text that nobody uses", (_, { en }) => {
    const unused = Object.keys(en).filter((key) => {
      const stem = key.includes(".") ? key.slice(0, key.lastIndexOf(".") + 1) : null;
      return !sources.includes(`"${key}"`) && !(stem && sources.includes(`\`${stem}\${`));
    });
    expect(unused).toEqual([]);
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
