// What was sent and not yet accepted, kept for this tab until it is: a reload or a lost line costs nothing.
import { keepText, keptText } from "./slots.js";

export const outboxOf = (chat) => JSON.parse(keptText("outbox", chat) || "[]");

const keepOutbox = (chat, letters) => keepText("outbox", chat, letters.length ? JSON.stringify(letters) : "");

export function putInOutbox(chat, letter) {
  keepOutbox(chat, [...outboxOf(chat), letter]);
}

export function takeFromOutbox(chat, id) {
  keepOutbox(chat, outboxOf(chat).filter((letter) => letter.id !== id));
}
