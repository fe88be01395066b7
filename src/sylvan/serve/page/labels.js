// The list of labels: names with bars, as many as are sure enough, and what a person added.

import { NO_ANSWER, NO_LABEL } from "./answers.js";
import { deny, dropAdded, has } from "./choices.js";
import { button, byId, el, setShare } from "./dom.js";
import { count, isAddress, percent, sureness } from "./format.js";
import { bounded, labelKey, shares, UNKNOWN } from "./rank.js";

const STEP = 10; // labels that "Show more" adds
const MOST = 200;
const SETTLED = 1200; // milliseconds without a change before the answers are read out

export function startLabels(store) {
  const lists = { labels: new Rows(store, byId("labels")), added: new Rows(store, byId("added")) };
  const sure = byId("sure");

  function show() {
    const { answers, text, card, floor } = read(store);
    const { denied, branch, ...choices } = store.get("choices");
    const values = new Map((answers?.added ?? []).concat(answers?.labels ?? []).map((one) => [labelKey(one.label), one.value]));
    const added = choices.added.map((label) => ({ ...label, value: values.get(labelKey(label.label)) ?? null, added: true }));
    const best = (answers?.labels ?? []).filter((label) => !has(added, label) && !has(denied, label));
    const part = shares(best);
    const surest = best.map((label, i) => ({ ...label, share: part[i] })).filter(({ share }) => share >= floor);
    const calibrated = card?.calibrated ?? false;
    lists.added.show(added.map((label) => ({ ...label, share: label.value ?? 0 })), calibrated);
    lists.labels.show(surest, calibrated);
    byId("added").hidden = !added.length;
    byId("labels-count").textContent = answers ? found(surest.length, best.length - surest.length) : "";
    byId("labels-more").hidden = !answers || surest.length < best.length || !mayHaveMore(store, answers);
    byId("not-calibrated").hidden = calibrated || !answers;
    byId("labels-empty").hidden = surest.length > 0 || added.length > 0;
    byId("hints").hidden = text.trim() !== "" || added.length > 0;
    byId("labels-empty").textContent = emptyWords(store, text, answers, best, floor, denied.length > 0 || branch !== null);
    store.set({ shown: [...added, ...surest] });
  }

  sure.addEventListener("input", () => store.set({ sure: sure.valueAsNumber / 100 }));
  store.on(["sure", "card", "answers"], () => {
    const { floor, card, answers } = read(store);
    const scores = card?.calibrated === false;
    sure.value = String(Math.round(100 * floor));
    const words = scores ? floor.toFixed(2) : percent(floor).replace(".0", "");
    byId("sure-value").textContent = words;
    sure.setAttribute("aria-valuetext", words);
    const whole = bounded(answers?.labels ?? []) ? "Score" : "Part of the best score";
    byId("sure-label").textContent = `${scores ? whole : "How sure"}, at least`;
  });
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
  #rows = new Map();

  constructor(store, list) {
    this.#store = store;
    this.#list = list;
  }

  get length() {
    return this.#list.childElementCount;
  }

  show(labels, calibrated) {
    const keys = new Set(labels.map(({ label }) => labelKey(label)));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.remove();
      this.#rows.delete(key);
    }
    labels.forEach((label, i) => {
      const key = labelKey(label.label);
      const row = this.#rows.get(key) ?? this.#row(label);
      this.#rows.set(key, row);
      const bar = row.querySelector(".bar");
      bar.hidden = label.value === null;
      setShare(bar, label.share);
      row.querySelector(".value").textContent = label.value === null ? "" : sureness(label.value, calibrated);
      if (this.#list.children[i] !== row) this.#list.insertBefore(row, this.#list.children[i] ?? null);
    });
    this.mark();
  }

  /** Which label the explanation is of. */
  mark() {
    const explained = this.#store.get("explained");
    for (const [key, row] of this.#rows) {
      const open = explained !== null && key === labelKey(explained.label);
      row.classList.toggle("is-explained", open);
      row.querySelector("button.label")?.setAttribute("aria-expanded", String(open));
    }
  }

  focus(place) {
    const rows = [...this.#list.children];
    rows[Math.min(Math.max(place, 0), rows.length - 1)]?.querySelector("button")?.focus();
  }

  #row(label) {
    const store = this.#store;
    const { name, added } = label;
    const remove = () => {
      const place = [...this.#list.children].findIndex((row) => row === this.#rows.get(labelKey(label.label)));
      if (added) dropAdded(store, label);
      else deny(store, label);
      this.focus(place); // of the label after it
    };
    const shown = store.get("card")?.explains
      ? button(name, () => explain(store, label), { class: "label", dir: "auto", "aria-expanded": "false", "aria-controls": "explain" })
      : el("span", { class: "label", dir: "auto" }, name);
    const words = added ? `Don't add ${name}` : `Remove ${name}`;
    return el(
      "li",
      { class: added ? "row is-added" : "row" },
      el("span", { class: "label-cell" }, shown, added ? el("span", { class: "badge" }, "added") : null, address(label)),
      el("span", { class: "value" }),
      button("×", remove, { class: "icon remove", "aria-label": words, title: words }),
      el("span", { class: "bar", "aria-hidden": "true" }),
    );
  }
}

/** A second click closes the explanation. */
function explain(store, { label, name }) {
  const open = store.get("explained");
  store.set({ explained: open && labelKey(open.label) === labelKey(label) ? null : { label, name } });
}

/** Where the label's own address leads, if it is one. */
export function address({ label, name }) {
  if (!isAddress(label)) return null;
  const words = name === String(label) ? "open" : String(label);
  const attributes = { class: "address", href: label, target: "_blank", rel: "noopener noreferrer" };
  return el("a", { ...attributes, "aria-label": `Open the page of ${name}` }, words);
}

function found(shown, hidden) {
  return hidden ? `${count(shown, "label")}, ${hidden} less sure` : count(shown, "label");
}

function mayHaveMore(store, answers) {
  const wanted = store.get("wanted");
  return answers.labels.length >= wanted && wanted < Math.min(MOST, store.get("card").labels);
}

function emptyWords(store, text, answers, best, floor, restricted) {
  if (store.get("problem")) return NO_ANSWER;
  if (!text.trim()) return "Labels appear here while you type.";
  if (!answers) return "Asking for labels.";
  if (answers.unknown) return UNKNOWN;
  if (best.length && floor > 0) return "No label is this sure. Move the slider to the left to see more.";
  return restricted || answers.labels.length ? "No label is left for this text." : NO_LABEL;
}

/** Reads out what was found once typing has stopped, and only if it is something else than before. */
function summaries(store) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const { answers, card } = read(store);
      const shown = store.get("shown");
      if (!answers) return;
      const [first] = shown;
      const value = first && first.value !== null ? `, ${sureness(first.value, card.calibrated)}` : "";
      const words = first ? `${count(shown.length, "label")}. First: ${first.name}${value}.` : answers.unknown ? UNKNOWN : "No labels.";
      if (byId("summary").textContent !== words) byId("summary").textContent = words;
    }, SETTLED);
  };
}

function read(store) {
  return { answers: store.get("answers"), text: store.get("text"), card: store.get("card"), floor: store.get("sure") };
}
