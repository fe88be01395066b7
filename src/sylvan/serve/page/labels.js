// The list of suggestions, as many as are sure enough, and above it the accepted subjects that aren't among them.

import { accept, deny, has, isAdded, unaccept } from "./choices.js";
import { byId } from "./dom.js";
import { sureness } from "./format.js";
import { labelKey, shares } from "./rank.js";
import { BY } from "./records.js";
import { Row } from "./row.js";
import { say } from "./sentences.js";

const STEP = 10; // suggestions that "Show more" adds
const MOST = 200;
const SETTLED = 1200; // milliseconds without a change before the answers are read out

export function startLabels(store) {
  const lists = { labels: new Rows(store, byId("labels"), true), added: new Rows(store, byId("added"), false) };

  function show() {
    const { answers, text, card, sure, choices } = store.fields();
    const { accepted, denied, branch } = choices;
    const best = (answers?.labels ?? []).filter((label) => !has(denied, label));
    const part = shares(best);
    const surest = best.map((label, i) => ({ ...label, share: part[i] })).filter(({ share }) => share >= sure);
    const asked = new Map((answers?.accepted ?? []).map((label) => [labelKey(label.label), label]));
    const others = accepted
      .filter((label) => !has(surest, label))
      .map((label) => ({ value: null, code: null, ...label, ...asked.get(labelKey(label.label)) }));
    const calibrated = card?.calibrated ?? false;
    lists.added.show(others.map((label) => ({ ...label, share: label.value ?? 0 })), accepted, calibrated);
    lists.labels.show(surest, accepted, calibrated);
    byId("added").hidden = !others.length;
    byId("labels-count").textContent = answers ? found(surest.length, best.length - surest.length) : "";
    byId("labels-more").hidden = !answers || surest.length < best.length || !mayHaveMore(store, answers);
    byId("not-calibrated").hidden = calibrated || !answers;
    byId("labels-empty").hidden = surest.length > 0 || others.length > 0;
    byId("hints").hidden = text.trim() !== "" || others.length > 0;
    byId("labels-empty").textContent = emptyWords(store, best, denied.length > 0 || branch !== null);
    store.set({ shown: [...others, ...surest] });
  }

  byId("labels-more").addEventListener("click", () => {
    const first = lists.labels.length;
    store.set({ wanted: store.get("wanted") + STEP });
    lists.labels.focus(first - 1); // the button may go
  });
  store.on(["answers", "sure", "card", "text", "problem", "choices"], show);
  store.on(["explained"], () => Object.values(lists).forEach((list) => list.mark()));
  store.on(["shown"], summaries(store));
  show();
}

/** Rows that stay while their label does, so that the focus and the bars' movement survive new answers. */
class Rows {
  #store;
  #list;
  #numbered;
  #rows = new Map();

  constructor(store, list, numbered) {
    this.#store = store;
    this.#list = list;
    this.#numbered = numbered;
  }

  get length() {
    return this.#list.childElementCount;
  }

  show(labels, accepted, calibrated) {
    const keys = new Set(labels.map(({ label }) => labelKey(label)));
    const focused = [...this.#list.children].findIndex((element) => element.contains(document.activeElement));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      this.#rows.delete(key);
    }
    labels.forEach((label, i) => {
      const key = labelKey(label.label);
      const row = this.#rows.get(key) ?? new Row(this.#store, label, this.#actions(label));
      this.#rows.set(key, row);
      row.show(label, { accepted: has(accepted, label), calibrated, digit: this.#numbered && i < 10 ? (i + 1) % 10 : null });
      if (this.#list.children[i] !== row.element) this.#list.insertBefore(row.element, this.#list.children[i] ?? null);
    });
    if (focused >= 0 && document.activeElement === document.body) this.focus(focused); // of the label after it
    this.mark();
  }

  /** Which label the explanation is of. */
  mark() {
    const explained = this.#store.get("explained");
    for (const [key, row] of this.#rows) row.mark(explained !== null && key === labelKey(explained.label));
  }

  focus(place) {
    const rows = [...this.#list.children];
    rows[Math.min(Math.max(place, 0), rows.length - 1)]?.querySelector("input")?.focus();
  }

  #actions(label) {
    const store = this.#store;
    return {
      tick: (on) => (on ? accept(store, label, BY.model) : unaccept(store, label)),
      remove: () => (isAdded(store, label) ? unaccept(store, label) : deny(store, label)),
      explain: () => explain(store, label),
    };
  }
}

/** A second time closes the explanation. */
function explain(store, { label, name, code }) {
  const open = store.get("explained");
  store.set({ explained: open && labelKey(open.label) === labelKey(label) ? null : { label, name, code } });
}

function found(shown, hidden) {
  const words = say("labels.count", { n: shown });
  return hidden ? say("labels.countHidden", { count: words, n: hidden }) : words;
}

function mayHaveMore(store, answers) {
  const wanted = store.get("wanted");
  return answers.labels.length >= wanted && wanted < Math.min(MOST, store.get("card").labels);
}

function emptyWords(store, best, restricted) {
  const { problem, text, answers, sure } = store.fields();
  if (problem) return say("answer.none");
  if (!text.trim()) return say("labels.empty");
  if (!answers) return say("labels.asking");
  if (answers.unknown) return say("answer.unknown");
  if (best.length && sure > 0) return say("labels.noneSure");
  return say(restricted || answers.labels.length ? "labels.noneLeft" : "answer.noLabel");
}

/** Reads out what was found once typing has stopped, and only if it is something else than before. */
function summaries(store) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const { answers, card, shown } = store.fields();
      if (!answers) return;
      const [first] = shown;
      const value = first && first.value !== null ? `, ${sureness(first.value, card.calibrated)}` : "";
      const none = say(answers.unknown ? "answer.unknown" : "labels.none");
      const words = first ? say("labels.summary", { count: say("labels.count", { n: shown.length }), first: `${first.name}${value}` }) : none;
      if (byId("summary").textContent !== words) byId("summary").textContent = words;
    }, SETTLED);
  };
}
