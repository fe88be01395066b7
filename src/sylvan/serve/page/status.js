// The messages above the page: what it waits for, a wanted key, a new version, a failure.

import { events, retry, setKey } from "./api.js";
import { byId } from "./dom.js";
import { say } from "./sentences.js";

const WAITS = { offline: "waiting.offline", loading: "waiting.loading", busy: "waiting.busy" };

let again = () => {};

/** Shows why something failed, with a button that calls `retrying`. */
export function fail(problem, retrying) {
  byId("failed-text").textContent = problem.message;
  byId("failed").hidden = false;
  again = retrying;
}

export function clearFailure() {
  byId("failed").hidden = true;
}

export function startStatus(store) {
  let ticking = null;

  events.addEventListener("waiting", ({ detail: condition }) => {
    clearInterval(ticking);
    const wantsKey = condition?.kind === "key";
    const form = byId("key-form");
    if (wantsKey && form.hidden) byId("key").value = "";
    const shownNow = wantsKey && form.hidden;
    form.hidden = !wantsKey;
    byId("key-problem").textContent = wantsKey ? condition.detail : "";
    if (shownNow) byId("key").focus();

    const banner = byId("waiting");
    banner.hidden = !condition || wantsKey;
    if (condition) clearFailure(); // what failed before is asked again, or isn't asked any more
    if (banner.hidden) return;
    banner.dataset.kind = condition.kind;
    const words = condition.kind === "loading" && condition.detail ? condition.detail : say(WAITS[condition.kind]);
    if (byId("waiting-text").textContent !== words) byId("waiting-text").textContent = words;
    // The seconds stand on the button, not in the text, which a screen reader would read out every second.
    const count = () => {
      const seconds = Math.max(Math.ceil((condition.until - Date.now()) / 1000), 0);
      byId("waiting-retry").textContent = seconds > 1 ? say("waiting.seconds", { seconds }) : say("waiting.retry");
    };
    count();
    ticking = setInterval(count, 1000);
  });

  events.addEventListener("version", ({ detail: { model, version } }) => {
    const card = store.get("models").find(({ name }) => name === model);
    byId("version-text").textContent = say("version.new", { model: card?.title || model, version });
    byId("version-note").hidden = false;
  });

  byId("waiting-retry").addEventListener("click", retry);
  byId("version-close").addEventListener("click", () => {
    byId("version-note").hidden = true;
  });
  byId("failed-retry").addEventListener("click", () => {
    clearFailure();
    again();
  });
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setKey(byId("key").value.trim());
  });
}
