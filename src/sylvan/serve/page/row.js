// One suggestion or subject: a tick, its name, its code, how sure the model is. The tick is its only Tab stop; arrow keys
// reach the rest of the row.

import { copied } from "./copy.js";
import { breakable, button, el, setShare, svg } from "./dom.js";
import { isAddress, sureness } from "./format.js";
import { BY } from "./records.js";
import { say } from "./sentences.js";

const TWO_SHEETS = "M5 5h9v9H5z M11 5V2H2v9h3"; // as a path in a box of 16 units
const BESIDE = { tabindex: "-1" }; // reached by arrow keys, and by a pointer

export class Row {
  element;
  #tick;
  #digit = el("kbd", { class: "digit", "aria-hidden": "true" });
  #name;
  #badge = el("span", { class: "badge", hidden: true });
  #code = el("span", { class: "code-line", hidden: true });
  #value = el("span", { class: "value" });
  #bar = el("span", { class: "bar", "aria-hidden": "true" });

  /** `actions` has what is done with it: tick(on), remove() and explain(). */
  constructor(store, { name }, actions) {
    const explains = store.get("card")?.explains;
    this.#tick = el("input", { type: "checkbox", class: "tick", on: { change: () => actions.tick(this.#tick.checked) } });
    this.#name = explains
      ? button(name, actions.explain, { class: "label", dir: "auto", "aria-expanded": "false", "aria-controls": "explain", ...BESIDE })
      : el("span", { class: "label", dir: "auto" }, name);
    const words = say("row.remove", { name });
    this.element = el(
      "li",
      { class: "row" },
      this.#tick,
      this.#digit,
      el("span", { class: "label-cell" }, this.#name, this.#badge, this.#code),
      this.#value,
      button("×", actions.remove, { class: "icon remove", "aria-label": words, title: words, ...BESIDE }),
      this.#bar,
    );
  }

  /** What is known of it now; `digit` is the key that ticks it. */
  show({ name, value, code, share, by }, { accepted, calibrated, digit }) {
    const sure = value === null ? "" : sureness(value, calibrated);
    this.#tick.checked = accepted;
    this.#tick.setAttribute("aria-label", sure ? `${name}, ${sure}` : name);
    if (digit === null) this.#tick.removeAttribute("aria-keyshortcuts");
    else this.#tick.setAttribute("aria-keyshortcuts", String(digit));
    this.#digit.textContent = digit === null ? "" : String(digit);
    if (this.#name.textContent !== name) this.#name.textContent = name;
    this.element.classList.toggle("is-accepted", accepted);
    this.#badge.hidden = by !== BY.person && by !== BY.file;
    this.#badge.textContent = by === BY.file ? say("row.fromFile") : say("row.added");
    this.#showCode(name, code);
    this.#value.textContent = sure;
    this.#bar.hidden = value === null;
    setShare(this.#bar, share);
  }

  /** Whether the explanation is of this one. */
  mark(explained) {
    this.element.classList.toggle("is-explained", explained);
    if (this.#name.hasAttribute("aria-expanded")) this.#name.setAttribute("aria-expanded", String(explained));
  }

  #showCode(name, code) {
    this.#code.hidden = code === null;
    if (code === null || this.#code.dataset.code === code) return;
    this.#code.dataset.code = code;
    const words = say("row.copy", { name });
    const icon = svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: TWO_SHEETS }));
    const copy = button(icon, () => copied(code, copy, say("copy.code", { code })), { class: "icon copy", "aria-label": words, title: words, ...BESIDE });
    this.#code.replaceChildren(address({ label: code, name }, BESIDE) ?? el("span", { class: "code" }, breakable(code)), copy);
  }
}

/** Where the label's own address leads, if it is one. */
export function address({ label, name }, attributes = {}) {
  if (!isAddress(label)) return null;
  const words = say("address.of", { name });
  const named = name === String(label); // then the address stands there already
  const link = { class: "code", href: label, target: "_blank", rel: "noopener noreferrer", title: words, "aria-label": named ? words : null };
  return el("a", { ...link, ...attributes }, named ? say("address.open") : breakable(String(label)));
}
