/** Files that go with a message: which may, how large they may be, and which are pictures. Below: the contract. */
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

const SHOWN_IMAGES = /^image\/(?:png|jpeg|gif|webp|avif)$/;

/** Whether a browser shows it as a picture without running anything in it. */
export function isShownImage({ mimeType, data }: Attachment): boolean {
  return SHOWN_IMAGES.test(mimeType) && data !== "";
}

export function kindOf(mimeType: string): Attachment["kind"] {
  const kind = mimeType.split("/")[0];
  if (SHOWN_IMAGES.test(mimeType)) return "image";
  return kind === "audio" || kind === "video" ? kind : "document";
}
