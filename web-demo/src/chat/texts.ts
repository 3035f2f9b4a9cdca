/**
 * Every word that the chat says to a person, by key, in the language of the page around it.
 *
 * Below: unseen. A text may hold `{name}` places; one that depends on a number is given by plural form. Texts are plain
 * JSON, so that a host page can give its own in an attribute; they are only ever shown as text, never read as markup.
 */
import { RIGHT_TO_LEFT_LETTER } from "./direction";
import { english } from "./texts/en";
import type { pageEnglish } from "./texts/en_page";
import { PROSE, spelledOut } from "./unseen";

/** The forms of `Intl.PluralRules`; `other` stands in for those that a language does not have. */
export type PluralText = { readonly [form in Intl.LDMLPluralRule]?: string } & { readonly other: string };

export type TextKey = keyof typeof english | keyof typeof pageEnglish;

/** Texts in another language, or those that a host page says differently. What is missing is said in English. */
export type TextChanges = { readonly [key in TextKey]?: string | PluralText };

export type TextValues = { readonly [place: string]: string | number };

/** What a view asks for words, numbers and times. */
export interface Words {
  /** BCP 47. */
  readonly language: string;
  readonly direction: "ltr" | "rtl";
  /** The text of that key; `count` among the values chooses the plural form. Numbers are written as the language does. */
  say(key: TextKey, values?: TextValues): string;
  number(value: number): string;
  /** 1,400 -> "1.4 s", 95,000 -> "1 min 35 s". */
  duration(milliseconds: number): string;
  /** 1,400,000 -> "1.4 MB". */
  bytes(value: number): string;
  /** "in 14 minutes", "2 days ago", "now". */
  relative(date: Date, now?: Date): string;
  /** Date and time of day, for a tooltip. */
  moment(date: Date): string;
  /** What to tell of a problem: ours where the code is known, else the message that came with it. */
  problem(problem: { readonly code: string; readonly message: string }): string;
}

const RIGHT_TO_LEFT = /^(?:ar|arc|ckb|dv|fa|he|iw|ks|nqo|ps|sd|ug|ur|yi)\b|-(?:Arab|Hebr|Thaa|Nkoo|Syrc)\b/i;
const STEPS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
] as const;
const BYTE_UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;

type ProblemKind = TextKey extends infer Key ? (Key extends `problem_${infer Kind}` ? Kind : never) : never;

/** What problems are to a person, by their codes. Those that are not here say what they are themselves. */
const KINDS: readonly (readonly [RegExp, ProblemKind])[] = [
  [/^network$/, "network"],
  [/^(?:unauthenticated|visitor_\w+)$/, "signed_out"],
  [/^(?:forbidden|\w+_not_allowed|publishable_key_\w+)$/, "forbidden"],
  [/^(?:rate_limited|too_many_)|_per_minute$|_concurrent_/, "rate_limited"],
  [/too_large$/, "too_large"],
  [/conflict$|^superseded$/, "conflict"],
  [/^(?:model_throttled|(?:model_)?overloaded)$/, "busy"],
  [/^stale_history$/, "stale"],
  [/^model_quota$/, "quota"],
  [/context_overflow$/, "context_overflow"],
  [/(?:content_filter|^refusal)$/, "content_filter"],
  [/^model_(?:authentication|not_found|invalid)$/, "setup"],
  [/^model_/, "model"],
  [/not_found$/, "not_found"],
  [/^server_/, "server"],
  [/^store_|_stored_bytes$/, "store"],
];

/** Words in `language`, which `texts` are in; without any, English. `changes` come before them. */
export function wordsIn(language = "en", texts: TextChanges = {}, changes: TextChanges = {}): Words {
  const locale = known(language);
  const plurals = new Intl.PluralRules(locale);
  const numbers = new Intl.NumberFormat(locale);
  const relatives = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  const moments = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
  const unit = (value: number, name: string, digits = 0, unitDisplay: "short" | "long" = "short") =>
    new Intl.NumberFormat(locale, {
      style: "unit",
      unit: name,
      unitDisplay,
      maximumFractionDigits: digits,
    }).format(value);

  const direction = RIGHT_TO_LEFT.test(locale) ? "rtl" : "ltr";
  /** A value in a sentence: whatever it is made of, the words around it stay where they are. */
  const placed = (value: string) => {
    const text = spelledOut(value, PROSE);
    return direction === "rtl" || RIGHT_TO_LEFT_LETTER.test(text) ? `\u2068${text}\u2069` : text;
  };

  const words: Words = {
    language: locale,
    direction,
    say(key, values = {}) {
      const text = changes[key] ?? texts[key] ?? (english as TextChanges)[key] ?? key;
      const form = typeof text === "string" ? text : (text[plurals.select(Number(values.count ?? 0))] ?? text.other);
      return form.replace(/\{(\w+)\}/g, (place, name: string) => {
        const value = values[name];
        return value === undefined ? place : typeof value === "number" ? numbers.format(value) : placed(value);
      });
    },
    number: (value) => numbers.format(value),
    duration(milliseconds) {
      if (milliseconds < 100) return unit(Math.max(1, Math.round(milliseconds)), "millisecond");
      const seconds = milliseconds / 1_000;
      if (seconds < 59.5) return unit(seconds, "second", seconds < 10 ? 1 : 0);
      const whole = Math.round(seconds);
      return `${unit(Math.floor(whole / 60), "minute")} ${unit(whole % 60, "second")}`;
    },
    bytes(value) {
      const power = Math.min(Math.floor(Math.log10(Math.max(value, 1)) / 3), BYTE_UNITS.length - 1);
      if (power === 0) return unit(value, "byte", 0, "long");
      return unit(value / 1_000 ** power, BYTE_UNITS[power] ?? "byte", power > 1 ? 1 : 0);
    },
    relative(date, now = new Date()) {
      const distance = date.getTime() - now.getTime();
      const [name, length] = STEPS.find(([, length]) => Math.abs(distance) >= length) ?? STEPS[3];
      return relatives.format(Math.trunc(distance / length), name);
    },
    moment: (date) => moments.format(date),
    problem({ code, message }) {
      const kind = KINDS.find(([codes]) => codes.test(code))?.[1];
      return kind ? words.say(`problem_${kind}`) : message || words.say("problem_unknown");
    },
  };
  return words;
}

/** The language as Intl takes it; English for what is none. */
function known(language: string): string {
  try {
    return Intl.getCanonicalLocales(language)[0] ?? "en";
  } catch {
    return "en";
  }
}
