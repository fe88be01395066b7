// Why a suggestion, or why not: the words for and against it, what is broader and narrower, the nearest training texts;
// and under "Details" its path in the tree.

import { post, route } from "./api.js";
import { PAUSE } from "./answers.js";
import { accept, deny, has } from "./choices.js";
import { button, byId, el } from "./dom.js";
import { percent, score, signed } from "./format.js";
import { words } from "./highlight.js";
import { Latest } from "./latest.js";
import { paths } from "./path.js";
import { labelKey } from "./rank.js";
import { BY } from "./records.js";
import { relationLists, relationsOf } from "./relations.js";
import { address } from "./row.js";
import { number, ordinal, say } from "./sentences.js";

const MOST_WORDS = 12;

export function startExplain(store) {
  const panel = byId("explain");
  const title = el("h2", { id: "explain-title", tabindex: "-1", dir: "auto" });
  const body = el("div", { class: "explain-body" });
  const progress = el("div", { class: "progress", "aria-hidden": "true" });
  const latest = new Latest((busy) => progress.classList.toggle("is-busy", busy));
  let opener = null;
  let failed = null; // why there is no explanation
  let details = false; // whether they are open

  const close = () => {
    store.set({ explained: null });
    // A removed label's button is gone; the first one is as near as any.
    (opener?.isConnected ? opener : byId("labels").querySelector("input"))?.focus();
  };
  panel.append(
    progress,
    el("div", { class: "panel-head" }, title, button("×", close, { class: "icon", "aria-label": say("explain.close") })),
    body,
  );
  byId("record").addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && store.get("explained")) close();
  });

  /** What stands in the message above the page isn't said again here. */
  function showFailed() {
    const said = failed === store.get("problem");
    body.replaceChildren(el("p", said ? { class: "empty" } : { class: "problem", role: "alert" }, said ? say("answer.none") : failed));
  }

  function ask(delay) {
    const { explained: label, text, card } = store.fields();
    failed = null;
    if (!label || !card) {
      latest.cancel();
      return;
    }
    if (!text.trim()) {
      latest.cancel();
      body.replaceChildren(el("p", { class: "empty" }, say("explain.noText")));
      return;
    }
    latest.start(
      delay,
      async (signal) => {
        const question = { text, label: label.label, features: 10, ...(card.examples ? { examples: 3 } : {}) };
        const [{ explanation, spans }, relations] = await Promise.all([
          post(route(card.name, "/explain"), question, signal),
          relationsOf(card, label.label, signal),
        ]);
        body.replaceChildren(...content(store, label, explanation, text, spans, relations));
        const tree = body.querySelector("details");
        if (tree) tree.open = details;
        tree?.addEventListener("toggle", () => {
          details = tree.open;
        });
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

function content(store, label, explanation, text, spans, relations) {
  const listed = words(text, spans, MOST_WORDS);
  const tree = [...(explanation.notes ?? []).map((note) => el("p", { class: "soft" }, note)), ...paths(store, label, explanation)];
  return [
    el("p", { class: "verdict" }, verdict(explanation), " ", address({ label: label.code ?? label.label, name: label.name })),
    actions(store, label),
    ...relationLists(store, relations),
    el(
      "div",
      { class: "for-against" },
      wordList("for", say("words.for"), listed.for, say("words.noneFor")),
      wordList("against", say("words.against"), listed.against, say("words.noneAgainst")),
    ),
    ...examples(explanation.examples ?? []),
    tree.length ? el("details", { class: "details" }, el("summary", {}, say("explain.details")), tree) : "",
  ];
}

/** The answer in one sentence. */
function verdict({ place, score: value, probability, n_labels: all }) {
  if (place === null || place === undefined) return say("verdict.none");
  const place_ = ordinal(place);
  const known = probability !== null && probability !== undefined;
  return known ? say("verdict.probability", { place: place_, all, value: percent(probability) }) : say("verdict.score", { place: place_, all, value: score(value) });
}

function actions(store, label) {
  const { denied, accepted } = store.get("choices");
  return el(
    "p",
    { class: "actions" },
    has(accepted, label) ? null : button(say("explain.accept"), () => accept(store, label, isSuggested(store, label) ? BY.model : BY.person)),
    has(denied, label) ? null : button(say("explain.remove"), () => deny(store, label)),
  );
}

/** Whether the model suggests it itself. */
function isSuggested(store, label) {
  return (store.get("answers")?.labels ?? []).some((other) => labelKey(other.label) === labelKey(label.label));
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
    el("h3", {}, say("examples.title")),
    el(
      "ul",
      { class: "examples" },
      found.map(({ row, similarity, shared, excerpt }) =>
        el(
          "li",
          {},
          el("p", { dir: "auto" }, excerpt ?? say("examples.row", { row: number(row) })),
          el("p", { class: "soft" }, say(shared.length ? "examples.shared" : "examples.similarity", { similarity: score(similarity), shared: shared.join(", ") })),
        ),
      ),
    ),
  ];
}
