// The composer shows Stop and Queue while a reply is being written, else Send; the status line then falls silent.
import { register } from "../lib/controllers.js";

register("running", (composer) => {
  const transcript = document.getElementById("transcript");
  const stop = composer.querySelector("[data-stop]");

  function look() {
    const busy = transcript.querySelector(':scope > .reply[aria-busy="true"]')?.id.replace("reply-", "");
    if (busy === composer.dataset.running) return;
    if (busy) composer.dataset.running = busy;
    else delete composer.dataset.running;
    if (busy && stop) stop.formAction = `${stop.dataset.stop}${busy}/stop`;
    if (!busy) clearStatus();
  }

  // Two of them: with one, every frame of the reply inside would be told, too.
  const turns = new MutationObserver(look);
  turns.observe(transcript, { childList: true });
  const marks = new MutationObserver(look);
  marks.observe(transcript, { attributeFilter: ["aria-busy"], subtree: true });
  document.addEventListener("nd:ended", look);
  return () => { document.removeEventListener("nd:ended", look); turns.disconnect(); marks.disconnect(); };
});

function clearStatus() {
  const status = document.getElementById("status");
  const words = status?.querySelector("[data-status-text]");
  if (!words) return;
  words.textContent = "";
  for (const child of [...status.children]) if (child !== words) child.remove();
}
