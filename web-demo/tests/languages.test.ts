/** The languages: complete, with the same places as English, in every plural form that each has; and how words are made. */

import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { fetchWords, LANGUAGES, textsFile } from "../src/chat/languages";
import { type PluralText, wordsIn } from "../src/chat/texts";
import { english } from "../src/chat/texts/en";

type Table = Record<string, string | PluralText>;

let server: Server;
let url: string;

const read = (language: string) => readFileSync(new URL(`../public/texts/${language}.json`, import.meta.url), "utf8");

beforeAll(async () => {
  server = createServer(({ url: path }, response) => {
    const [, language] = path?.match(/^\/texts\/(\w+)\.json$/) ?? [];
    if (language === "fr") response.writeHead(500).end();
    else response.end(read(language ?? ""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => new Promise((resolve) => server.close(resolve)));

const places = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort();

test.each(LANGUAGES)("%s says everything that English says", (language) => {
  const table = JSON.parse(read(language)) as Table;
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
});

test("problems are told by their codes, and by themselves where no words are known", () => {
  const { problem } = wordsIn();
  expect(problem({ code: "model_overloaded", message: "503" })).toBe(english.problem_busy);
  expect(problem({ code: "model_not_found", message: "404" })).toBe(english.problem_model);
  expect(problem({ code: "agent_not_found", message: "404" })).toBe(english.problem_not_found);
  expect(problem({ code: "limit_visitor_runs_per_minute", message: "429" })).toBe(english.problem_rate_limited);
  expect(problem({ code: "message_too_large", message: "413" })).toBe(english.problem_too_large);
  expect(problem({ code: "limit_max_tool_calls", message: "Too many calls." })).toBe("Too many calls.");
  expect(problem({ code: "odd", message: "" })).toBe(english.problem_unknown);
});
