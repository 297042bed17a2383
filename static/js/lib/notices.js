// An error as a sentence in its place, with what helps.

// Puts the sentence of `error` at the end of `place` (at its beginning with `first`), in place of an earlier one.
export function showNotice(place, error, { first = false, again } = {}) {
  clearNotice(place);
  const notice = document.createElement("div");
  notice.className = "notice danger";
  notice.dataset.notice = "";
  notice.setAttribute("role", "alert");
  const body = document.createElement("div");
  body.append(Object.assign(document.createElement("p"), { textContent: error.message }));
  const help = helpFor(error, again);
  if (help) body.append(help);
  notice.append(body, closer(notice));
  if (first) place.prepend(notice);
  else place.append(notice);
  return notice;
}

export function clearNotice(place) {
  place.querySelector(":scope > [data-notice]")?.remove();
}

function helpFor(error, again) {
  const row = Object.assign(document.createElement("p"), { className: "row wrap" });
  const link = (href, text) => row.append(Object.assign(document.createElement("a"), { className: "btn small", href, textContent: text }));
  if (error.signIn) link(error.signIn, "Sign in");
  else if (error.name === "not-allowed") link(location.href, "Load the page again");
  else if (error.name === "unknown-model") link(document.querySelector('a[href$="/settings"]')?.href ?? "settings", "Open settings");
  else if (again) row.append(button("Try again", again));
  return row.childElementCount ? row : null;
}

function button(text, act) {
  const made = Object.assign(document.createElement("button"), { type: "button", className: "btn small", textContent: text });
  made.addEventListener("click", act);
  return made;
}

function closer(notice) {
  const made = button("", () => notice.remove());
  made.classList.add("plain", "square");
  made.setAttribute("aria-label", "Dismiss");
  made.textContent = "×";
  return made;
}
