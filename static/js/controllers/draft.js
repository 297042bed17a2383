// What is being typed is kept: at once in this tab, and a moment later on the server for every other device.
import { register } from "../lib/controllers.js";
import { send } from "../lib/send.js";
import { keepText, keptText } from "../lib/slots.js";

const DRAFT_PAUSE_MS = 800;

register("draft", (form) => {
  const box = form.elements.text;
  const { chat } = form.dataset;
  let timer = 0;
  let stored = box.value;
  let line = new AbortController();

  const remember = () => keepText("draft", chat, box.value);

  // This tab keeps what the server does not have yet: found there, it is newer than what the server has.
  async function save(keepalive = false) {
    clearTimeout(timer);
    const text = box.value;
    if (text === stored) return;
    stored = text;
    line.abort();
    const mine = line = new AbortController();
    try {
      await send(form.dataset.draft, { method: "PUT", body: { text }, keepalive, signal: mine.signal });
      if (box.value === text) keepText("draft", chat, "");
    } catch {
      if (mine === line) stored = null;
    }
  }

  box.addEventListener("input", () => {
    remember();
    clearTimeout(timer);
    timer = setTimeout(() => save(), DRAFT_PAUSE_MS);
  });
  // Sent: the server forgets the draft with the message. A draft still on its way must not come after that.
  form.addEventListener("nd:sending", () => {
    clearTimeout(timer);
    line.abort();
    remember();
  });
  form.addEventListener("nd:settled", () => { stored = ""; save(); });
  const leave = () => { if (document.visibilityState === "hidden") save(true); };
  document.addEventListener("visibilitychange", leave);

  box.value = keptText("draft", chat) || box.value;
  return () => document.removeEventListener("visibilitychange", leave);
});
