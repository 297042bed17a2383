// What is being typed is kept: at once in this tab, and a moment later on the server for every other device.
import { register } from "../lib/controllers.js";
import { send } from "../lib/send.js";

const DRAFT_PAUSE_MS = 800;

register("draft", (form) => {
  const box = form.elements.text;
  const slot = `nd:draft:${form.dataset.chat}`;
  let timer = 0;
  let stored = box.value;
  let line = new AbortController();

  const remember = () => {
    try {
      if (box.value) sessionStorage.setItem(slot, box.value);
      else sessionStorage.removeItem(slot);
    } catch { /* the server keeps it all the same */ }
  };

  function save(keepalive = false) {
    clearTimeout(timer);
    if (box.value === stored) return;
    stored = box.value;
    line.abort();
    line = new AbortController();
    send(form.dataset.draft, { method: "PUT", body: { text: stored }, keepalive, signal: line.signal }).catch(() => {});
  }

  box.addEventListener("input", () => {
    remember();
    clearTimeout(timer);
    timer = setTimeout(save, DRAFT_PAUSE_MS);
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

  const kept = sessionStorage.getItem(slot);
  if (kept && kept !== box.value && !box.value) box.value = kept;
  return () => document.removeEventListener("visibilitychange", leave);
});
