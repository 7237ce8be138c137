// How the page is built: into the Python package, where the studio's server finds it.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/regard/studio/static",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    assetsInlineLimit: 0,
    sourcemap: false,
  },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
