/**
 * The sample shop: a page as anybody's, with a chat in its corner.
 *
 * Below: its goods, cart and shelves. What it does with the chat is in `chat.ts`.
 */
import { Cart } from "./cart";
import { joinChat } from "./chat";
import { byId, euros, made } from "./elements";
import type { Good } from "./goods";
import { Shelves } from "./shelves";

const cart = new Cart(() => show());
const shelves = new Shelves((good) => put(good, 1));

function put(good: Good, quantity: number): void {
  cart.add(good, quantity);
  say(`${quantity} × ${good.name} in the cart`);
}

let silence: ReturnType<typeof setTimeout>;

function say(text: string): void {
  byId("said").textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => {
    byId("said").textContent = "";
  }, 6_000);
}

function show(): void {
  const { lines, count, total } = cart;
  byId("cart-count").textContent = String(count);
  byId("cart-total").textContent = euros(total);
  byId("cart-empty").hidden = count > 0;
  byId<HTMLButtonElement>("order").disabled = count === 0;
  byId("cart-lines").replaceChildren(
    ...lines.map(({ good, quantity }) => {
      const less = made("button", { type: "button", text: "−", label: `One ${good.name} less` });
      const more = made("button", { type: "button", text: "+", label: `One more ${good.name}` });
      less.addEventListener("click", () => cart.add(good, -1));
      more.addEventListener("click", () => cart.add(good, 1));
      const line = made("li", {});
      const name = made("span", { text: good.name });
      const price = made("span", { text: euros(good.price * quantity) });
      line.append(name, less, made("span", { text: String(quantity) }), more, price);
      return line;
    }),
  );
}

function showCart(shown: boolean): void {
  byId("cart").hidden = !shown;
  byId("cart-button").setAttribute("aria-expanded", String(shown));
}

function order(): string {
  const { count, total } = cart;
  cart.clear();
  const said = `Ordered ${count} ${count === 1 ? "thing" : "things"} for ${euros(total)}. (Nothing really is.)`;
  say(said);
  return said;
}

byId("cart-button").addEventListener("click", () => showCart(byId("cart").hidden !== false));
byId("order").addEventListener("click", () => order());
show();
void joinChat({ cart, shelves, put, showCart, order });
