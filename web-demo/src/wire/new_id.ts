/** Ids for threads, runs and messages. Below: nothing. */

/** 122 random bits as a UUID. `crypto.randomUUID` is there on https and localhost alone, and pages are served in many ways. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const hex = Array.from(bytes, (byte, place) => {
    if (place === 6) return ((byte & 0x0f) | 0x40).toString(16);
    if (place === 8) return ((byte & 0x3f) | 0x80).toString(16);
    return byte.toString(16).padStart(2, "0");
  }).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
