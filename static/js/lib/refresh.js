// Brings parts of the page up to date from a fresh load of it, in place: nodes, selection and what is open stay.
import { fragment, morph } from "./trusted.js";

const PARTS = ["#transcript", "#status", ".topbar", "#chats"];

export async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) { location.reload(); return; }
  const fresh = fragment(await answer.text());
  for (const part of PARTS) {
    const here = document.querySelector(part);
    const there = fresh.querySelector(part);
    if (here && there) morph(here, there.outerHTML);
  }
  const title = fresh.querySelector("title");
  if (title) document.title = title.textContent;
  const busy = document.querySelector('#transcript > [aria-busy="true"]');
  if (busy) document.dispatchEvent(new CustomEvent("nd:follow", { detail: { reply: busy.id.replace("reply-", "") } }));
}
