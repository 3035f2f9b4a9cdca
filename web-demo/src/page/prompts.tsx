/**
 * First messages for the demonstration: each shows something else. Its model picks tools by such words, and knows them
 * in English alone; what each of them shows is told in the page's language.
 */
import type { Words } from "../chat/texts";
import type { Prompt } from "../view/chat";
import { Icon } from "../view/icons";
import { PageIcon } from "./icons";

const AHEAD_DAYS = 14;

export function demonstrationPrompts(say: Words["say"]): readonly Prompt[] {
  return [
    {
      icon: <PageIcon name="search" />,
      title: say("promptSearch"),
      text: "What was the population of Seattle in 2023?",
    },
    { icon: <Icon name="shield" />, title: say("promptApproval"), text: "Refund $20 for order 1234" },
    {
      icon: <Icon name="window" />,
      title: say("promptPage"),
      text: `Book a table for 4 guests on ${soon()} as "Ada Lovelace", ada@example.org`,
    },
    {
      icon: <PageIcon name="moon" />,
      title: say("promptTwo"),
      text: "Switch to the dark theme and highlight the booking form",
    },
    {
      icon: <Icon name="list" />,
      title: say("promptList"),
      text: "Add milk to my list and add oat cookies to my list",
    },
    {
      icon: <Icon name="check" />,
      title: say("promptDialog"),
      text: 'Ask me to confirm "Shall we ship the order today?"',
    },
  ];
}

/** A day in two weeks, as YYYY-MM-DD. */
function soon(): string {
  return new Date(Date.now() + AHEAD_DAYS * 86_400_000).toISOString().slice(0, 10);
}
