// Sends what is typed: drawn at once, posted until the server has it, and back in the box if it says no.
import { register } from "../lib/controllers.js";
import { drawSent, explainSent, placeAccepted, placeSent } from "../lib/drawn.js";
import { newId } from "../lib/ids.js";
import { clearNotice, showNotice } from "../lib/notices.js";
import { outboxOf, putInOutbox, takeFromOutbox } from "../lib/outbox.js";
import { Refusal, sendSurely } from "../lib/send.js";

const LARGE = 20_000;

register("composer", (form) => {
  const box = form.elements.text;
  const chat = form.dataset.chat;
  const onTheWay = new Map();
  let leaving = false;
  let line = Promise.resolve();

  // One after the other: they are answered in the order in which they were sent.
  function post(letter) {
    const made = document.getElementById(`message-${letter.id}`) ?? drawSent(letter.id, letter.text, letter.queued);
    onTheWay.set(letter.id, made);
    line = line.then(() => deliver(letter, made));
  }

  async function deliver(letter, made) {
    if (leaving) return;
    const fields = new URLSearchParams({ text: letter.text, id: letter.id, ...letter.fields });
    try {
      const answer = await sendSurely(letter.url, { body: fields, key: letter.key }, (why) => explainSent(made, why));
      accepted(letter, made, answer);
    } catch (error) {
      refused(letter, made, error);
    }
  }

  function accepted(letter, made, answer) {
    settled(letter);
    if (answer.go) { moveOn(answer.go); return; }
    const reply = placeAccepted(answer.html, made);
    if (reply) document.dispatchEvent(new CustomEvent("nd:follow", { detail: { reply } }));
  }

  // The chat is there now: what else was sent to it goes out from its own page.
  function moveOn(address) {
    leaving = true;
    for (const letter of outboxOf(chat)) {
      takeFromOutbox(chat, letter.id);
      putInOutbox(address.split("/").pop(), { ...letter, url: `${address}/messages` });
    }
    location.assign(address);
  }

  function refused(letter, made, error) {
    settled(letter);
    made.remove();
    box.value = box.value.trim() ? `${letter.text}\n\n${box.value}` : letter.text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    for (const welcome of document.querySelectorAll("[data-welcome]")) welcome.hidden = false;
    if (!(error instanceof Refusal)) error = new Error("It could not be sent. It is back in the box.");
    if (error.signIn) error.message = "You are signed out. What you typed is kept; sign in to send it.";
    showNotice(form, error, { first: true });
    box.focus();
  }

  function settled(letter) {
    onTheWay.delete(letter.id);
    takeFromOutbox(chat, letter.id);
    form.dispatchEvent(new CustomEvent("nd:settled"));
  }

  function letterOf(text) {
    const fields = {};
    for (const name of ["model", "temporary"]) if (form.elements[name]?.value) fields[name] = form.elements[name].value;
    const queued = form.dataset.running !== undefined;
    return { id: newId(), key: newId(), url: form.action, text, fields, queued };
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = box.value;
    if (!text.trim()) { box.focus(); return; }
    clearNotice(form);
    const letter = letterOf(text);
    putInOutbox(chat, letter);
    box.value = "";
    form.dispatchEvent(new CustomEvent("nd:sending"));
    post(letter);
  });

  box.addEventListener("keydown", (event) => {
    // While an input method composes, Enter chooses a word; some browsers tell only by the code 229.
    if (event.key !== "Enter" || event.isComposing || event.keyCode === 229) return;
    const breaks = form.dataset.enter === "break" || matchMedia("(pointer: coarse) and (not (any-pointer: fine))").matches;
    const sends = event.ctrlKey || event.metaKey || (!breaks && !event.shiftKey && !event.altKey);
    if (!sends) return;
    event.preventDefault();
    form.requestSubmit(form.querySelector('[data-when="idle"], [data-when="typed"]'));
  });

  // What finding the direction of every line and kerning costs grows faster than the text: a large one does without.
  function lighten() {
    const large = box.value.length > LARGE;
    box.classList.toggle("dense", large);
    if (large) box.removeAttribute("dir");
    else box.dir = "auto";
  }
  box.addEventListener("input", lighten);
  box.addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (text.length < LARGE) return;
    // Typed in by the browser, line by line, it would hold up the page for minutes.
    event.preventDefault();
    box.classList.add("dense");
    box.removeAttribute("dir");
    box.setRangeText(text, box.selectionStart, box.selectionEnd, "end");
    box.dispatchEvent(new Event("input", { bubbles: true }));
  });
  lighten();

  // A refresh from the server does not know what is still on its way.
  const kept = new MutationObserver(() => {
    for (const made of onTheWay.values()) if (!made.isConnected && !document.getElementById(made.id)) placeSent(made);
  });
  kept.observe(document.getElementById("transcript"), { childList: true });

  // Not where that would bring up a keyboard on the screen.
  if (matchMedia("(hover: hover)").matches && !location.hash) box.focus({ preventScroll: true });
  for (const letter of outboxOf(chat)) post(letter);
  return () => kept.disconnect();
});
