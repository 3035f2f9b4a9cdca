/**
 * Files on their way into a message: what may not come in, how the others are read, and pictures of them.
 *
 * Below: the contract, texts. A file of its own, since few chats take files: asked for with the first one.
 */
import type { Attachment } from "../chat/contract";
import type { Words } from "../chat/texts";
import type { UploadLimits } from "./attachments";

/** Text files that browsers know no type of. */
const BY_ENDING: Readonly<Record<string, string>> = {
  md: "text/markdown",
  csv: "text/csv",
  txt: "text/plain",
  log: "text/plain",
  yaml: "text/plain",
  yml: "text/plain",
  toml: "text/plain",
  json: "application/json",
};
/** Pixels of the longer side; more is never shown. */
const LONGEST_SIDE = 1_024;

type Refusal = "attachmentRefused" | "attachmentTooLarge" | "attachmentsTooLarge";

function typeOf(file: { readonly name: string; readonly type: string }): string {
  return file.type || BY_ENDING[file.name.toLowerCase().split(".").at(-1) ?? ""] || "application/octet-stream";
}

/** Why the file cannot go with `others`; undefined where it can. */
function refusal(file: File, others: readonly Attachment[], limits: UploadLimits): Refusal | undefined {
  const type = typeOf(file);
  const accepted = limits.accept.some((each) =>
    each.endsWith("*") ? type.startsWith(each.slice(0, -1)) : type === each,
  );
  if (!accepted) return "attachmentRefused";
  if (file.size > limits.maxBytes) return "attachmentTooLarge";
  const total = others.reduce((sum, each) => sum + each.bytes, file.size);
  return total > limits.maxTotalBytes ? "attachmentsTooLarge" : undefined;
}

/** Adds the files to the message, and gives what is wrong with the others, in words. */
export async function readFiles(
  files: Iterable<File>,
  added: () => readonly Attachment[],
  add: (attachment: Attachment) => void,
  limits: UploadLimits,
  { say, bytes }: Words,
  kindOf: (mimeType: string) => Attachment["kind"],
): Promise<string> {
  const problems: string[] = [];
  for (const file of files) {
    const why = refusal(file, added(), limits);
    const limit = bytes(why === "attachmentsTooLarge" ? limits.maxTotalBytes : limits.maxBytes);
    if (why !== undefined) problems.push(say(why, { name: file.name, size: bytes(file.size), limit }));
    else add(await readAttachment(file, kindOf));
  }
  return problems.join(" ");
}

async function readAttachment(file: File, kindOf: (mimeType: string) => Attachment["kind"]): Promise<Attachment> {
  const mimeType = typeOf(file);
  const data = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return { kind: kindOf(mimeType), name: file.name, mimeType, bytes: file.size, data };
}

export async function draw({ data, mimeType }: Attachment, where: () => HTMLCanvasElement | null): Promise<void> {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: mimeType }));
  const canvas = where();
  if (canvas) {
    const scale = Math.min(1, LONGEST_SIDE / Math.max(picture.width, picture.height));
    canvas.width = Math.max(1, Math.round(picture.width * scale));
    canvas.height = Math.max(1, Math.round(picture.height * scale));
    canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  }
  picture.close();
}
