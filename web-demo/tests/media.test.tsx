// @vitest-environment happy-dom
import { render } from "preact";
import { afterEach, expect, test, vi } from "vitest";
import type { Attachment } from "../src/chat/contract";
import { attachmentsOf, mediumOf } from "../src/chat/history";
import { Media } from "../src/view/media";
import { openMedium } from "../src/view/medium_bytes";

const root = document.createElement("div");
document.body.append(root);

afterEach(() => {
  render(null, root);
  vi.restoreAllMocks();
});

const medium = (given: Partial<Attachment>): Attachment => {
  return { kind: "image", name: "", mimeType: "image/png", bytes: 1, data: "", ...given };
};
const coded = (bytes: string) => btoa(bytes);

test.each([
  ["image/png", "\x89PNG\r\n\x1a\n...."],
  ["image/jpeg", "\xff\xd8\xff\xe0"],
  ["image/gif", "GIF89a"],
  ["image/webp", "RIFF\0\0\0\0WEBPVP8 "],
  ["image/avif", "\0\0\0\x20ftypavif"],
  ["audio/wav", "RIFF\0\0\0\0WAVEfmt "],
  ["audio/mpeg", "ID3\x04"],
  ["video/mp4", "\0\0\0\x20ftypisom"],
  ["video/webm", "\x1a\x45\xdf\xa3"],
  [undefined, '<svg xmlns="http://www.w3.org/2000/svg"/>'],
  [undefined, "<!doctype html><script>"],
  [undefined, "%PDF-1.7"],
  [undefined, ""],
])("what is shown as %s is that by its bytes", (type, bytes) => {
  const open = openMedium(medium({ data: coded(bytes), mimeType: "image/png" }));
  expect(open.type).toBe(type);
  expect(open.played === "").toBe(type === undefined);
  open.close();
});

test("what is saved is bytes alone, whatever was said of it", () => {
  const made = vi.spyOn(URL, "createObjectURL");
  openMedium(medium({ data: coded("<html>"), mimeType: "text/html" })).close();
  expect(made.mock.calls.map(([blob]) => (blob as Blob).type)).toEqual(["application/octet-stream"]);
});

test("what is no base64 is an empty file", () => {
  expect(openMedium(medium({ data: "***" })).type).toBeUndefined();
});

test("a medium that is elsewhere is a link of the web, or its name alone", () => {
  const media = ["https://example.com/a.png", "javascript:alert(1)", "data:text/html,x", "mailto:a@b.example"].map(
    (url) => medium({ url, name: "a.png" }),
  );
  render(<Media media={media} />, root);
  const links = [...root.querySelectorAll("a")];
  expect(links.map((link) => link.href)).toEqual(["https://example.com/a.png"]);
  expect(links[0]?.rel).toContain("noopener");
  expect(root.querySelector("img, audio, video")).toBeNull();
  expect(root.textContent?.match(/a\.png/g)).toHaveLength(4);
});

test("the media of an activity and of a result are read alike", () => {
  const activity = { kind: "image", mediaType: "image/png", data: "QUJD", name: "n" };
  const source = { type: "data", value: "QUJD", mimeType: "image/png" };
  const read = { kind: "image", mimeType: "image/png", data: "QUJD", name: "n", bytes: 3 };
  expect(mediumOf(activity)).toEqual(read);
  expect(attachmentsOf([{ type: "image", source, metadata: { filename: "n" } }])).toEqual([read]);
  expect(mediumOf({ kind: "image", url: "https://example.com/" })).toMatchObject({
    data: "",
    url: "https://example.com/",
  });
  expect(mediumOf({ kind: "plan", data: "QUJD" })).toBeUndefined();
  expect(mediumOf(null)).toBeUndefined();
});
