// What was sent and not yet accepted, kept for this tab until it is: a reload or a lost line costs nothing.

const OUTBOX = "nd:outbox:";

function readBox(chat) {
  try { return JSON.parse(sessionStorage.getItem(OUTBOX + chat) ?? "[]"); } catch { return []; }
}

function writeBox(chat, letters) {
  try {
    if (letters.length) sessionStorage.setItem(OUTBOX + chat, JSON.stringify(letters));
    else sessionStorage.removeItem(OUTBOX + chat);
  } catch { /* storage is full or forbidden: what is on the page still goes out */ }
}

export const outboxOf = (chat) => readBox(chat);

export function putInOutbox(chat, letter) {
  writeBox(chat, [...readBox(chat), letter]);
}

export function takeFromOutbox(chat, id) {
  writeBox(chat, readBox(chat).filter((letter) => letter.id !== id));
}
