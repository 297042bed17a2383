// Search and commands: one field over all chats and everything the page can do. Loaded when first asked for.
import { nextTheme } from "./theme.js";
import { sayTimes } from "./time_zone.js";
import { address } from "../lib/send.js";
import { fragment } from "../lib/trusted.js";

const PAUSE_MS = 120;
const COMMANDS = [
  { words: "New chat", keys: "Ctrl Shift O", act: () => location.assign(address("/")) },
  { words: "Temporary chat", act: () => location.assign(address("/?temporary=1")) },
  { words: "Change the theme", act: nextTheme },
  { words: "Models", act: () => location.assign(address("/settings")) },
  { words: "Appearance", act: () => location.assign(address("/settings/appearance")) },
  { words: "Archived chats", act: () => location.assign(address("/search?archived=1")) },
  { words: "Keyboard", keys: "?", act: () => document.getElementById("help")?.showPopover() },
];

let palette;

export function showPalette() {
  palette ??= makePalette();
  palette.element.showPopover();
  palette.field.value = "";
  palette.search();
  palette.field.focus();
}

function makePalette() {
  const element = document.getElementById("palette").content.firstElementChild.cloneNode(true);
  document.body.append(element);
  const field = element.querySelector("input");
  const results = element.querySelector(".results");
  let timer = 0;
  let asked = 0;

  async function search() {
    const words = field.value.trim();
    const mine = ++asked;
    // Without an answer there are still the commands.
    const answer = await fetch(address(`/search?q=${encodeURIComponent(words)}`), { headers: { Accept: "text/html", "HX-Request": "true" } }).catch(() => null);
    if (mine !== asked) return;
    results.replaceChildren(commandsFor(words), answer?.ok ? fragment(await answer.text()) : "");
    for (const heading of results.querySelectorAll("h2")) heading.setAttribute("role", "presentation");
    sayTimes(results);
    select(0);
  }
  const options = () => [...results.querySelectorAll(".result")];
  function select(place) {
    const found = options();
    found.forEach((option, index) => {
      option.id = `option-${index}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", String(index === place));
    });
    const chosen = found[place];
    if (chosen) { field.setAttribute("aria-activedescendant", chosen.id); chosen.scrollIntoView({ block: "nearest" }); }
    else field.removeAttribute("aria-activedescendant");
  }
  const chosen = () => options().findIndex((option) => option.getAttribute("aria-selected") === "true");

  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, PAUSE_MS); });
  element.addEventListener("keydown", (event) => {
    if (event.isComposing || event.keyCode === 229) return;
    const count = options().length;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && count) { event.preventDefault(); select((chosen() + step + count) % count); }
    if (event.key === "Enter") { event.preventDefault(); options()[Math.max(chosen(), 0)]?.click(); }
  });
  element.addEventListener("submit", (event) => event.preventDefault());

  function commandsFor(words) {
    const found = COMMANDS.filter((command) => command.words.toLowerCase().includes(words.toLowerCase()));
    const list = document.createDocumentFragment();
    if (!words || found.length) list.append(...found.slice(0, words ? 4 : 7).map(commandRow));
    return list;
  }
  function commandRow(command) {
    const row = Object.assign(document.createElement("button"), { type: "button", className: "result row" });
    row.append(command.words);
    if (command.keys) row.append(Object.assign(document.createElement("kbd"), { textContent: command.keys, className: "end" }));
    row.addEventListener("click", () => { element.hidePopover(); command.act(); });
    return row;
  }
  return { element, field, search };
}
