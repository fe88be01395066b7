// Questions to the server. A question waits by itself while the server is away, busy, starting or wants a key;
// whoever asks sees an answer, a Problem, or its own signal's abort.

import { say } from "./sentences.js";

const KEY = "sylvan.key";
const LONGEST_WAIT = 30_000;

/** Events: "waiting" (a condition or null), "version" (another version of a model answers). */
export const events = new EventTarget();

/** An answer that says what is wrong, as the server put it. */
export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail || title || say("problem.status", { status: String(status) }));
    this.status = status;
    this.title = title ?? "";
  }
}

const waiting = new Map(); // a question -> what it waits for
const versions = new Map(); // a model -> the version that answered last
const wakers = new Set(); // one a wait: ends it before its time

/** The waits of all questions end now: a button, the network coming back, or a new key asks for it. */
export function retry() {
  for (const wake of [...wakers]) wake();
}

export function setKey(key) {
  sessionStorage.setItem(KEY, key);
  retry();
}

/** GETs a path, relative to the page: the application may be mounted under a prefix. */
export function get(path, signal) {
  return ask(path, { signal });
}

export function post(path, body, signal) {
  return ask(path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
    signal,
  });
}

/** The path of a model's route. */
export function route(model, rest = "") {
  return `v1/models/${encodeURIComponent(model)}${rest}`;
}

async function ask(path, options) {
  const question = Symbol(path);
  try {
    for (let attempt = 0; ; attempt += 1) {
      const key = sessionStorage.getItem(KEY);
      const headers = key ? { ...options.headers, Authorization: `Bearer ${key}` } : options.headers;
      let answer;
      try {
        answer = await fetch(path, { ...options, headers });
        if (answer.ok) {
          const result = await answer.json();
          noteVersion(answer.headers.get("Sylvan-Model"));
          return result;
        }
      } catch (failure) {
        if (options.signal?.aborted || failure instanceof SyntaxError) throw failure;
        await wait(question, { kind: "offline", after: backoff(attempt) }, options.signal);
        continue;
      }
      const problem = await problemOf(answer);
      const condition = conditionOf(answer, problem, attempt, key);
      if (!condition) throw problem;
      if (condition.kind !== "key" || sessionStorage.getItem(KEY) === key) {
        await wait(question, condition, options.signal);
      }
    }
  } finally {
    if (waiting.delete(question)) tell();
  }
}

/** What a refused question should wait for; null where waiting doesn't help. */
function conditionOf(answer, problem, attempt, key) {
  const after = Number.parseFloat(answer.headers.get("Retry-After")) * 1000;
  const pause = Number.isFinite(after) ? Math.min(Math.max(after, 200), LONGEST_WAIT) : null;
  if (answer.status === 401) return { kind: "key", detail: key ? problem.message : "" };
  if (answer.status === 429) return { kind: "busy", after: pause ?? backoff(attempt) };
  // A proxy says 502 while the server behind it starts; a 503 without Retry-After is a time limit.
  if (answer.status === 503 && pause !== null) return { kind: "loading", after: pause, detail: problem.message };
  if (answer.status === 502) return { kind: "loading", after: backoff(attempt) };
  return null;
}

async function problemOf(answer) {
  let said = {};
  try {
    said = await answer.json();
  } catch {
    // Not the server's own words, so a proxy's page perhaps; the status has to do.
  }
  return new Problem(answer.status, said?.title, said?.detail);
}

function backoff(attempt) {
  return Math.min(1000 * 2 ** attempt, LONGEST_WAIT);
}

function wait(question, condition, signal) {
  waiting.set(question, { ...condition, until: condition.after ? Date.now() + condition.after : null });
  tell();
  return new Promise((resolve, reject) => {
    const end = (settle) => {
      clearTimeout(timer);
      wakers.delete(wake);
      signal?.removeEventListener("abort", abort);
      settle();
    };
    const wake = () => end(resolve);
    const abort = () => end(() => reject(signal.reason));
    const timer = condition.after ? setTimeout(wake, condition.after) : undefined;
    wakers.add(wake);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort);
  });
}

/** What waits for a person comes before what ends by itself. */
function tell() {
  const conditions = [...waiting.values()];
  const first = ["key", "offline", "loading", "busy"]
    .map((kind) => conditions.find((condition) => condition.kind === kind))
    .find(Boolean);
  events.dispatchEvent(new CustomEvent("waiting", { detail: first ?? null }));
}

function noteVersion(header) {
  if (!header) return;
  const at = header.lastIndexOf("@");
  const [model, version] = [header.slice(0, at), header.slice(at + 1)];
  const before = versions.get(model);
  versions.set(model, version);
  if (before !== undefined && before !== version) {
    events.dispatchEvent(new CustomEvent("version", { detail: { model, version } }));
  }
}

window.addEventListener("online", retry);
