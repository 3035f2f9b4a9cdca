/** Its core alone: the package's entry also brings the observer, which would be half of what we take. */
declare module "fast-json-patch/module/core.mjs" {
  export { applyPatch, type Operation } from "fast-json-patch";
}
