// Text kept for this tab, under the person whose page it is: whoever signs in here next does not find it.

const slotOf = (kind, name) => `nd:${kind}:${document.body.dataset.person}:${name}`;

export function keptText(kind, name) {
  try { return sessionStorage.getItem(slotOf(kind, name)) ?? ""; } catch { return ""; }
}

// An empty text is none. Where storage is full or forbidden, what stands on the page is all there is.
export function keepText(kind, name, text) {
  try {
    if (text) sessionStorage.setItem(slotOf(kind, name), text);
    else sessionStorage.removeItem(slotOf(kind, name));
  } catch { /* see above */ }
}
