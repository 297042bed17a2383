// The list of chats, kept current by what the server tells; hidden and shown on a wide screen, a drawer on a narrow one.
import { register } from "../lib/controllers.js";
import { address, send } from "../lib/send.js";
import { fragment, morph } from "../lib/trusted.js";

register("sidebar", (list) => {
  let timer = 0;
  const current = () => document.getElementById("transcript")?.dataset.chat ?? "";

  async function reload() {
    timer = 0;
    const rows = list.querySelectorAll("li").length;
    const answer = await fetch(address(`/sidebar?current=${current()}&rows=${rows}`), { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = list.cloneNode(false);
    fresh.replaceChildren(fragment(await answer.text()));
    morph(list, fresh.outerHTML);
  }
  const soon = () => { timer ||= setTimeout(() => reload().catch(() => {}), 150); };

  function told(event) {
    const { id, title, change } = event.detail;
    if (id && id === current() && title) nameChat(title);
    if (id && id === current() && change === "deleted") tellDeleted();
    soon();
  }

  const events = ["nd:chat", "nd:reply", "nd:snapshot"];
  for (const name of events) document.addEventListener(name, told);
  return () => {
    clearTimeout(timer);
    for (const name of events) document.removeEventListener(name, told);
  };
});

function nameChat(title) {
  const heading = document.getElementById("title");
  if (!heading || heading.textContent === title) return;
  heading.textContent = title;
  document.title = `${title} · Nightdesk`;
}

function tellDeleted() {
  const text = "This chat was deleted on another device.";
  document.dispatchEvent(new CustomEvent("nd:link", { detail: { state: "lost", text } }));
}

register("desk", (app) => {
  app.addEventListener("click", (event) => {
    if (!event.target.closest("[data-sidebar-toggle]")) return;
    const sidebar = app.dataset.sidebar === "hidden" ? "shown" : "hidden";
    app.dataset.sidebar = sidebar;
    send(address("/preferences"), { method: "PUT", body: { sidebar } }).catch(() => {});
    [...app.querySelectorAll("[data-sidebar-toggle]")].find((button) => button.offsetParent)?.focus();
  });
});
