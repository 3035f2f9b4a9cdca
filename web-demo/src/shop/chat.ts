/**
 * The shop and its chat: which of the shop's functions the agent may call, what it is told, and what the shop hears.
 *
 * This is all that a site has to write; the element comes with the script tag in `shop.html`.
 */
import type { AguiChatElement } from "../widget/element";
import type { Cart } from "./cart";
import { byId, euros, made } from "./elements";
import { CATEGORIES, type Category, GOODS, type Good, goodNamed } from "./goods";
import type { Shelves } from "./shelves";

interface Shop {
  readonly cart: Cart;
  readonly shelves: Shelves;
  readonly put: (good: Good, quantity: number) => void;
  readonly showCart: (shown: boolean) => void;
  readonly order: () => string;
}

const PRODUCT = { type: "string", enum: GOODS.map((good) => good.name) };

export async function joinChat(shop: Shop): Promise<void> {
  const chat = await chatElement();
  registerTools(chat, shop);
  // a function is asked anew with every message
  chat.context = () => [
    { description: "What is in the customer's cart", value: cartAsJson(shop.cart) },
    {
      description: "What the shop sells, with prices in euros",
      value: GOODS.map(({ name, price }) => ({ name, price })),
    },
  ];
  byId("ask").addEventListener("click", () => chat.open());
  for (const name of ["message", "run-started", "run-finished", "tool-call", "error", "open", "close", "unread"]) {
    chat.addEventListener(`agui-chat:${name}`, (event) => {
      byId("heard").textContent = `${name} ${JSON.stringify((event as CustomEvent).detail).slice(0, 90)}`;
    });
  }
}

function registerTools(chat: AguiChatElement, { cart, shelves, put, showCart, order }: Shop): void {
  chat.registerTool({
    name: "show_product",
    description: "Show a product of this shop on the page: scrolls to it and highlights it.",
    parameters: { type: "object", properties: { product: PRODUCT }, required: ["product"] },
    handler: ({ product }) => {
      const good = goodNamed(String(product));
      shelves.point(good);
      return `The page shows the ${good.name}: ${good.about} It costs ${euros(good.price)}.`;
    },
  });
  chat.registerTool({
    name: "add_to_cart",
    description: "Put a product of this shop into the cart.",
    parameters: {
      type: "object",
      properties: { product: PRODUCT, quantity: { type: "integer", minimum: 1, maximum: 20 } },
      required: ["product"],
    },
    handler: ({ product, quantity }) => {
      const good = goodNamed(String(product));
      put(good, Number(quantity ?? 1));
      return { cart: cartAsJson(cart), total: cart.total };
    },
    // what stands in the call's card instead of JSON
    render: (call) => (call.status.value === "done" ? picture(cart) : undefined),
  });
  chat.registerTool({
    name: "apply_filter",
    description: "Filter the products that the page shows, by category and price.",
    parameters: {
      type: "object",
      properties: {
        category: { type: "string", enum: [...CATEGORIES, "all"] },
        max_price: { type: "number", description: "The highest price in euros" },
      },
    },
    handler: ({ category, max_price }) => {
      const count = shelves.filter({
        ...(category !== undefined && { category: category as Category | "all" }),
        ...(max_price !== undefined && { maxPrice: Number(max_price) }),
      });
      return `The page shows ${count} products now.`;
    },
  });
  chat.registerTool({
    name: "checkout",
    description: "Check out: order and pay what is in the cart.",
    parameters: { type: "object", properties: {} },
    confirm: () => `Order ${cart.count} ${cart.count === 1 ? "thing" : "things"} for ${euros(cart.total)}?`,
    handler: () => {
      if (cart.count === 0) throw new Error("There is nothing in the cart.");
      showCart(true);
      return order();
    },
  });
}

function cartAsJson(cart: Cart) {
  return cart.lines.map(({ good, quantity }) => ({ product: good.name, quantity, price: good.price }));
}

function picture(cart: Cart): HTMLElement {
  const list = made("ul", {});
  list.append(...cart.lines.map(({ good, quantity }) => made("li", { text: `${quantity} × ${good.name}` })));
  list.append(made("li", { text: `Together ${euros(cart.total)}` }));
  return list;
}

/** The element of the script tag, which may come before or after this module. */
async function chatElement(): Promise<AguiChatElement> {
  await customElements.whenDefined("agui-chat");
  const there = document.querySelector<AguiChatElement>("agui-chat");
  if (there) return there;
  return new Promise((resolve) => {
    const found = ({ target }: Event) => resolve(target as AguiChatElement);
    document.addEventListener("agui-chat:ready", found, { once: true });
  });
}
