// Two models on one text, side by side: what both say, and what only one does.

import { events, get, route } from "./api.js";
import { PAUSE } from "./answers.js";
import { byId, el, setShare } from "./dom.js";
import { sureness } from "./format.js";
import { Latest } from "./latest.js";
import { labelKey, rank, shares } from "./rank.js";
import { address } from "./row.js";
import { ordinal, say } from "./sentences.js";
import { fail } from "./status.js";
import { setText } from "./text.js";

const K = 10;

export function startCompare(store) {
  const area = byId("compare-text");
  const sides = [new Side(0, () => ask(0)), new Side(1, () => ask(0))];
  const latest = new Latest((busy) => sides.forEach((side) => side.progress.classList.toggle("is-busy", busy)));
  let answers = null; // of both
  byId("compare-sides").append(...sides.map((side) => side.section));

  function ask(delay) {
    if (store.get("view") !== "compare" || !sides[1].model) return;
    const text = store.get("text");
    if (!text.trim()) {
      latest.cancel();
      answers = null;
      sides.forEach((side) => side.clear(say("labels.empty")));
      byId("compare-summary").textContent = "";
      return;
    }
    answers = null;
    latest.start(delay, async (signal) => {
      const found = await Promise.all(sides.map((side) => side.ask(text, signal)));
      if (signal.aborted) return;
      answers = found;
      if (found.every((one) => one instanceof Error) && found[0].message === found[1].message) {
        store.set({ problem: found[0].message });
        fail(found[0], () => ask(0));
      }
      show();
    });
  }

  /** What stands in the message above the page isn't said again below it. */
  function show() {
    if (!answers) return;
    sides.forEach((side, i) => side.show(answers[i], answers[1 - i], store.get("problem")));
    byId("compare-summary").textContent = summary(answers);
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
  store.on(["problem"], show);
  area.addEventListener("input", () => setText(store, area.value));
}

/** One model's half. */
class Side {
  #number;
  #pick;
  #list = el("ol", { class: "labels" });
  #scores = el("p", { class: "soft", hidden: true }, say("labels.notCalibrated"));
  #empty = el("p", { class: "empty" }, say("labels.empty"));
  #cards = new Map();
  #card = null;
  model = null;
  progress = el("div", { class: "progress", "aria-hidden": "true" });

  constructor(number, changed) {
    this.#number = number;
    const title = say(["compare.first", "compare.second"][number]);
    const change = () => {
      this.model = this.#pick.value;
      changed();
    };
    this.#pick = el("select", { id: `compare-model-${number}`, on: { change } });
    this.#list.setAttribute("aria-label", say("compare.labels", { title }));
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

  show(found, other, problem) {
    if (found instanceof Error) {
      this.clear(found.message === problem ? say("answer.none") : found.message);
      return;
    }
    this.#empty.textContent = say(found.unknown ? "answer.unknown" : "answer.noLabel");
    this.#empty.hidden = found.length > 0;
    this.#scores.hidden = this.#card.calibrated;
    const places = new Map(Array.isArray(other) ? other.map(({ label }, i) => [labelKey(label), i + 1]) : []);
    const part = shares(found);
    this.#list.replaceChildren(
      ...found.map((answer, i) => {
        const bar = el("span", { class: "bar", "aria-hidden": "true" });
        setShare(bar, part[i]);
        const place = places.get(labelKey(answer.label));
        const mark = place ? say("compare.both", { place: ordinal(place) }) : say("compare.only");
        return el(
          "li",
          { class: `row ${place ? "is-common" : "is-different"}` },
          el(
            "span",
            { class: "label-cell" },
            el("span", { class: "label", dir: "auto" }, answer.name),
            el("span", { class: "badge" }, mark),
            address({ label: answer.code ?? answer.label, name: answer.name }),
          ),
          el("span", { class: "value" }, sureness(answer.value, this.#card.calibrated)),
          bar,
        );
      }),
    );
  }
}

function summary([first, second]) {
  if (first instanceof Error || second instanceof Error || !first.length || !second.length) return "";
  const there = new Set(second.map(({ label }) => labelKey(label)));
  const common = first.filter(({ label }) => there.has(labelKey(label))).length;
  const most = Math.max(first.length, second.length);
  const agree = labelKey(first[0].label) === labelKey(second[0].label);
  return `${say("compare.common", { n: common, most })} ${say(agree ? "compare.sameFirst" : "compare.otherFirst")}`;
}
