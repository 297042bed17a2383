// What has happened elsewhere, in the tab's title and on the app's badge. A page that is shown hears it from the
// stream; a hidden one has let go of that and asks now and then.
import { register } from "../lib/controllers.js";
import { address, send } from "../lib/send.js";

const ASK_EVERY_MS = 30_000;
const FIRST_ASK_MS = 5_000;

register("marks", () => {
  let timer = 0;

  function show({ waiting = 0, unread = 0 }) {
    const bare = document.title.replace(/^\(\d+\) /, "");
    const count = waiting + unread;
    document.title = count && document.hidden ? `(${count}) ${bare}` : bare;
    if (count) navigator.setAppBadge?.(count).catch(() => {});
    else navigator.clearAppBadge?.().catch(() => {});
  }
  async function ask() {
    try {
      show(await send(address("/marks"), { method: "GET" }));
    } catch (error) {
      if (error.status === 401 || error.status === 403) return;
    }
    if (document.hidden) timer = setTimeout(ask, ASK_EVERY_MS);
  }
  function changed() {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(ask, FIRST_ASK_MS);
    else show({});
  }
  document.addEventListener("visibilitychange", changed);
  changed();
});
