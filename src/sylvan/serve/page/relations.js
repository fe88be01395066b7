// What is broader and narrower than a subject, as the vocabulary has it; each can be looked at, or added.

import { get, route } from "./api.js";
import { accept, has } from "./choices.js";
import { button, el } from "./dom.js";
import { BY } from "./records.js";
import { number, say } from "./sentences.js";

/** The broader and narrower subjects of a label; null where the vocabulary has no such relations. */
export async function relationsOf(card, label, signal) {
  if (!card.relations) return null;
  return get(route(card.name, `/relations?${new URLSearchParams({ label: String(label) })}`), signal);
}

/** A heading and a list for each relation that there is. */
export function relationLists(store, relations) {
  if (!relations) return [];
  const { broader, narrower, more } = relations;
  const lists = [...list(store, say("relations.broader"), broader, 0), ...list(store, say("relations.narrower"), narrower, more)];
  return lists.length ? lists : [el("p", { class: "soft" }, say("relations.none"))];
}

function list(store, title, subjects, more) {
  if (!subjects.length) return [];
  return [
    el("h3", {}, title),
    el(
      "ul",
      { class: "relations", "aria-label": title },
      subjects.map((subject) => item(store, subject)),
      more ? el("li", { class: "soft" }, say("relations.more", { n: number(more) })) : null,
    ),
  ];
}

function item(store, { label, name, known }) {
  const add = (event) => {
    accept(store, { label, name }, BY.person);
    event.target.disabled = true;
  };
  const isAccepted = has(store.get("choices").accepted, { label });
  const words = say("relations.add", { name });
  return el(
    "li",
    {},
    known && store.get("card").explains
      ? button(name, () => store.set({ explained: { label, name } }), { class: "label", dir: "auto" })
      : el("span", { class: "label", dir: "auto" }, name),
    known ? null : el("span", { class: "badge" }, say("relations.unknown")),
    button("+", add, { class: "icon", "aria-label": words, title: words, disabled: isAccepted }),
  );
}
