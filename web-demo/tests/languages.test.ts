/** The languages: complete, with the same places as English, in every plural form that each has; and how words are made. */

import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { fetchWords, LANGUAGES, spokenOf, textsFile } from "../src/chat/languages";
import { type PluralText, wordsIn } from "../src/chat/texts";
import { english } from "../src/chat/texts/en";
import { pageEnglish } from "../src/chat/texts/en_page";

type Table = Record<string, string | PluralText>;

let server: Server;
let url: string;

const read = (language: string) => readFileSync(new URL(`../public/texts/${language}.json`, import.meta.url), "utf8");

beforeAll(async () => {
  server = createServer(({ url: path }, response) => {
    const [, language] = path?.match(/^\/texts\/((?:page\/)?\w+)\.json$/) ?? [];
    if (language === "fr" || language === "page/es") response.writeHead(500).end();
    else response.end(read(language ?? ""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => new Promise((resolve) => server.close(resolve)));

const places = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort();

test.each([
  ...LANGUAGES.map((each) => [each, "", english] as const),
  ...LANGUAGES.map((each) => [each, "page/", pageEnglish] as const),
])("%s says everything that English says (%s)", (language, folder, english) => {
  const table = JSON.parse(read(folder + language)) as Table;
  expect(Object.keys(table)).toEqual(Object.keys(english));
  for (const [key, text] of Object.entries(english as Table)) {
    const translated = table[key];
    if (typeof text === "string") {
      expect(typeof translated, key).toBe("string");
      expect(places(translated as string), key).toEqual(places(text));
    } else {
      const { pluralCategories } = new Intl.PluralRules(language).resolvedOptions();
      const rare = ["many", "two"]; // what counts of answers never are
      for (const form of pluralCategories.filter((each) => !rare.includes(each) || language === "ar")) {
        expect(Object.keys(translated as PluralText), `${key} ${form}`).toContain(form);
      }
    }
  }
});

test("numbers, plurals and times are the language's own", () => {
  const { say, number, duration, bytes, relative } = wordsIn("ar", JSON.parse(read("ar")));
  expect(say("unread", { count: 2 })).toBe("إجابتان جديدتان");
  expect(wordsIn("de-CH", JSON.parse(read("de"))).bytes(1_400_000)).toBe("1.4 MB");
  expect(wordsIn("de").duration(1_400)).toMatch(/^1,4\sSek/);
  expect(wordsIn("en").duration(95_000)).toBe("1 min 35 sec");
  const now = new Date();
  expect(wordsIn("fr").relative(new Date(now.getTime() + 14 * 60_000), now)).toBe("dans 14 minutes");
  expect([number(5), duration(5_000), bytes(5), relative(now, now)].every((text) => text.length > 0)).toBe(true);
});

test.each([
  ["he", "rtl"],
  ["ar-EG", "rtl"],
  ["fa", "rtl"],
  ["ckb", "rtl"],
  ["az-Arab", "rtl"],
  ["az", "ltr"],
  ["en", "ltr"],
  ["no such language", "ltr"],
])("%s is written %s", (language, direction) => {
  expect(wordsIn(language).direction).toBe(direction);
});

test("a language is found by its first part, and those without a file are English unless the page speaks them", async () => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  expect(["de-AT", "iw", "zh-Hant-TW", "PT_br", "en-GB", "sv"].map(textsFile)).toEqual([
    "de",
    "he",
    "zh",
    "pt",
    undefined,
    undefined,
  ]);
  const german = await fetchWords(url, "de-AT", { send: "Ab die Post" });
  expect([german.language, german.say("send"), german.say("stop")]).toEqual(["de-AT", "Ab die Post", "Anhalten"]);
  expect((await fetchWords(url, "sv")).language).toBe("en");
  const swedish = await fetchWords(url, "sv", { send: "Skicka" });
  expect([swedish.language, swedish.say("send"), swedish.say("stop")]).toEqual(["sv", "Skicka", "Stop"]);
  expect((await fetchWords(url, "fr")).say("send")).toBe("Send"); // the file did not come
  expect((await fetchWords(url, "en-GB")).language).toBe("en-GB");
});

test("words in simplified Chinese say that they are, also to those who write it otherwise", async () => {
  const spoken = async (language: string) => (await fetchWords(url, language)).language;
  expect(await Promise.all(["zh", "zh-CN", "zh-TW", "zh-Hant", "zh-Hant-HK"].map(spoken))).toEqual([
    "zh",
    "zh-CN",
    "zh-Hans",
    "zh-Hans",
    "zh-Hans",
  ]);
});

test("a browser's languages are gone through in its order, and English counts as one", () => {
  expect(spokenOf(["sv", "de-AT", "fr"])).toBe("de-AT");
  expect(spokenOf(["sv", "en-GB", "fr"])).toBe("en-GB");
  expect(spokenOf(["sv", "enm"])).toBe("en");
  expect(spokenOf([])).toBe("en");
});

test("what only the page says comes from a file of its own; without it all is English", async () => {
  const more = { english: pageEnglish, folder: "texts/page" };
  const german = await fetchWords(url, "de", {}, more);
  expect([german.say("send"), german.say("book")]).toEqual(["Senden", "Reservieren"]);
  const spanish = await fetchWords(url, "es", {}, more);
  expect([spanish.language, spanish.say("send"), spanish.say("book")]).toEqual(["en", "Send", "Book"]);
});

test("problems are told by their codes, and by themselves where no words are known", () => {
  const { problem } = wordsIn();
  expect(problem({ code: "model_overloaded", message: "503" })).toBe(english.problem_busy);
  expect(problem({ code: "model_not_found", message: "404" })).toBe(english.problem_setup);
  expect(problem({ code: "model_server", message: "500" })).toBe(english.problem_model);
  expect(problem({ code: "agent_not_found", message: "404" })).toBe(english.problem_not_found);
  expect(problem({ code: "limit_visitor_runs_per_minute", message: "429" })).toBe(english.problem_rate_limited);
  expect(problem({ code: "message_too_large", message: "413" })).toBe(english.problem_too_large);
  expect(problem({ code: "limit_max_stored_bytes", message: "429" })).toBe(english.problem_store);
  expect(problem({ code: "limit_max_tool_calls", message: "Too many calls." })).toBe("Too many calls.");
  expect(problem({ code: "odd", message: "" })).toBe(english.problem_unknown);
});
