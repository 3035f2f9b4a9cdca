/**
 * The bytes of a medium that a model or a tool made: what they are, and addresses for them.
 *
 * Below: the contract. A file of its own, since few chats have media: asked for with the first one.
 */
import type { Attachment } from "../chat/contract";

/** How the bytes of a format begin, in hexadecimal digits. Only these are shown: nothing in them runs. */
const SIGNATURES: readonly (readonly [type: string, begins: RegExp])[] = [
  ["image/png", /^89504e470d0a1a0a/],
  ["image/jpeg", /^ffd8ff/],
  ["image/gif", /^474946383[79]61/],
  ["image/webp", /^52494646.{8}57454250/],
  ["image/avif", /^.{8}6674797061766966/],
  ["audio/wav", /^52494646.{8}57415645/],
  ["audio/mpeg", /^(?:494433|ff(?:f[23ab]|e3))/],
  ["audio/ogg", /^4f676753/],
  ["audio/flac", /^664c6143/],
  ["audio/mp4", /^.{8}667479704d3441/],
  ["video/mp4", /^.{8}66747970(?:69736f|6d7034|61766331|4d3456)/], // "iso.", "mp4.", "avc1", "M4V"
  ["video/webm", /^1a45dfa3/],
];

export interface OpenMedium {
  /** What the bytes are, whatever was said of them; undefined where it is nothing that is shown. */
  readonly type: string | undefined;
  /** An address to play it from. */
  readonly played: string;
  /** An address to save it from. */
  readonly saved: string;
  close(): void;
}

export function openMedium({ data }: Attachment): OpenMedium {
  const bytes = bytesOf(data);
  const type = typeOf(bytes);
  const saved = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  const played = type ? URL.createObjectURL(new Blob([bytes], { type })) : "";
  const close = () => [saved, played].filter(Boolean).map((address) => URL.revokeObjectURL(address));
  return { type, played, saved, close };
}

function bytesOf(data: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array(); // it is no base64
  }
}

function typeOf(bytes: Uint8Array): string | undefined {
  const head = [...bytes.subarray(0, 32)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return SIGNATURES.find(([, begins]) => begins.test(head))?.[0];
}
