// A sent message as it stands on the page before the server has answered; the server's own has the same id.
import { fragment } from "./trusted.js";

export function drawSent(id, text, queued) {
  const made = document.getElementById(queued ? "sent-queued" : "sent").content.firstElementChild.cloneNode(true);
  made.id = `message-${id}`;
  const words = made.querySelector("[data-words]");
  words.textContent = text;
  words.classList.toggle("dense", /\S{1000}/.test(text));
  placeSent(made);
  for (const welcome of document.querySelectorAll("[data-welcome]")) welcome.hidden = true;
  document.getElementById("transcript").classList.remove("welcome");
  document.dispatchEvent(new CustomEvent("nd:sent"));
  return made;
}

export function placeSent(made) {
  const queue = document.getElementById("queue");
  if (made.classList.contains("queued") && queue) queue.append(made);
  else if (queue) queue.before(made);
  else document.getElementById("transcript").append(made);
}

// Why it takes longer, under the message.
export function explainSent(made, words) {
  const hint = made.querySelector("[data-why]");
  if (!hint) return;
  hint.textContent = words;
  hint.hidden = !words;
}

// Puts the server's message, reply and queue where they belong; what a live frame has brought already stays.
export function placeAccepted(html, made) {
  const fresh = fragment(html);
  const message = fresh.querySelector(".said");
  const reply = fresh.querySelector(".reply");
  const queue = fresh.querySelector("#queue");
  const here = message && document.getElementById(message.id);
  if (here && (here === made || here.classList.contains("waiting"))) here.replaceWith(message);
  else if (message && !here) placeSent(message);
  if (made.isConnected && made !== here) made.remove();
  if (queue) document.getElementById("queue")?.replaceWith(queue);
  if (reply && !document.getElementById(reply.id)) placeSent(reply);
  return reply?.id.replace("reply-", "");
}
