// What a person decides: labels removed and added, and one branch allowed. Each stands as a chip that takes it back.

import { button, byId, el } from "./dom.js";
import { shortened } from "./format.js";
import { labelKey } from "./rank.js";
import { NO_CHOICES } from "./store.js";

export function startChoices(store) {
  const chips = byId("chips");

  store.on(["choices"], () => {
    const { denied, branch } = store.get("choices");
    chips.replaceChildren(
      ...(branch ? [chip("Only below", branch.title, "Allow all branches again", () => allowBranch(store, null))] : []),
      ...denied.map((label) => chip("Removed", label.name, `Take back ${label.name}`, () => takeBack(store, label))),
    );
    chips.hidden = !chips.childElementCount;
  });
  store.on(["removed"], () => {
    const removed = store.get("removed");
    byId("undo").hidden = !removed;
    byId("undo-text").textContent = removed ? `Removed ${shortened(removed.label.name, 60)}.` : "";
  });
  byId("undo-button").addEventListener("click", () => {
    change(store, store.get("removed").before);
    byId("labels").querySelector("button")?.focus(); // this button is gone
  });
}

/** Leaves a label out of the answers; `removed` remembers what to go back to. */
export function deny(store, label) {
  const choices = store.get("choices");
  if (has(choices.denied, label)) return;
  change(store, { denied: [...choices.denied, label], added: without(choices.added, label) }, { label, before: choices });
}

function takeBack(store, label) {
  change(store, { denied: without(store.get("choices").denied, label) });
}

/** Shows and copies a label, however sure the model is of it. */
export function add(store, label) {
  const { added, denied } = store.get("choices");
  if (!has(added, label)) change(store, { added: [...added, label], denied: without(denied, label) });
}

export function dropAdded(store, label) {
  change(store, { added: without(store.get("choices").added, label) });
}

/** Only labels below this node, {id, title}, are answers; null allows all. */
export function allowBranch(store, branch) {
  change(store, { branch });
}

/** Another text: what was removed and added for the one before says nothing of it. Its branch stays. */
export function startAnew(store) {
  const { branch } = store.get("choices");
  store.set({ decided: new Map(), choices: { ...NO_CHOICES, branch }, removed: null });
}

export function has(labels, label) {
  return labels.some((other) => labelKey(other.label) === labelKey(label.label));
}

function change(store, changes, removed = null) {
  store.set({ choices: { ...store.get("choices"), ...changes }, removed });
}

function without(labels, label) {
  return labels.filter((other) => labelKey(other.label) !== labelKey(label.label));
}

function chip(kind, name, words, takeBackThis) {
  return el(
    "li",
    { class: "chip" },
    el("span", { class: "chip-kind" }, kind),
    el("span", { class: "chip-name", dir: "auto", title: name }, shortened(name, 48)),
    button("×", takeBackThis, { class: "icon", "aria-label": words, title: words }),
  );
}
