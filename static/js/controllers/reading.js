// Follows the end only while the reader is there. Only the reader's own scrolling turns that off and on; what grows,
// folds or ends never does. Selecting text holds the page still.
import { register } from "../lib/controllers.js";

const NEAR_PX = 64;

register("reading", (transcript) => {
  const page = document.scrollingElement;
  const button = document.querySelector("[data-to-end]");
  let following = true;
  let lastTop = page.scrollTop;
  let lastHeight = page.scrollHeight;

  const atEnd = () => page.scrollTop + innerHeight >= page.scrollHeight - NEAR_PX;
  const selecting = () => {
    const selection = getSelection();
    return selection && !selection.isCollapsed && transcript.contains(selection.anchorNode);
  };

  function toEnd() {
    following = true;
    page.scrollTop = page.scrollHeight;
    button?.removeAttribute("data-shown");
  }
  function scrolled() {
    const up = page.scrollTop < lastTop && page.scrollHeight >= lastHeight;
    if (atEnd()) { following = true; button?.removeAttribute("data-shown"); }
    else if (up) following = false;
    lastTop = page.scrollTop;
    lastHeight = page.scrollHeight;
  }
  function grown() {
    const more = page.scrollHeight > lastHeight;
    if (following && !selecting()) page.scrollTop = page.scrollHeight;
    else if (more && !atEnd()) button?.setAttribute("data-shown", "");
    lastHeight = page.scrollHeight;
    lastTop = page.scrollTop;
  }

  // A link to one message, and a page gone back to, say themselves where to begin.
  const back = performance.getEntriesByType("navigation")[0]?.type === "back_forward";
  if (!location.hash && !location.search && !back) toEnd();
  else following = atEnd();

  const size = new ResizeObserver(grown);
  size.observe(transcript);
  // A composer that grows must not cover the end of what is being read.
  const dock = document.querySelector(".dock");
  if (dock) size.observe(dock);
  addEventListener("scroll", scrolled, { passive: true });
  document.addEventListener("nd:sent", toEnd);
  button?.addEventListener("click", toEnd);
  return () => {
    size.disconnect();
    removeEventListener("scroll", scrolled);
    document.removeEventListener("nd:sent", toEnd);
  };
});
