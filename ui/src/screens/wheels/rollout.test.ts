import { describe, expect, it } from "vitest";
import type { Schemas } from "../../api/client";
import { rolloutOf } from "./rollout";

type Sync = Schemas["WorkerView"]["wheel_sync"];

const HOST = { name: "h", system: "Linux x86_64", python: "3.11.2", cpus: 2, memory_bytes: null };
const worker = (worker_id: string, sync: Partial<Sync>, host: typeof HOST | null = HOST) =>
  ({
    worker_id,
    host,
    wheel_sync: {
      enabled: true,
      installed_wheels: [],
      skipped_incompatible: [],
      failed_wheels: [],
      selected_wheels: [],
      ...sync,
    },
  }) as unknown as Schemas["WorkerView"];

const WHEEL = { nuid: "n1", name: "shop-1.0-py3-none-any.whl" };
const installed = (nuid: string, missing: string[] = []) => ({ nuid, missing }) as never;
const skipped = (needs: string | null, expected: string | null) => ({
  name: WHEEL.name,
  reason: "in English",
  needs,
  expected,
});

describe("the workers of a wheel", () => {
  it("are those that have this upload of it", () => {
    const of = rolloutOf([
      worker("a", { installed_wheels: [installed("n1", ["requests>=2"])] }),
      worker("b", { installed_wheels: [installed("n0")] }),
    ]).of(WHEEL);
    expect(of.installed).toEqual([{ worker: "a", missing: ["requests>=2"] }]);
    expect(of.refused).toEqual([]);
  });

  it("that cannot install it say what they lack", () => {
    const of = rolloutOf([
      worker("a", { skipped_incompatible: [skipped("python", ">=3.12")] }),
      worker("b", { skipped_incompatible: [skipped("platform", "cp312-cp312-win_amd64")] }),
      worker("c", { failed_wheels: [{ name: WHEEL.name, reason: "pip ended with code 1" }] }),
      worker("old", { skipped_incompatible: [skipped(null, null)] }, null),
    ]).of(WHEEL);
    expect(of.refused.map(({ worker, needs, has }) => [worker, needs, has])).toEqual([
      ["a", "python", "3.11.2"],
      ["b", "platform", "Linux x86_64"],
      ["c", null, ""],
      ["old", null, ""],
    ]);
    expect(of.refused[3]?.reason).toBe("in English");
  });

  it("install it later, or never", () => {
    const rollout = rolloutOf([
      worker("soon", { selected_wheels: [WHEEL.name] }),
      worker("off", { enabled: false }),
    ]);
    expect(rollout.of(WHEEL).pending).toEqual(["soon"]);
    expect(rollout.off).toBe(1);
  });
});
