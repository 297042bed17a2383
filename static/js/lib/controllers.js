// One behaviour a controller, one controller a file, wired by `data-controller="name other"`.
// `register(name, connect)`: `connect(element)` runs once for each such element, now and later; what it returns, if
// anything, runs when the element has left the page.

const makers = new Map();
const connected = new Map();
let started = false;

export function register(name, connect) {
  makers.set(name, connect);
  // Not before its module has run to its end: what stands below this call does not exist yet.
  if (started) queueMicrotask(() => connectWithin(document.documentElement));
}

function connectWithin(root) {
  for (const element of [root, ...root.querySelectorAll("[data-controller]")]) connectOne(element);
}

function connectOne(element) {
  for (const name of element.dataset.controller?.split(" ") ?? []) {
    const maker = makers.get(name);
    const known = connected.get(element) ?? new Map();
    if (!maker || known.has(name)) continue;
    connected.set(element, known.set(name, maker(element)));
  }
}

function disconnectGone() {
  for (const [element, ends] of connected) {
    if (element.isConnected) continue;
    connected.delete(element);
    for (const end of ends.values()) end?.();
  }
}

export function startControllers() {
  started = true;
  connectWithin(document.documentElement);
  new MutationObserver((changes) => {
    let gone = false;
    for (const change of changes) {
      gone ||= change.removedNodes.length > 0;
      for (const node of change.addedNodes) if (node.nodeType === Node.ELEMENT_NODE) connectWithin(node);
    }
    if (gone) disconnectGone();
  }).observe(document.body, { childList: true, subtree: true });
}
