// A toast confirms what was done elsewhere. It is never the only sign of an error.

const SHOWN_MS = 6_000;

export function say(text, { href, label } = {}) {
  const shelf = document.getElementById("toasts");
  if (!shelf) return;
  const toast = document.createElement("div");
  toast.className = "toast";
  toast.append(text);
  if (href) {
    const link = Object.assign(document.createElement("a"), { className: "btn", href, textContent: label ?? "Open" });
    toast.append(" ", link);
  }
  shelf.append(toast);
  if (!shelf.matches(":popover-open")) shelf.showPopover();
  setTimeout(() => {
    toast.remove();
    if (!shelf.childElementCount) shelf.hidePopover();
  }, SHOWN_MS);
}
