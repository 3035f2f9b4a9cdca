/** The goods on the page, and which of them are shown. Below: the goods. */
import { byId, euros, made } from "./elements";
import { CATEGORIES, type Category, GOODS, type Good } from "./goods";

const SVG = "http://www.w3.org/2000/svg";

export interface Filter {
  readonly category?: Category | "all";
  readonly maxPrice?: number;
}

export class Shelves {
  readonly #cards = new Map<Good, HTMLLIElement>();
  readonly #price = byId<HTMLInputElement>("price");
  #category: Category | "all" = "all";

  constructor(onPut: (good: Good) => void) {
    byId("goods").append(...GOODS.map((good) => this.#card(good, onPut)));
    byId("categories").append(...(["all", ...CATEGORIES] as const).map((category) => this.#choice(category)));
    this.#price.addEventListener("input", () => this.#show());
    byId("all").addEventListener("click", () => this.filter({ category: "all", maxPrice: 90 }));
    byId("filter").addEventListener("submit", (event) => event.preventDefault());
  }

  /** Show what fits; how much that is. What the filter does not say stays as it is. */
  filter({ category = this.#category, maxPrice }: Filter): number {
    this.#category = category;
    if (maxPrice !== undefined) this.#price.value = String(maxPrice);
    for (const input of byId("categories").querySelectorAll("input")) input.checked = input.value === category;
    return this.#show();
  }

  /** Bring it into view and let it stand out for a moment. */
  point(good: Good): void {
    const card = this.#cards.get(good);
    if (!card) return;
    if (card.hidden) this.filter({ category: "all", maxPrice: 90 });
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    card.scrollIntoView({ behavior: isCalm ? "auto" : "smooth", block: "center" });
    for (const other of this.#cards.values()) other.classList.toggle("shown", other === card);
  }

  #show(): number {
    const limit = Number(this.#price.value);
    let count = 0;
    for (const [good, card] of this.#cards) {
      card.hidden = good.price > limit || (this.#category !== "all" && good.category !== this.#category);
      if (!card.hidden) count++;
    }
    byId("price-shown").textContent = euros(limit);
    byId("none").hidden = count > 0;
    return count;
  }

  #card(good: Good, onPut: (good: Good) => void): HTMLLIElement {
    const card = made("li", { class: `good ${good.category}` });
    const button = made("button", { type: "button", text: "Add to cart", label: `Add to cart: ${good.name}` });
    button.addEventListener("click", () => onPut(good));
    const foot = made("div", { class: "foot" });
    foot.append(made("strong", { text: euros(good.price) }), button);
    card.append(drawing(good), made("h2", { text: good.name }), made("p", { text: good.about }), foot);
    this.#cards.set(good, card);
    return card;
  }

  #choice(category: Category | "all"): HTMLLabelElement {
    const label = made("label", {});
    const input = made("input", { type: "radio" });
    input.name = "category";
    input.value = category;
    input.checked = category === "all";
    input.addEventListener("change", () => this.filter({ category }));
    label.append(input, category === "all" ? "Everything" : category[0]?.toUpperCase() + category.slice(1));
    return label;
  }
}

function drawing(good: Good): SVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 120 90");
  svg.setAttribute("aria-hidden", "true");
  for (const [shade, path] of good.drawing) {
    const shape = document.createElementNS(SVG, "path");
    shape.setAttribute("class", shade);
    shape.setAttribute("d", path);
    svg.append(shape);
  }
  return svg;
}
