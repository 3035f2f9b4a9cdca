import { ExportedMessageRepository, type ThreadHistoryAdapter } from "@assistant-ui/react";
import { fromAgUiMessages } from "@assistant-ui/react-ag-ui";

const gateway = "http://127.0.0.1:8000";

export function threadHistory(threadId: string): ThreadHistoryAdapter {
  return {
    async load() {
      const messages = [];
      let interrupts = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const page: Response = await fetch(`${gateway}/threads/${threadId}/messages?limit=500${cursor && `&cursor=${cursor}`}`);
        if (page.status === 404) break; // nothing was said yet
        const listed = await page.json();
        messages.push(...listed.messages);
        ({ interrupts, nextCursor: cursor } = listed);
      }
      const asking = messages.findLast(({ role }) => role === "assistant");
      if (interrupts.length > 0) asking.metadata = { custom: { agui: { interrupts } } };
      return ExportedMessageRepository.fromArray(fromAgUiMessages(messages));
    },
    async append() {}, // the gateway keeps what is said
  };
}
