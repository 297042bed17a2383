// What the server tells a person wherever they are.
import { register } from "../lib/controllers.js";
import { address } from "../lib/send.js";
import { say } from "../lib/toasts.js";

register("toast", () => {
  const told = (event) => {
    const { text, chat } = event.detail;
    if (!text || (chat && chat === document.getElementById("transcript")?.dataset.chat)) return;
    say(text, chat ? { href: address(`/chats/${chat}`) } : {});
  };
  document.addEventListener("nd:toast", told);
});
