/** Something that is folded away behind a button. */
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { Icon } from "./icons";

interface DisclosureProps {
  readonly kind: string;
  readonly head: ComponentChildren;
  /** Made only while it is open. */
  readonly children: () => ComponentChildren;
}

export function Disclosure({ kind, head, children }: DisclosureProps) {
  const id = useId();
  const [open, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        class={`agui-disclosure ${kind}`}
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        {head}
        <Icon name="chevron" />
      </button>
      <div id={id} class={`${kind}-body`} hidden={!open}>
        {open && children()}
      </div>
    </>
  );
}
