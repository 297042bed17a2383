// One EventSource for a page, which lives only while the page is seen: a browser has six connections for a site.
// It comes back by itself from where it was: after a lost line, a restart of the server, sleep, and another page's turn.

const HIDE_AFTER_MS = 3_000;
const SILENT_MS = 40_000;
const POLL_MS = 2_000;
const LONGEST_PAUSE_MS = 15_000;

const LOST = {
  401: "You are signed out. Sign in again to go on; what you typed is kept.",
  403: "This page may no longer be followed. Load it again.",
  404: "This chat is gone. It may have been deleted on another device.",
};

// `address()` says where to, as of now; `events` names what is listened to; `hear(name, data)` gets each of them.
// `tell({ state, text, status })` hears how the line is: live, retrying, lost. `poll()` is asked now and then while
// another page has this one's place, and once the line is back after it was gone: of what happened meanwhile it tells
// only what belongs to the reply. It begins with `restart()`; `after` is the last event that was heard, and may be set.
export function openStream({ address, events, hear, tell, poll }) {
  const stream = { after: "", restart: () => { drop(); open(); }, close };
  let source = null;
  let probe = null;
  let timer = 0;
  let pause = 500;
  let heard = 0;
  let stopped = false;
  let yielded = false;
  let missed = false;

  function open() {
    if (stopped || yielded || source) return;
    if (document.hidden || !navigator.onLine) missed = true;
    if (document.hidden) return;
    if (!navigator.onLine) { tell({ state: "retrying", text: "" }); return; }
    clearTimeout(timer);
    heard = Date.now();
    source = new EventSource(address());
    source.onopen = opened;
    source.onerror = failed;
    for (const name of [...events, "yield", "beat"]) source.addEventListener(name, (event) => received(name, event));
  }

  function opened() {
    pause = 500;
    heard = Date.now();
    tell({ state: "live" });
    if (missed) poll();
    missed = false;
  }

  function received(name, event) {
    // The browser's own `open` has no data.
    if (event.target !== source || event.data === undefined) return;
    heard = Date.now();
    if (name === "yield") { giveWay(); return; }
    if (name !== "beat") hear(name, JSON.parse(event.data));
    if (event.lastEventId) stream.after = event.lastEventId;
  }

  function letGo() {
    missed = true;
    drop();
  }

  function drop() {
    clearTimeout(timer);
    probe?.abort();
    source?.close();
    source = probe = null;
  }

  // An EventSource does not say why it failed: the same question put by fetch does.
  async function failed() {
    letGo();
    const asked = probe = new AbortController();
    let wait = 0;
    try {
      const answer = await fetch(address(), { headers: { Accept: "text/event-stream" }, signal: asked.signal });
      if (LOST[answer.status]) { asked.abort(); lose(answer.status); return; }
      wait = Number(answer.headers.get("Retry-After")) * 1000 || 0;
      if (answer.ok) wait = -1;
    } catch {
      if (asked.signal.aborted) return;
    }
    asked.abort();
    if (probe === asked) probe = null;
    again(wait);
  }

  function again(wait) {
    if (pause > 500) tell({ state: "retrying", text: "The server cannot be reached. Trying again." });
    const soon = pause * (0.75 + Math.random() / 2);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    clearTimeout(timer);
    timer = setTimeout(open, wait < 0 ? soon / 4 : Math.max(wait, soon));
  }

  function lose(status) {
    close();
    tell({ state: "lost", text: LOST[status], status });
  }

  // Another page of this browser needs the connection: ask now and then, until this one has the focus again.
  function giveWay() {
    letGo();
    yielded = true;
    const ask = async () => {
      if (!yielded || stopped) return;
      if (!document.hidden) await poll();
      timer = setTimeout(ask, POLL_MS);
    };
    timer = setTimeout(ask, POLL_MS);
  }

  function restart() {
    if (stopped) return;
    letGo();
    open();
  }

  function close() {
    stopped = true;
    letGo();
    clearInterval(watch);
    for (const [target, name, act] of LISTENED) target.removeEventListener(name, act);
  }

  function shown() {
    if (!document.hidden) { clearTimeout(hiding); yielded = false; open(); return; }
    hiding = setTimeout(() => { if (document.hidden) letGo(); }, HIDE_AFTER_MS);
  }

  function back() {
    yielded = false;
    pause = 500;
    // After sleep a line may look open and be dead.
    if (source && Date.now() - heard < SILENT_MS) return;
    restart();
  }

  // The server says something every 15 s; a line that is silent for longer is dead. Neither is a sleeping page's.
  const watch = setInterval(() => { if (source && Date.now() - heard > SILENT_MS) restart(); }, 5_000);
  let hiding = 0;
  const LISTENED = [
    [document, "visibilitychange", shown],
    [document, "freeze", letGo],
    [document, "resume", back],
    [window, "pagehide", letGo],
    [window, "pageshow", (event) => { if (event.persisted) back(); }],
    [window, "focus", back],
    [window, "online", () => { yielded = false; pause = 500; restart(); }],
    [window, "offline", letGo],
  ];
  for (const [target, name, act] of LISTENED) target.addEventListener(name, act);
  return stream;
}
