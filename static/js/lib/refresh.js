// Brings parts of the page up to date from a fresh load of it, in place: nodes, selection and what is open stay.
import { Refusal } from "./send.js";
import { fragment, morph } from "./trusted.js";

const PARTS = ["#transcript", "#status", ".topbar", "#chats"];

// Throws Refusal, or TypeError where no answer came; what is typed stays where it is.
export async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (answer.redirected) throw new Refusal(401, { detail: "You are signed out. Sign in again to go on." });
  if (!answer.ok) throw new Refusal(answer.status, { detail: "The page could not be brought up to date. Load it again." });
  const fresh = fragment(await answer.text());
  for (const part of PARTS) {
    const here = document.querySelector(part);
    const there = fresh.querySelector(part);
    if (!here || !there) continue;
    if (part === "#transcript") keepEarlier(here, there);
    globalThis.htmx?.process(morph(here, there.outerHTML));
  }
  const title = fresh.querySelector("title");
  if (title) document.title = title.textContent;
  const busy = document.querySelector('#transcript > [aria-busy="true"]');
  if (busy) document.dispatchEvent(new CustomEvent("nd:follow", { detail: { reply: busy.id.replace("reply-", "") } }));
}

// A fresh page shows the end of the chat; what the reader has loaded above that stays.
function keepEarlier(here, there) {
  const first = there.querySelector(":scope > .said, :scope > .reply");
  const above = [...here.children];
  above.splice(Math.max(0, above.findIndex((turn) => turn.id === first?.id)));
  if (!above.length) return;
  while (first.previousSibling) first.previousSibling.remove();
  first.before(...above.map((turn) => turn.cloneNode(true)));
}
