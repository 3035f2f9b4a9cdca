/** A button that puts a text into the clipboard, and says that it did. */
import { useEffect, useState } from "preact/hooks";
import { IconButton } from "./icon_button";
import { useTexts } from "./texts";

const SHOWN_MS = 1_600;

/** `text` is asked for when it is needed. */
export function CopyButton({ text, label }: { text: () => string; label: string }) {
  const { say } = useTexts();
  const [copied, setCopied] = useState(0);
  useEffect(() => {
    if (copied === 0) return;
    const timer = setTimeout(setCopied, SHOWN_MS, 0);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async (event: MouseEvent) => {
    const button = event.currentTarget as HTMLElement;
    if (await copyText(text(), button)) setCopied(copied + 1);
  };
  return (
    <IconButton icon={copied ? "check" : "copy"} name={copied ? say("copied") : label} title={label} onClick={copy} />
  );
}

/** Whether the text is in the clipboard now. A page without TLS has no clipboard but the old one. */
async function copyText(text: string, beside: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "agui-hidden";
    beside.after(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    beside.focus();
    return done;
  }
}
