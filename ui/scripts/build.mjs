// Builds the dashboard into the Python package: in a folder of its own first, so that a gateway or a test
// that reads it meanwhile finds the old one or the new one, and never half of one.
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import openapiTypes, { astToString } from "openapi-typescript";
import { build } from "vite";

const UI = resolve(import.meta.dirname, "..");
const TARGET = resolve(process.argv[2] ?? join(UI, "../src/pyoco_server/dashboard"));
// All screens together; a visitor loads the page and the screens that are opened.
const LIMIT = 520_000;

await writeFile(
  join(UI, "src/api/schema.d.ts"),
  astToString(await openapiTypes(new URL("../openapi.json", import.meta.url))),
);
const fresh = `${TARGET}.${process.pid}`;
await build({ root: UI, logLevel: "warn", build: { outDir: fresh, emptyOutDir: true } });
const size = await compress(fresh);
if (size > LIMIT) throw new Error(`the dashboard has ${size} bytes, compressed: ${LIMIT} are allowed`);
await rm(TARGET, { recursive: true, force: true });
await rename(fresh, TARGET);
process.stdout.write(
  `Built the dashboard: ${Math.round(size / 1000)} kB compressed, all screens together.\n`,
);

/** Put a compressed copy beside each file, which the gateway sends to whoever takes it. */
async function compress(folder) {
  let total = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const small = await promisify(gzip)(await readFile(path), { level: 9 });
    await writeFile(`${path}.gz`, small);
    total += small.length;
  }
  return total;
}
