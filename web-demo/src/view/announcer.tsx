/** What a screen reader is told: a finished answer, once, and that the person is asked something. Never single tokens. */
import { effect, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Entry } from "../chat/contract";
import { useChat } from "./chat_context";
import { plainText } from "./markdown";
import { MarkdownReader } from "./markdown_blocks";
import { useTexts } from "./texts";

/** What is further back than so many entries changes no more. */
const RECENT = 12;
const MOST_CHARACTERS = 1_500;

export function Announcer() {
  const { conversation } = useChat();
  const { say } = useTexts();
  const words = useSignal("");
  const open = useRef(new WeakSet<Entry>());
  const seen = useRef(new WeakSet<Entry>());
  const told = useRef(new WeakMap<Entry, string>());
  const asked = useRef(new WeakSet<object>());
  const last = useRef<readonly Entry[]>([]);

  const listen = () => {
    const entries = conversation.entries.value;
    const news: string[] = [];
    const answers: Entry[] = [];
    // Of a thread that was just opened nothing was seen before, and nothing is news.
    const isGoingOn = entries.some((entry) => seen.current.has(entry));
    for (const entry of entries.slice(-RECENT)) {
      const question = entry.kind === "call" ? entry.question.value : undefined;
      if (question !== undefined && !asked.current.has(question)) {
        asked.current.add(question);
        news.push(question.text);
      }
      const cameWhole = isGoingOn && !seen.current.has(entry); // between two frames, or in a tab that draws none
      seen.current.add(entry);
      if (entry.kind !== "answer") continue;
      if (entry.open.value) {
        open.current.add(entry);
        continue;
      }
      const text = entry.text.value; // which is over, and changes where it is taken back
      const isAnother = told.current.has(entry) && told.current.get(entry) !== text;
      if (open.current.delete(entry) || cameWhole || isAnother) {
        news.push(spoken(text));
        answers.push(entry);
      }
      told.current.set(entry, text);
    }
    for (const approval of conversation.approvals.value) {
      if (asked.current.has(approval)) continue;
      asked.current.add(approval);
      news.push(`${say("approvalNeeded")}: ${approval.message || approval.toolName}`);
    }
    const isGone = last.current.some((entry) => !entries.includes(entry)); // its words are not left to be found
    if (news.length === 0 && !isGone) return;
    words.value = news.join("\n");
    last.current = answers;
  };
  useLayoutEffect(() => effect(listen), [conversation, say]);

  return (
    <div class="agui-hidden" role="status" aria-live="polite" data-testid="announcer">
      {words}
    </div>
  );
}

/** The words of the answer's beginning: nobody wants to hear a long one to its end before they can go on. */
function spoken(text: string): string {
  const words = plainText(new MarkdownReader().read(text.slice(0, 2 * MOST_CHARACTERS), true));
  return words.length > MOST_CHARACTERS || text.length > 2 * MOST_CHARACTERS
    ? `${words.slice(0, MOST_CHARACTERS)}…`
    : words;
}
