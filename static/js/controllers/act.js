// The page's one form for buttons all over the transcript (`form="act" formaction="..."`): done in place.
import { register } from "../lib/controllers.js";
import { newId } from "../lib/ids.js";
import { refresh } from "../lib/refresh.js";
import { Refusal, send } from "../lib/send.js";
import { showNotice } from "../lib/notices.js";

register("act", (form) => {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.submitter;
    if (!button || button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    try {
      await act(form, button);
    } catch (error) {
      const place = button.closest(".reply, .said, .queued, .dock, .main") ?? document.body;
      showNotice(place, error instanceof Refusal ? error : new Error("The server cannot be reached. Try again."));
    } finally {
      button.removeAttribute("aria-disabled");
    }
  });
});

async function act(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  const answer = await send(button.formAction, { body: fields, key: newId() });
  button.closest("[popover]")?.hidePopover();
  if (!answer?.go) return;
  const here = new URL(answer.go, location.href).pathname === location.pathname;
  if (here && button.dataset.load === undefined) await refresh();
  else location.assign(answer.go);
}
