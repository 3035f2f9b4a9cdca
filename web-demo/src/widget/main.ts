/**
 * The widget: one script tag that puts a chat on any page.
 *
 *     <script type="module" src="https://gateway.example/widget.js" data-agent="assistant"></script>
 *
 * Above: the page. Below: the element. It defines <agui-chat>, and places one for each of its tags that has `data-agent`.
 */
import { AguiChatElement } from "./element";
import { elementForTag, gatewayOf, watchTags } from "./tags";

const gateway = gatewayOf(import.meta.url);

if (!customElements.get("agui-chat")) {
  AguiChatElement.gateway = gateway;
  customElements.define("agui-chat", AguiChatElement);
}
watchTags(import.meta.url, (tag) => {
  if (document.body) elementForTag(tag, gateway);
  else addEventListener("DOMContentLoaded", () => elementForTag(tag, gateway), { once: true });
});

export { AguiChatElement };
