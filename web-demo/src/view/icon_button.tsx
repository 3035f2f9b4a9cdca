/** A button that is an icon alone. Below: icons. */
import type { ButtonHTMLAttributes, Ref } from "preact";
import { Icon, type IconName } from "./icons";

interface IconButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "icon" | "name"> {
  readonly icon: IconName;
  /** What it does, for those who do not see it. */
  readonly name: string;
  readonly ref?: Ref<HTMLButtonElement>;
}

export function IconButton({ icon, name, ...more }: IconButtonProps) {
  return (
    <button type="button" class="agui-icon-button agui-small" aria-label={name} {...more}>
      <Icon name={icon} />
    </button>
  );
}
