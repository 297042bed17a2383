// The one way for HTML into the page. The policy `app` passes what our own server sent, which has cleaned it; the
// browser refuses HTML from anywhere else, and script from anybody.

const policy = globalThis.trustedTypes?.createPolicy("app", { createHTML: (text) => text, createScript: () => null })
  ?? { createHTML: (text) => text };

globalThis.htmx?.registerExtension("trusted", { init: (api) => api.initSecurity(policy) });

export const html = (text) => policy.createHTML(text);

export function fragment(text) {
  const made = document.createElement("template");
  made.innerHTML = html(text);
  return made.content;
}

export function swap(element, text) {
  element.replaceWith(fragment(text));
}

// Changes `element` into what `text` says, in place: nodes that stay the same are not touched, so what is selected,
// focused, folded open or scrolled stays so.
export function morph(element, text) {
  const fresh = fragment(text).firstElementChild;
  if (!fresh) return element;
  if (!isLike(element, fresh)) { element.replaceWith(fresh); return fresh; }
  morphInto(element, fresh);
  return element;
}

// Changes the children of `parent` from number `start` on into `fresh`. With `most`, only that many of them.
export function morphChildren(parent, fresh, start = 0, most = Infinity) {
  let here = parent.childNodes[start] ?? null;
  const end = parent.childNodes[start + most] ?? null;
  for (const next of [...fresh]) {
    const match = findLike(here, next, end);
    if (!match) { parent.insertBefore(next, here); continue; }
    if (match === here) here = here.nextSibling;
    else parent.insertBefore(match, here);
    morphInto(match, next);
  }
  while (here && here !== end) {
    const gone = here;
    here = here.nextSibling;
    gone.remove();
  }
}

function isLike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id ?? "") === (other.id ?? "");
}

// What `next` is now: by its id wherever it stands among the siblings from `here` on, else the one in its place.
function findLike(here, next, end) {
  if (!next.id) return here && here !== end && isLike(here, next) ? here : null;
  for (let node = here; node && node !== end; node = node.nextSibling) if (isLike(node, next)) return node;
  return null;
}

function morphInto(element, fresh) {
  if (element.nodeType !== Node.ELEMENT_NODE) { morphText(element, fresh.data); return; }
  if (element.isEqualNode(fresh) || isFilledByScript(element, fresh)) return;
  for (const { name } of [...element.attributes]) {
    if (!fresh.hasAttribute(name) && !isReaders(element, name)) element.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (element.getAttribute(name) !== value && !isReaders(element, name)) element.setAttribute(name, value);
  }
  morphChildren(element, fresh.childNodes);
}

// Only what differs is replaced: a selection in what stays keeps its ends.
function morphText(node, text) {
  const old = node.data;
  if (old === text) return;
  let start = 0;
  while (start < old.length && start < text.length && old[start] === text[start]) start++;
  let end = 0;
  const most = Math.min(old.length, text.length) - start;
  while (end < most && old[old.length - 1 - end] === text[text.length - 1 - end]) end++;
  node.replaceData(start, old.length - start - end, text.slice(start, text.length - end));
}

// What the reader has done: folded something open.
function isReaders(element, name) {
  return name === "open" && element.nodeName === "DETAILS";
}

// A formula that is set, the head of a code block with its button, a message that is being edited: they stay if they
// are about the same.
function isFilledByScript(element, fresh) {
  if (element.dataset.editing !== undefined) return true;
  if (element.dataset.tex !== undefined) return element.dataset.tex === fresh.dataset.tex && element.className === fresh.className;
  return element.matches(".code > header") && element.firstElementChild?.textContent === fresh.firstElementChild?.textContent;
}
