// The thin bar: says that the network, the server or the sign-in is gone, for as long as it is.
import { register } from "../lib/controllers.js";

register("offline", (bar) => {
  const words = bar.querySelector("span");
  const usual = words.textContent;
  let link = null;

  function show() {
    const text = !navigator.onLine ? usual : link?.text;
    words.textContent = text ?? usual;
    bar.toggleAttribute("data-shown", Boolean(text));
  }
  const told = (event) => { link = event.detail.state === "live" ? null : event.detail; show(); };

  addEventListener("online", show);
  addEventListener("offline", show);
  document.addEventListener("nd:link", told);
  show();
});
