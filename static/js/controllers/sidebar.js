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
    if (!answer.ok || answer.redirected) return;
    const fresh = list.cloneNode(false);
    fresh.replaceChildren(fragment(await answer.text()));
    morph(list, fresh.outerHTML);
    globalThis.htmx?.process(list);
  }
  const soon = () => { timer ||= setTimeout(() => reload().catch(() => {}), 150); };

  function told(event) {
    const { id, title, change } = event.detail;
    if (id && id === current() && title) nameChat(title);
    if (id && id === current() && change === "deleted") tellDeleted();
    soon();
  }

  // What the server tells first is mostly what the page was drawn with a moment ago.
  const compared = (event) => { if (!shows(list, event.detail)) soon(); };

  const heard = { "nd:chat": told, "nd:reply": told, "nd:snapshot": compared };
  for (const [name, act] of Object.entries(heard)) document.addEventListener(name, act);
  return () => {
    clearTimeout(timer);
    for (const [name, act] of Object.entries(heard)) document.removeEventListener(name, act);
  };
});

// Whether the rows carry just these marks. A chat that runs and is not listed is a new one.
function shows(list, { running = [], waiting = [], unread = [] }) {
  const marks = new Map(unread.map((chat) => [chat, "dot"]));
  for (const { chat } of running) marks.set(chat, "spin");
  for (const { chat } of waiting) marks.set(chat, "needs");
  const listed = new Map([...list.querySelectorAll("li")].map((row) => [row.id.replace("chat-", ""), row.querySelector(".state > :first-child")]));
  for (const { chat } of [...running, ...waiting]) if (!listed.has(chat)) return false;
  return [...listed].every(([chat, mark]) => (mark?.className ?? "") === (marks.get(chat) ?? ""));
}

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
