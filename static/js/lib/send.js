// Changes sent to the server: with the session's token, and errors as what the server says of them.

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";

export const address = (path) => meta("root") + path;

// The sign-in page that leads back here.
export const signInAddress = () =>
  address("/sign-in?next=") + encodeURIComponent(location.pathname.slice(meta("root").length) + location.search);

// What the server said no to. `name` is the problem's, `signIn` where to sign in if that helps.
export class Refusal extends Error {
  constructor(status, problem, wait) {
    super(problem.detail ?? "The server gave no usable answer. Try again.");
    this.status = status;
    this.name = problem.type?.split("/").pop() ?? "error";
    this.wait = wait;
  }

  // Worth sending again as it is: the server is restarting, busy, or asks to wait.
  get passing() { return this.status === 429 || this.status === 503 || this.status === 502 || this.status === 504; }

  get signIn() { return this.status === 401 ? signInAddress() : null; }
}

// Sends once. Gives the answer's JSON (null if it has none). Throws Refusal, or TypeError where no answer came.
export async function send(url, { method = "POST", body, key, ...options } = {}) {
  const headers = { Accept: "application/json", "X-CSRF-Token": meta("csrf") };
  if (key) headers["Idempotency-Key"] = key;
  if (body && !(body instanceof URLSearchParams)) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(body);
  }
  const answer = await fetch(url, { method, body, headers, ...options });
  const text = await answer.text();
  if (answer.ok) return text ? JSON.parse(text) : null;
  throw new Refusal(answer.status, asProblem(text), Number(answer.headers.get("Retry-After")) * 1000 || 0);
}

function asProblem(text) {
  try { return JSON.parse(text); } catch { return {}; }
}

// Sends until there is an answer: a lost line, a restart and a rate limit are waited for, under the same key.
// `waiting(words)` hears why it takes longer.
export async function sendSurely(url, options, waiting) {
  for (let pause = 500; ; pause = Math.min(pause * 2, 15_000)) {
    let wait = pause;
    try {
      if (navigator.onLine) return await send(url, options);
    } catch (error) {
      if (error instanceof Refusal && !error.passing) throw error;
      if (error instanceof Refusal) { wait = Math.max(pause, error.wait); waiting(error.message); }
      else waiting("The server cannot be reached. It goes out as soon as it can.");
    }
    if (!navigator.onLine) waiting("Offline. It goes out once the network is back.");
    await soon(wait);
  }
}

// After `ms`, or at once when the network comes back.
function soon(ms) {
  return new Promise((done) => {
    const go = () => { clearTimeout(timer); removeEventListener("online", go); done(); };
    const timer = setTimeout(go, ms);
    addEventListener("online", go);
  });
}
