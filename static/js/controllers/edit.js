// A message is edited in its place; what is sent stands as a version beside the one before.
import { register } from "../lib/controllers.js";
import { newId } from "../lib/ids.js";
import { showNotice } from "../lib/notices.js";
import { refresh } from "../lib/refresh.js";
import { Refusal, address, send } from "../lib/send.js";
import { keepText, keptText } from "../lib/slots.js";

// The attribute, not the address that it stands for: a form of a template has none before it is in the page.
const keptEdit = (form) => keptText("edit", form.getAttribute("action"));
const keepEdit = (form, text) => keepText("edit", form.getAttribute("action"), text);

register("edit", (transcript) => {
  for (const form of transcript.querySelectorAll("form.edit")) {
    form.elements.text.value = keptEdit(form) || form.elements.text.value;
  }
  transcript.addEventListener("click", (event) => {
    const link = event.target.closest("[data-edit]");
    if (link && !event.ctrlKey && !event.metaKey) { event.preventDefault(); openEdit(link.closest(".said"), link.dataset.edit); }
    const cancel = event.target.closest("[data-cancel]");
    if (cancel) { event.preventDefault(); closeEdit(cancel.closest("form")); }
  });
  transcript.addEventListener("keydown", (event) => {
    const form = event.target.closest?.("form.edit");
    if (!form || event.isComposing || event.keyCode === 229) return;
    if (event.key === "Escape") { event.stopPropagation(); closeEdit(form); }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
  });
  transcript.addEventListener("input", (event) => {
    const form = event.target.closest("form.edit");
    if (form) keepEdit(form, event.target.value);
  });
  transcript.addEventListener("submit", (event) => {
    if (!event.target.matches("form.edit")) return;
    event.preventDefault();
    sendEdit(event.target);
  });
});

function openEdit(said, id) {
  if (said.querySelector("form.edit")) return;
  const form = document.getElementById("edit-form").content.firstElementChild.cloneNode(true);
  form.action = address(`/messages/${id}/resend`);
  form.elements.text.value = keptEdit(form) || said.querySelector(".words").textContent;
  said.toggleAttribute("data-editing", true);
  said.append(form);
  form.elements.text.focus();
}

function closeEdit(form) {
  const said = form.closest(".said");
  keepEdit(form, "");
  if (!said.hasAttribute("data-editing")) { location.assign(location.pathname); return; }
  said.removeAttribute("data-editing");
  form.remove();
  said.querySelector("[data-edit]")?.focus();
}

async function sendEdit(form) {
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const fields = new URLSearchParams({ text: form.elements.text.value });
    const model = document.getElementById("model")?.value;
    if (model) fields.set("model", model);
    form.dataset.key ??= newId();
    await send(form.action, { body: fields, key: form.dataset.key });
    keepEdit(form, "");
    form.closest(".said").removeAttribute("data-editing");
    form.remove();
    document.dispatchEvent(new CustomEvent("nd:sent"));
    await refresh();
  } catch (error) {
    button.disabled = false;
    showNotice(form, error instanceof Refusal ? error : new Error("The server cannot be reached. Try again."));
  }
}
