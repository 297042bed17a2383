// The thin bar: says that the network, the server or the sign-in is gone, for as long as it is.
import { register } from "../lib/controllers.js";
import { address, signInAddress } from "../lib/send.js";

const WAYS_OUT = {
  401: () => [signInAddress(), "Sign in"],
  403: () => [location.href, "Load it again"],
  404: () => [address("/"), "Go to your chats"],
};

register("offline", (bar) => {
  const words = bar.querySelector("span");
  const usual = words.textContent;
  let link = null;

  function show() {
    const text = !navigator.onLine ? usual : link?.text;
    words.textContent = text ?? usual;
    const [href, label] = (navigator.onLine && WAYS_OUT[link?.status]?.()) || [];
    if (href) words.append(" ", Object.assign(document.createElement("a"), { href, textContent: label }));
    bar.toggleAttribute("data-shown", Boolean(text));
  }
  const told = (event) => { link = event.detail.state === "live" ? null : event.detail; show(); };

  addEventListener("online", show);
  addEventListener("offline", show);
  document.addEventListener("nd:link", told);
  show();
});
