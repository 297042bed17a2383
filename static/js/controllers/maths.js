// Sets formulas with KaTeX, which is loaded by the first page that has one. Not in a block that is still open.
import { isBeingWritten } from "../lib/blocks.js";
import { register } from "../lib/controllers.js";

register("maths", (transcript) => {
  let waiting = 0;
  const look = () => { waiting = 0; setFormulas(transcript); };
  const watch = new MutationObserver(() => { waiting ||= setTimeout(look, 250); });
  watch.observe(transcript, { childList: true, subtree: true });
  look();
  return () => { watch.disconnect(); clearTimeout(waiting); };
});

let katexLoaded;

async function setFormulas(transcript) {
  const found = [...transcript.querySelectorAll("[data-tex]:not([data-set])")].filter((formula) => !isBeingWritten(formula));
  if (!found.length) return;
  const base = new URL("../vendor/katex/", import.meta.url);
  katexLoaded ??= loadKatex(base);
  await katexLoaded;
  for (const formula of found) {
    formula.dataset.set = "";
    const displayMode = formula.classList.contains("display");
    // A model's formula neither works on for long nor grows over the page.
    globalThis.katex.render(formula.dataset.tex, formula, { displayMode, throwOnError: false, maxExpand: 500, maxSize: 30 });
  }
}

async function loadKatex(base) {
  const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("katex.min.css", base).href });
  document.head.append(sheet);
  await import("../../vendor/katex/katex.min.js");
}
