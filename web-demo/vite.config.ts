/**
 * Two builds: the page with its hashed assets (`vite build`), and the widget (`vite build --mode widget`): one file, and
 * beside it in `widget/` what few chats need, asked for when it is needed.
 *
 * Neither html nor script has anything inline, and the widget has no `eval`: both run under a strict
 * Content-Security-Policy. A build that outgrows its budget fails.
 */
import { gzipSync } from "node:zlib";
import type { BuildEnvironmentOptions, Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** What the gateway serves. Not committed; replaced whole by `npm run build`. */
const OUT_DIR = "../gateway/page_files";
/** Where `npm run dev` finds a gateway. */
const GATEWAY = process.env.GATEWAY_URL ?? "http://127.0.0.1:8000";
/** Bytes of gzipped JavaScript. The same file has some bytes more or less with another version of Node. */
const PAGE_BUDGET = 122_000;
const WIDGET_BUDGET = 62_200;

const GATEWAY_PATHS = ["/agents", "/runs", "/threads", "/visitors", "/healthz", "/readyz", "/docs", "/openapi.json"];

export default defineConfig(({ mode }) => ({
  base: "./",
  build: mode === "widget" ? widgetBuild : pageBuild,
  plugins:
    mode === "widget"
      ? [budget("widget.js", WIDGET_BUDGET), plainImports]
      : [budget("the page", PAGE_BUDGET), widgetFromSource],
  server: {
    proxy: Object.fromEntries(
      GATEWAY_PATHS.map((path) => [path, { target: GATEWAY, changeOrigin: true, headers: { origin: GATEWAY } }]),
    ),
  },
  // most of the time they wait: for a gateway, for the network to be there again
  test: { include: ["tests/**/*.test.{ts,tsx}"], testTimeout: 60_000, hookTimeout: 60_000, maxWorkers: "100%" },
}));

/** Browsers that know `light-dark()`: what stands in for it elsewhere does not see the `color-scheme` of a host page. */
const CSS_TARGET = ["chrome123", "firefox121", "safari17.5"];

const pageBuild: BuildEnvironmentOptions = {
  outDir: OUT_DIR,
  emptyOutDir: true,
  target: "es2022",
  cssTarget: CSS_TARGET,
  modulePreload: { polyfill: false },
  assetsInlineLimit: 0,
  license: { fileName: "licenses.md" }, // what is passed on in the bundles, their licenses want named
  rolldownOptions: { input: ["index.html", "shop.html"] },
};

const widgetBuild: BuildEnvironmentOptions = {
  outDir: OUT_DIR,
  emptyOutDir: false,
  copyPublicDir: false,
  target: "es2022",
  cssTarget: CSS_TARGET,
  modulePreload: false,
  license: { fileName: "widget-licenses.md" },
  // no library to Vite: of those it leaves the white space in
  rolldownOptions: {
    input: "src/widget/main.ts",
    preserveEntrySignatures: "strict",
    // without hashes: a page that has the widget of a while ago finds what is beside it
    output: { entryFileNames: "widget.js", chunkFileNames: "widget/[name].js" },
  },
};

/**
 * Fails a build whose scripts, gzipped as they are served, are more than `limit` bytes together. What is not of the start
 * of every page is not counted: the sample shop's own, and what lies beside the widget.
 */
function budget(what: string, limit: number): Plugin {
  return {
    name: "budget",
    apply: "build",
    generateBundle(_options, bundle) {
      const scripts = Object.values(bundle).flatMap((file) => (file.type === "chunk" ? [file] : []));
      const counted = scripts.filter(
        ({ fileName, name }) => !name.startsWith("shop") && !fileName.startsWith("widget/"),
      );
      const bytes = counted.reduce((sum, { code }) => sum + gzipSync(code, { level: 9 }).length, 0);
      this.info(`${what}: ${bytes} bytes of gzipped JavaScript, of ${limit}`);
      if (bytes > limit) this.error(`${what} is ${bytes} bytes of gzipped JavaScript; its budget is ${limit}`);
    },
  };
}

/** What Vite puts around `import()` loads style sheets ahead: here there are none to load. */
const plainImports: Plugin = {
  name: "plain-imports",
  enforce: "pre",
  load: (id) => (id === "\0vite/preload-helper.js" ? "export const __vitePreload = (load) => load();" : undefined),
};

/** In development, `/widget.js` is the widget's source. */
const widgetFromSource: Plugin = {
  name: "widget-from-source",
  apply: "serve",
  configureServer(server) {
    server.middlewares.use((request, _response, next) => {
      if (request.url === "/widget.js") request.url = "/src/widget/main.ts";
      next();
    });
  },
};
