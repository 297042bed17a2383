// The keyboard: what is not an ordinary key of some field.
import { register } from "../lib/controllers.js";
import { address } from "../lib/send.js";

const openPalette = () => import("./palette.js").then((palette) => palette.showPalette());
const typing = (target) => target.closest?.("input, textarea, select, [contenteditable]");
const somethingOpen = () => document.querySelector("[popover]:popover-open:not(.toasts)");

register("keys", (body) => {
  // So that the first letter after Ctrl+K is not lost while the file is on its way.
  (globalThis.requestIdleCallback ?? setTimeout)(() => import("./palette.js").catch(() => {}));
  body.addEventListener("keydown", (event) => {
    if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
    const act = keyAct(event);
    if (act) { event.preventDefault(); act(); }
  });
  body.addEventListener("click", (event) => {
    const palette = event.target.closest("[data-palette]");
    if (palette && !event.ctrlKey && !event.metaKey) { event.preventDefault(); openPalette(); }
    const starter = event.target.closest("[data-starter]");
    if (starter && !event.ctrlKey && !event.metaKey) { event.preventDefault(); fillComposer(starter.dataset.starter); }
  });
});

function keyAct(event) {
  const command = event.ctrlKey || event.metaKey;
  if (command && !event.altKey && event.key.toLowerCase() === "k" && !event.shiftKey) return openPalette;
  if (command && event.shiftKey && event.key.toLowerCase() === "o") return () => location.assign(address("/"));
  if (command || event.altKey) return null;
  if (event.key === "Escape" && !somethingOpen()) return stopReply();
  if (event.key === "ArrowUp" && isEmptyComposer(event.target)) return lastEdit();
  if (event.key === "?" && !typing(event.target)) return () => document.getElementById("help")?.showPopover();
  return null;
}

function stopReply() {
  const stop = document.querySelector(".composer[data-running] [data-stop]");
  return stop ? () => stop.click() : null;
}

function lastEdit() {
  const link = [...document.querySelectorAll("[data-edit]")].at(-1);
  return link ? () => link.click() : null;
}

const isEmptyComposer = (target) => target.id === "text" && target.value === "";

function fillComposer(text) {
  const box = document.getElementById("text");
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  box.focus();
  box.setSelectionRange(text.length, text.length);
}
