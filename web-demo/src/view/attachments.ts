/** Files that go with a message: which may, how large they may be, and how they are read. Below: the contract. */
import type { Attachment } from "../chat/contract";

export interface UploadLimits {
  /** MIME types, `image/*` for all of a kind. */
  readonly accept: readonly string[];
  /** Of one file. */
  readonly maxBytes: number;
  /** Of all files of a message together. */
  readonly maxTotalBytes: number;
}

/** A request of 10 MB, which is what a gateway takes unless told otherwise, with the files in base64. */
export const UPLOADS: UploadLimits = {
  accept: [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "application/json",
    "text/*",
    "application/vnd.openxmlformats-officedocument.*",
  ],
  maxBytes: 5_000_000,
  maxTotalBytes: 7_000_000,
};

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
const SHOWN_IMAGES = /^image\/(?:png|jpeg|gif|webp|avif)$/;

export type Refusal = "attachmentRefused" | "attachmentTooLarge" | "attachmentsTooLarge";

export function typeOf(file: { readonly name: string; readonly type: string }): string {
  return file.type || BY_ENDING[file.name.toLowerCase().split(".").at(-1) ?? ""] || "application/octet-stream";
}

/** Why the file cannot go with `others`; undefined where it can. */
export function refusal(file: File, others: readonly Attachment[], limits: UploadLimits): Refusal | undefined {
  const type = typeOf(file);
  const accepted = limits.accept.some((each) =>
    each.endsWith("*") ? type.startsWith(each.slice(0, -1)) : type === each,
  );
  if (!accepted) return "attachmentRefused";
  if (file.size > limits.maxBytes) return "attachmentTooLarge";
  const total = others.reduce((sum, each) => sum + each.bytes, file.size);
  return total > limits.maxTotalBytes ? "attachmentsTooLarge" : undefined;
}

export async function readAttachment(file: File): Promise<Attachment> {
  const mimeType = typeOf(file);
  const data = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return { kind: kindOf(mimeType), name: file.name, mimeType, bytes: file.size, data };
}

/** Whether a browser shows it as a picture without running anything in it. */
export function isShownImage({ mimeType, data }: Attachment): boolean {
  return SHOWN_IMAGES.test(mimeType) && data !== "";
}

function kindOf(mimeType: string): Attachment["kind"] {
  const kind = mimeType.split("/")[0];
  if (SHOWN_IMAGES.test(mimeType)) return "image";
  return kind === "audio" || kind === "video" ? kind : "document";
}
