// What a person decides: suggestions accepted and removed, subjects added, and one branch allowed. What was removed and
// the branch stand as chips that take it back.

import { button, byId, el } from "./dom.js";
import { shortened } from "./format.js";
import { labelKey } from "./rank.js";
import { BY } from "./records.js";
import { say } from "./sentences.js";

export function startChoices(store) {
  const chips = byId("chips");

  store.on(["choices"], () => {
    const { accepted, denied, branch } = store.get("choices");
    chips.replaceChildren(
      ...(branch ? [chip(say("chip.branch"), branch.title, say("branch.all"), () => allowBranch(store, null))] : []),
      ...denied.map((label) => chip(say("chip.removed"), label.name, say("chip.takeBack", label), () => takeBack(store, label))),
    );
    chips.hidden = !chips.childElementCount;
    byId("accepted-count").textContent = say("subjects.accepted", { n: accepted.length });
  });
  store.on(["removed"], () => {
    const removed = store.get("removed");
    byId("undo").hidden = !removed;
    byId("undo-text").textContent = removed ? say("undo.removed", { name: shortened(removed.label.name, 60) }) : "";
  });
  byId("undo-button").addEventListener("click", () => {
    change(store, store.get("removed").before);
    byId("labels").querySelector("input")?.focus(); // this button is gone
  });
}

/** Puts a label among the subjects of the record; `by` says who chose it. */
export function accept(store, { label, name }, by) {
  const { accepted, denied } = store.get("choices");
  if (has(accepted, { label })) return;
  const wasDenied = has(denied, { label }) ? { denied: without(denied, { label }) } : {};
  change(store, { accepted: [...accepted, { label, name, by }], ...wasDenied });
}

/** Takes a label from the subjects of the record: the model may go on suggesting it. */
export function unaccept(store, label) {
  change(store, { accepted: without(store.get("choices").accepted, label) });
}

/** Leaves a label out of the suggestions; `removed` remembers what to go back to. */
export function deny(store, { label, name }) {
  const before = store.get("choices");
  if (has(before.denied, { label })) return;
  const accepted = without(before.accepted, { label });
  change(store, { denied: [...before.denied, { label, name }], accepted }, { label: { label, name }, before });
}

function takeBack(store, label) {
  change(store, { denied: without(store.get("choices").denied, label) });
}

/** Whether a person added this subject: it is no suggestion that could be removed. */
export function isAdded(store, label) {
  return store.get("choices").accepted.some((other) => other.by === BY.person && labelKey(other.label) === labelKey(label.label));
}

/** Only labels below this node, {id, title}, are suggested; null allows all. */
export function allowBranch(store, branch) {
  change(store, { branch });
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
