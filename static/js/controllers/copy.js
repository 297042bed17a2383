// Copying: a piece of code, a person's words, or a reply just as the model wrote it.
import { isBeingWritten } from "../lib/blocks.js";
import { register } from "../lib/controllers.js";
import { address, send } from "../lib/send.js";

const COPIED_MS = 1_600;

register("copy", (transcript) => {
  const lookForCode = () => { waiting = 0; addButtons(transcript); };
  let waiting = 0;
  const watch = new MutationObserver(() => { waiting ||= setTimeout(lookForCode, 250); });
  watch.observe(transcript, { childList: true, subtree: true });
  addButtons(transcript);
  transcript.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-reply], [data-copy-code]");
    if (button) copyFor(button);
  });
  return () => { watch.disconnect(); clearTimeout(waiting); };
});

// Only in blocks that are settled: an open one is drawn again with every frame.
function addButtons(transcript) {
  for (const header of transcript.querySelectorAll(".code > header:not(:has(button))")) {
    if (isBeingWritten(header)) continue;
    const made = document.getElementById("copy-code").content.firstElementChild.cloneNode(true);
    header.append(made);
  }
}

async function copyFor(button) {
  const done = await copyText(await textFor(button));
  const label = button.getAttribute("aria-label");
  button.setAttribute("aria-label", done ? "Copied" : "Copying did not work");
  button.dataset.copied = done ? "yes" : "no";
  setTimeout(() => { button.setAttribute("aria-label", label); delete button.dataset.copied; }, COPIED_MS);
}

async function textFor(button) {
  if (button.dataset.copy) return document.querySelector(button.dataset.copy).textContent;
  if (button.dataset.copyCode !== undefined) return button.closest(".code").querySelector("pre").textContent;
  try {
    return (await send(address(`/api/v1/replies/${button.dataset.copyReply}`), { method: "GET" })).text;
  } catch {
    return [...button.closest(".reply").querySelectorAll(".text > .blocks")].map((block) => block.innerText).join("\n\n");
  }
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// Over plain HTTP there is no clipboard to write to: a selection and the old command still work.
function copyBySelection(text) {
  const area = Object.assign(document.createElement("textarea"), { value: text, readOnly: true, className: "vh" });
  const before = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  before?.focus({ preventScroll: true });
  return done;
}
