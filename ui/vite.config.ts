import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const GATEWAY = "http://127.0.0.1:8000";
const API = /^\/(health|runs|bulk|dlq|workers|waits|wheels|metrics|overview|openapi\.json)/;

export default defineConfig({
  // The gateway serves the built folder below /static, and its index.html at /.
  base: "/static/",
  plugins: [react()],
  build: {
    target: "es2022",
    // A style or script inside the page itself would be refused by the page's own policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  // `npm run dev`: the page from here, the API from a gateway that runs beside.
  server: { proxy: { [API.source]: { target: GATEWAY, changeOrigin: true } } },
  // One DOM for all files: making one takes longer than most tests.
  test: { environment: "jsdom", isolate: false, include: ["src/**/*.test.{ts,tsx}"], restoreMocks: true },
});
