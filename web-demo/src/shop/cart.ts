/** The cart, kept for as long as the tab is open. Below: the goods. */
import { GOODS, type Good } from "./goods";

const PLACE = "sample-shop-cart";

export interface Line {
  readonly good: Good;
  readonly quantity: number;
}

export class Cart {
  #quantities = new Map<string, number>();
  readonly #onChange: () => void;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
    try {
      this.#quantities = new Map(JSON.parse(sessionStorage.getItem(PLACE) ?? "[]") as [string, number][]);
    } catch {
      // somebody else's: an empty cart
    }
  }

  get lines(): readonly Line[] {
    return GOODS.flatMap((good) => {
      const quantity = this.#quantities.get(good.name) ?? 0;
      return quantity > 0 ? [{ good, quantity }] : [];
    });
  }

  get count(): number {
    return this.lines.reduce((sum, line) => sum + line.quantity, 0);
  }

  get total(): number {
    return this.lines.reduce((sum, line) => sum + line.quantity * line.good.price, 0);
  }

  /** `quantity` may be less than nothing. */
  add(good: Good, quantity = 1): void {
    this.#quantities.set(good.name, Math.max(0, (this.#quantities.get(good.name) ?? 0) + quantity));
    this.#changed();
  }

  clear(): void {
    this.#quantities.clear();
    this.#changed();
  }

  #changed(): void {
    sessionStorage.setItem(PLACE, JSON.stringify([...this.#quantities]));
    this.#onChange();
  }
}
