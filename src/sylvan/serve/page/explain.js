// Why a label, or why not: the words for and against it, its path in the tree, and the nearest training texts.

import { post, route } from "./api.js";
import { NO_ANSWER, PAUSE } from "./answers.js";
import { add, deny, has } from "./choices.js";
import { button, byId, el } from "./dom.js";
import { integer, ordinal, percent, score, signed } from "./format.js";
import { words } from "./highlight.js";
import { address } from "./labels.js";
import { Latest } from "./latest.js";
import { paths } from "./path.js";
import { labelKey } from "./rank.js";

const MOST_WORDS = 12;

export function startExplain(store) {
  const panel = byId("explain");
  const title = el("h2", { id: "explain-title", tabindex: "-1", dir: "auto" });
  const body = el("div", { class: "explain-body" });
  const progress = el("div", { class: "progress", "aria-hidden": "true" });
  const latest = new Latest((busy) => progress.classList.toggle("is-busy", busy));
  let opener = null;
  let failed = null; // why there is no explanation

  const close = () => {
    store.set({ explained: null });
    // A removed label's button is gone; the first one is as near as any.
    (opener?.isConnected ? opener : byId("labels").querySelector("button"))?.focus();
  };
  panel.append(
    progress,
    el("div", { class: "panel-head" }, title, button("×", close, { class: "icon", "aria-label": "Close the explanation" })),
    body,
  );
  byId("tag").addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && store.get("explained")) close();
  });

  /** What stands in the message above the page isn't said again here. */
  function showFailed() {
    const said = failed === store.get("problem");
    body.replaceChildren(el("p", said ? { class: "empty" } : { class: "problem", role: "alert" }, said ? NO_ANSWER : failed));
  }

  function ask(delay) {
    const label = store.get("explained");
    const text = store.get("text");
    const card = store.get("card");
    if (!label || !card) {
      latest.cancel();
      return;
    }
    if (!text.trim()) {
      latest.cancel();
      failed = null;
      body.replaceChildren(el("p", { class: "empty" }, "An explanation needs a text."));
      return;
    }
    failed = null;
    latest.start(
      delay,
      async (signal) => {
        const question = { text, label: label.label, features: 10, ...(card.examples ? { examples: 3 } : {}) };
        const { explanation, spans } = await post(route(card.name, "/explain"), question, signal);
        failed = null;
        body.replaceChildren(...content(store, label, explanation, text, spans));
        store.set({ spans });
      },
      (problem) => {
        store.set({ spans: [] });
        failed = problem.message;
        showFailed();
      },
    );
  }

  store.on(["explained"], () => {
    const label = store.get("explained");
    store.set({ spans: [] });
    panel.hidden = !label;
    if (label) {
      if (!panel.contains(document.activeElement)) opener = document.activeElement;
      title.textContent = label.name;
      body.replaceChildren();
      title.focus({ preventScroll: true });
      panel.scrollIntoView({ block: "nearest" });
    }
    failed = null;
    ask(0);
  });
  store.on(["problem"], () => failed !== null && showFailed());
  store.on(["text"], () => ask(PAUSE));
  store.on(["card"], () => ask(0));
  store.on(["choices"], () => {
    const label = store.get("explained");
    const actionsNow = body.querySelector(".actions");
    if (label && actionsNow) actionsNow.replaceWith(actions(store, label));
  });
}

function content(store, label, explanation, text, spans) {
  const listed = words(text, spans, MOST_WORDS);
  return [
    el("p", { class: "verdict" }, verdict(explanation), " ", address(label)),
    actions(store, label),
    el(
      "div",
      { class: "for-against" },
      wordList("for", "Words for it", listed.for, "No word of this text speaks for it."),
      wordList("against", "Words against it", listed.against, "No word of this text speaks against it."),
    ),
    ...(explanation.notes ?? []).map((note) => el("p", { class: "soft" }, note)),
    ...paths(store, label, explanation),
    ...examples(explanation.examples ?? []),
  ];
}

/** The answer in one sentence. */
function verdict({ place, score: value, probability, n_labels: labels }) {
  if (place === null || place === undefined) return "Not among the answers: the search doesn't reach it.";
  const sure = probability === null || probability === undefined ? `score ${score(value)}` : percent(probability);
  return `${ordinal(place)} of ${integer(labels)} labels, ${sure}.`;
}

function actions(store, label) {
  const { denied, added } = store.get("choices");
  const listed = store.get("shown").some((other) => labelKey(other.label) === labelKey(label.label));
  return el(
    "p",
    { class: "actions" },
    has(added, label) || (listed && !has(denied, label))
      ? null
      : button("Add this label", () => add(store, label)),
    has(denied, label) ? null : button("Remove this label", () => deny(store, label)),
  );
}

function wordList(side, title, listed, none) {
  const id = `words-${side}`;
  return el(
    "div",
    { class: "words" },
    el("h3", { id }, el("span", { class: `legend ${side}`, "aria-hidden": "true" }, "abc"), " ", title),
    listed.length
      ? el(
          "ul",
          { "aria-labelledby": id },
          listed.map(({ word, weight }) =>
            el("li", {}, el("span", { class: `word ${side}`, dir: "auto" }, word), " ", el("span", { class: "value" }, signed(weight))),
          ),
        )
      : el("p", { class: "soft" }, none),
  );
}

function examples(found) {
  if (!found.length) return [];
  return [
    el("h3", {}, "Nearest training texts with this label"),
    el(
      "ul",
      { class: "examples" },
      found.map(({ row, similarity, shared, excerpt }) =>
        el(
          "li",
          {},
          el("p", { dir: "auto" }, excerpt ?? `Row ${integer(row)}`),
          el("p", { class: "soft" }, `Similarity ${score(similarity)}${shared.length ? `; shared: ${shared.join(", ")}` : ""}`),
        ),
      ),
    ),
  ];
}
