// Tells the server the reader's time zone when it is not the one it knows, and says times in it.
import { register } from "../lib/controllers.js";
import { address, send } from "../lib/send.js";

register("time-zone", (body) => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && zone !== body.dataset.timeZone) {
    send(address("/preferences"), { method: "PUT", body: { time_zone: zone } }).catch(() => {});
  }
  body.addEventListener("toggle", (event) => sayTimes(event.target), true);
  sayTimes(body);
});

export function sayTimes(root) {
  for (const element of root.querySelectorAll?.("time[datetime]:not([data-said])") ?? []) {
    const time = new Date(element.dateTime);
    element.textContent = time.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    element.dataset.said = "";
  }
}
