import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const server = "http://127.0.0.1:7700"; // `make serve`, while `npm run dev` shows the page as it is written

export default defineConfig({
  plugins: [react()],
  // The library's own has the browser make HTML of a text, which the content security policy forbids.
  resolve: { alias: { "decode-named-character-reference": "/src/ui/entities.ts" } },
  build: {
    outDir: "../packages/memorist/src/memorist/server/site",
    emptyOutDir: true,
    assetsInlineLimit: 0, // what is inlined would need holes in the content security policy
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  server: { proxy: Object.fromEntries(["/api", "/healthz", "/readyz"].map((path) => [path, server])) },
  // A process for each file would take five times as long; the files leave nothing behind.
  test: { include: ["src/**/*.test.ts"], pool: "threads", isolate: false },
});
