/** Which room knows which, and who may use what comes from elsewhere. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const SOURCE = join(import.meta.dirname, "../src");

/** What a room may import from others, as the beginning of a path in `src`. */
const KNOWS: { readonly [room: string]: readonly string[] } = {
  wire: ["chat/contract", "chat/json"],
  chat: ["wire/"],
  view: ["chat/contract", "chat/json", "chat/texts", "chat/direction", "chat/unseen"],
  page: ["view/", "chat/", "wire/"],
  widget: ["view/", "chat/", "wire/"],
  shop: ["widget/element"], // a website of somebody else: it knows the element's type
};
const HOMES: { readonly [name: string]: readonly string[] } = {
  "@ag-ui/client": ["wire/http_agent_reader.ts"],
  marked: ["view/"],
  preact: ["view/", "page/", "widget/"],
  "preact/hooks": ["view/", "page/", "widget/"],
  "@preact/signals": ["chat/", "view/", "page/", "widget/"],
};

interface Import {
  readonly file: string;
  /** A path in `src`, or a package's name. */
  readonly what: string;
  readonly isForeign: boolean;
}

const files = readdirSync(SOURCE, { recursive: true, encoding: "utf-8" }).filter((file) => /\.tsx?$/.test(file));
const imports = files.flatMap((file): Import[] => {
  const text = readFileSync(join(SOURCE, file), "utf-8");
  return [...text.matchAll(/(?:\bfrom|^import) "([^"]+)";/gm)].map(([, from = ""]) => {
    const isForeign = !from.startsWith(".");
    return { file, what: isForeign ? from : join(file, "..", from), isForeign };
  });
});

test("the imports are found", () => {
  expect(imports.length).toBeGreaterThan(100);
  expect(new Set(files.map((file) => file.split("/")[0]))).toEqual(new Set(Object.keys(KNOWS)));
});

test.each(Object.keys(KNOWS))("%s knows only the rooms that it may", (room) => {
  const strange = imports.filter(({ file, what, isForeign }) => {
    if (isForeign || !file.startsWith(`${room}/`) || what.startsWith(`${room}/`)) return false;
    return !KNOWS[room]?.some((beginning) => what.startsWith(beginning));
  });
  expect(strange).toEqual([]);
});

test("each foreign package is used in its home alone", () => {
  const strange = imports.filter(({ file, what, isForeign }) => {
    return isForeign && !HOMES[what]?.some((home) => file.startsWith(home));
  });
  expect(strange).toEqual([]);
});

test("the widget does without the big client", () => {
  expect(imports.filter(({ file, what }) => file.startsWith("widget/") && what.includes("http_agent"))).toEqual([]);
});
