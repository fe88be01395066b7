// Two models on one text, side by side: what both say, and what only one does.

import { events, get, route } from "./api.js";
import { PAUSE } from "./answers.js";
import { byId, el, setShare } from "./dom.js";
import { count, ordinal, sureness } from "./format.js";
import { address } from "./labels.js";
import { Latest } from "./latest.js";
import { labelKey, rank, shares, UNKNOWN } from "./rank.js";

const K = 10;

export function startCompare(store) {
  const area = byId("compare-text");
  const sides = [new Side(0, () => ask(0)), new Side(1, () => ask(0))];
  const latest = new Latest((busy) => sides.forEach((side) => side.progress.classList.toggle("is-busy", busy)));
  byId("compare-sides").append(...sides.map((side) => side.section));

  function ask(delay) {
    if (store.get("view") !== "compare" || !sides[1].model) return;
    const text = store.get("text");
    if (!text.trim()) {
      latest.cancel();
      sides.forEach((side) => side.clear("Labels appear here while you type."));
      byId("compare-summary").textContent = "";
      return;
    }
    latest.start(delay, async (signal) => {
      const found = await Promise.all(sides.map((side) => side.ask(text, signal)));
      if (signal.aborted) return;
      sides.forEach((side, i) => side.show(found[i], found[1 - i]));
      byId("compare-summary").textContent = summary(found);
    });
  }

  store.on(["models"], () => {
    const models = store.get("models").filter(({ takes }) => takes === "texts");
    byId("compare-none").hidden = models.length >= 2;
    byId("compare-parts").hidden = models.length < 2;
    if (models.length >= 2) sides.forEach((side) => side.offer(models));
  });
  events.addEventListener("version", () => sides.forEach((side) => side.forget()));
  store.on(["view"], () => ask(0));
  store.on(["text"], () => {
    if (area.value !== store.get("text")) area.value = store.get("text");
    ask(PAUSE);
  });
  area.addEventListener("input", () => store.set({ text: area.value, spans: [] }));
}

/** One model's half. */
class Side {
  #number;
  #pick;
  #list = el("ol", { class: "labels" });
  #scores = el("p", { class: "soft", hidden: true }, "This model is not calibrated: the bars show scores, not probabilities.");
  #empty = el("p", { class: "empty" }, "Labels appear here while you type.");
  #cards = new Map();
  #card = null;
  model = null;
  progress = el("div", { class: "progress", "aria-hidden": "true" });

  constructor(number, changed) {
    this.#number = number;
    const title = ["First model", "Second model"][number];
    const change = () => {
      this.model = this.#pick.value;
      changed();
    };
    this.#pick = el("select", { id: `compare-model-${number}`, on: { change } });
    this.#list.setAttribute("aria-label", `Labels of the ${title.toLowerCase()}`);
    this.section = el(
      "section",
      { class: "panel", "aria-label": title },
      this.progress,
      el("div", { class: "panel-head" }, el("h2", {}, el("label", { for: this.#pick.id }, title)), this.#pick),
      this.#scores,
      this.#list,
      this.#empty,
    );
  }

  offer(models) {
    this.#pick.replaceChildren(...models.map(({ name, title }) => el("option", { value: name }, title || name)));
    this.#pick.selectedIndex = this.#number;
    this.model = this.#pick.value;
  }

  /** The model's labels, or the problem that stands in their place. */
  async ask(text, signal) {
    try {
      if (!this.#cards.has(this.model)) this.#cards.set(this.model, await get(route(this.model), signal));
      this.#card = this.#cards.get(this.model);
      return await rank(this.#card, text, { k: Math.min(K, this.#card.labels) }, signal);
    } catch (problem) {
      if (signal.aborted) throw problem;
      return problem;
    }
  }

  /** The cards may have changed. */
  forget() {
    this.#cards.clear();
  }

  clear(words) {
    this.#list.replaceChildren();
    this.#empty.textContent = words;
    this.#empty.hidden = false;
    this.#scores.hidden = true;
  }

  show(found, other) {
    if (found instanceof Error) {
      this.clear(found.message);
      return;
    }
    if (found.unknown) {
      this.clear(UNKNOWN);
      return;
    }
    this.#empty.hidden = true;
    this.#scores.hidden = this.#card.calibrated;
    const places = new Map(Array.isArray(other) ? other.map(({ label }, i) => [labelKey(label), i + 1]) : []);
    const part = shares(found);
    this.#list.replaceChildren(
      ...found.map((answer, i) => {
        const bar = el("span", { class: "bar", "aria-hidden": "true" });
        setShare(bar, part[i]);
        const place = places.get(labelKey(answer.label));
        const mark = place ? `both, ${ordinal(place)} there` : "only here";
        return el(
          "li",
          { class: `row ${place ? "is-common" : "is-different"}` },
          el(
            "span",
            { class: "label-cell" },
            el("span", { class: "label", dir: "auto" }, answer.name),
            el("span", { class: "badge" }, mark),
            address(answer),
          ),
          el("span", { class: "value" }, sureness(answer.value, this.#card.calibrated)),
          bar,
        );
      }),
    );
  }
}

function summary([first, second]) {
  if (first instanceof Error || second instanceof Error) return "";
  const there = new Set(second.map(({ label }) => labelKey(label)));
  const common = first.filter(({ label }) => there.has(labelKey(label))).length;
  const most = Math.max(first.length, second.length);
  const agree = first.length && second.length && labelKey(first[0].label) === labelKey(second[0].label);
  return `${count(common, "label")} of the best ${most} ${common === 1 ? "is" : "are"} common to both. ${agree ? "Both put the same one first." : "They put different ones first."}`;
}
