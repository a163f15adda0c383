import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const GATEWAY = "http://127.0.0.1:8000";
const BASE = "/static/";
// The hook is a package of its own; the dashboard is built from its source.
const HOOK = fileURLToPath(new URL("packages/react/src", import.meta.url));
const API =
  /^\/(health|runs|flows|bulk|dlq|workers|waits|wheels|metrics|overview|key|resume|schedules|events|hooks|api\/workflow|openapi\.json)/;

const link = (rel: string, file: string) => ({
  tag: "link",
  attrs: { rel, href: `${BASE}${file}` },
  injectTo: "head" as const,
});

/** The page names all that it is made of: the browser asks for the first script and for the rest at once. */
const namedInPage: Plugin = {
  name: "named-in-page",
  transformIndexHtml: {
    order: "post",
    handler(_, { bundle = {} }) {
      const chunks = Object.values(bundle).filter((each) => each.type === "chunk");
      const main = chunks.find((each) => each.facadeModuleId?.endsWith("/src/main.tsx"));
      const entry = chunks.find((each) => each.isEntry);
      const seen = new Set(main && [main.fileName, ...main.imports]);
      const known = new Set(entry && [entry.fileName, ...entry.imports]);
      return chunks
        .filter(({ fileName }) => seen.has(fileName) && !known.has(fileName))
        .flatMap(({ fileName, viteMetadata }) => [
          link("modulepreload", fileName),
          ...[...(viteMetadata?.importedCss ?? [])].map((css) => link("stylesheet", css)),
        ]);
    },
  },
};

export default defineConfig({
  // The gateway serves the built folder below /static, and its index.html at /.
  base: BASE,
  plugins: [react(), namedInPage],
  resolve: { alias: { "pyoco-server-react": HOOK } },
  build: {
    target: "es2022",
    // A style or script inside the page itself would be refused by the page's own policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            // What the first script needs, and nothing more.
            {
              name: "start",
              test: /src\/app\/(router|routes)\.ts$|node_modules\/react\//,
              priority: 2,
            },
            // By itself, since it is also the script of a thread.
            { name: "schemaWorker", test: /schemaWorker\.ts$|node_modules\/@cfworker/, priority: 2 },
            // What every screen needs, in one piece: a browser has few connections to one host.
            {
              name: "page",
              test: /src\/(api|app|i18n|lib|ui)\b(?!.*(menus|eventStream))|node_modules\/(react-dom|scheduler|lucide-react|openapi-fetch|@tanstack\/(react-)?query)/,
              priority: 1,
            },
            // Screens that lead to each other, and what they share: together they are smaller.
            { name: "hooks", test: /src\/screens\/hook/ },
            { name: "events", test: /src\/screens\/(events|template)/ },
            { name: "requests", test: /src\/(requests\/|screens\/(request|doctor))/ },
            { name: "triggers", test: /src\/triggers\// },
          ],
        },
      },
    },
  },
  // `npm run dev`: the page from here, the API from a gateway that runs beside.
  server: { proxy: { [API.source]: { target: GATEWAY, changeOrigin: true } } },
  // One DOM for all files: making one takes longer than most tests.
  test: {
    environment: "jsdom",
    isolate: false,
    include: ["{src,packages/*/src}/**/*.test.{ts,tsx}"],
    restoreMocks: true,
    setupFiles: "vitest.setup.ts",
  },
});
