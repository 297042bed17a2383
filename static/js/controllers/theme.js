// The half-disc: as the system, light, dark. Kept with the account, where there is one.
import { register } from "../lib/controllers.js";
import { address, send } from "../lib/send.js";

const THEME_ORDER = ["system", "light", "dark"];
const themeNow = () => document.documentElement.dataset.theme ?? "system";

export function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const button of document.querySelectorAll("[data-theme-toggle]")) nameTheme(button);
}

function nameTheme(button) {
  const words = { system: "as the system", light: "light", dark: "dark" }[themeNow()];
  button.setAttribute("aria-label", `Theme: ${words}`);
  button.title = `Theme: ${words}`;
}

export function nextTheme() {
  const next = THEME_ORDER[(THEME_ORDER.indexOf(themeNow()) + 1) % THEME_ORDER.length];
  setTheme(next);
  if (document.body.dataset.timeZone !== undefined) send(address("/preferences"), { method: "PUT", body: { theme: next } }).catch(() => {});
}

register("theme", (body) => {
  body.querySelectorAll("[data-theme-toggle]").forEach(nameTheme);
  body.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-toggle]")) nextTheme();
  });
});
