/** Writes the texts of the built page a second and third time, as `.gz` and `.br`: the gateway itself compresses nothing. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";

const BUILT = fileURLToPath(new URL("../gateway/page_files/", import.meta.url));
const TEXTS = /\.(css|html|js|json|map|md|svg|txt|webmanifest)$/;
const COMPRESS = {
  ".gz": (content) => gzipSync(content, { level: 9 }),
  ".br": (content) => brotliCompressSync(content),
};
const LEAST_SAVED_BYTES = 100; // less is eaten up by the header that tells of it

for (const name of readdirSync(BUILT, { recursive: true }).filter((each) => TEXTS.test(each))) {
  const content = readFileSync(join(BUILT, name));
  for (const [ending, compress] of Object.entries(COMPRESS)) {
    const compressed = compress(content);
    if (content.length - compressed.length >= LEAST_SAVED_BYTES) writeFileSync(join(BUILT, name + ending), compressed);
  }
}
