/** Ids for threads, runs and messages. Below: nothing. */

/** 122 random bits as a UUID. `crypto.randomUUID` is there on https and localhost alone, and pages are served in many ways. */
export function newId(): string {
  // 8 becomes one of 8, 9, a and b, as the format wants; 0 and 1 become any digit
  return "10000000-1000-4000-8000-100000000000".replace(/[018]/g, (digit) => {
    const [random = 0] = crypto.getRandomValues(new Uint8Array(1));
    return (Number(digit) ^ (random & (15 >> (Number(digit) / 4)))).toString(16);
  });
}
