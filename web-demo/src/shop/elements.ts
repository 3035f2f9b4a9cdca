/** Elements, made and found. Below: nothing. */

export function byId<Type extends HTMLElement = HTMLElement>(id: string): Type {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element as Type;
}

interface Made {
  readonly text?: string;
  readonly class?: string;
  readonly label?: string;
  readonly type?: string;
}

export function made<Name extends keyof HTMLElementTagNameMap>(name: Name, told: Made): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  if (told.text !== undefined) element.textContent = told.text;
  if (told.class !== undefined) element.className = told.class;
  if (told.label !== undefined) element.setAttribute("aria-label", told.label);
  if (told.type !== undefined) element.setAttribute("type", told.type);
  return element;
}

export function euros(amount: number): string {
  return `€ ${amount}`;
}
