// The clock of the status line. The server says how long it has been; from there on the page counts by itself.
import { register } from "../lib/controllers.js";

function clockWords(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const pad = (number) => String(number).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours ? `${hours}:${pad(minutes)}:${pad(seconds % 60)}` : `${minutes}:${pad(seconds % 60)}`;
}

register("elapsed", (status) => {
  let told = null;
  let since = 0;
  const timer = setInterval(() => {
    const element = status.querySelector("[data-elapsed]");
    if (!element) return;
    if (element.dataset.elapsed !== told) { told = element.dataset.elapsed; since = performance.now() - Number(told); }
    element.textContent = clockWords(performance.now() - since);
  }, 1000);
  return () => clearInterval(timer);
});
