/** Parses the name of a wheel: `mypackage-1.2.0-cp311-cp311-linux_x86_64.whl`. */
import type { Schemas } from "../../api/client";
import { folded } from "../../lib/folding";

export type Wheel = Schemas["WheelView"];

export interface WheelName {
  package: string;
  version: string;
  /** Python and system; null: all. */
  platform: string | null;
}

/** Package, version, optional build number, Python, ABI and system. */
const PATTERN = /^([^-]+)-([^-]+)(?:-\d[^-]*)?-([^-]+)-([^-]+)-([^-]+)\.whl$/;

export function parseWheelName(file: string): WheelName | null {
  const [, name, version, python, abi, system] = PATTERN.exec(file) ?? [];
  if (!name || !version || !python) return null;
  // Normalised as Python packages are.
  const normal = name.replace(/[-_.]+/g, "-").toLowerCase();
  const everywhere = /^py[23](\.py3)?$/.test(python) && abi === "none" && system === "any";
  return { package: normal, version, platform: everywhere ? null : `${python}-${abi}-${system}` };
}

export interface Package {
  name: string;
  /** Newest first. */
  wheels: Wheel[];
}

/** The gateway lists them by package and version, oldest first. */
export function byPackage(wheels: readonly Wheel[], text = ""): Package[] {
  const packages = new Map<string, Wheel[]>();
  const wanted = folded(text.trim());
  for (const wheel of wheels) {
    if (![wheel.name, ...wheel.tags].some((each) => folded(each).includes(wanted))) continue;
    const name = parseWheelName(wheel.name)?.package ?? wheel.name;
    packages.set(name, [wheel, ...(packages.get(name) ?? [])]);
  }
  return [...packages].map(([name, found]) => ({ name, wheels: found }));
}

/** The newest version of a package in the registry. */
export function newestVersion(wheels: readonly Wheel[], name: string): string | null {
  const found = byPackage(wheels).find((each) => each.name === name);
  return parseWheelName(found?.wheels[0]?.name ?? "")?.version ?? null;
}

/** The number of wheels of the same package, including this one. */
export function versionsOf(wheels: readonly Wheel[], { nuid }: Wheel): number {
  const found = byPackage(wheels).find((each) => each.wheels.some((wheel) => wheel.nuid === nuid));
  return found?.wheels.length ?? 0;
}
