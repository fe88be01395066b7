// A label's path from the root of the tree to its leaf, as a list of steps with their scores.

import { allowBranch } from "./choices.js";
import { button, el, setShare } from "./dom.js";
import { branchTitle, score } from "./format.js";
import { ordinal, say } from "./sentences.js";

/** A heading and a list for each tree of the model; none where it has no tree. */
export function paths(store, label, explanation) {
  const votes = (explanation.trees ?? []).filter((vote) => vote.paths.length);
  return votes.flatMap((vote) => [
    el("h3", {}, votes.length > 1 ? say("path.ofTree", { number: vote.number + 1 }) : say("path.title")),
    el("p", { class: "soft" }, reach(vote)),
    path(store, label, vote),
  ]);
}

/** Whether the search comes to the label, and what it would take. */
function reach(vote) {
  const copies = vote.paths.length > 1 ? say("path.copies", { places: vote.paths.length }) : "";
  if (vote.paths[0].lost_at === null) return `${say("path.reached")} ${copies}`;
  const enough = vote.enough === null ? "" : say("path.enough", { enough: vote.enough, beam: vote.beam });
  return `${say("path.notReached")} ${enough} ${copies}`;
}

function path(store, label, vote) {
  const { steps } = vote.paths[0];
  const ids = steps.map(({ layer, node }) => `${vote.number}/${layer}.${node}`);
  const show = () => {
    store.set({ treeNode: { tree: vote.number, ids }, view: "tree" });
    window.location.hash = "tree";
  };
  return el(
    "div",
    {},
    el("ol", { class: "path" }, steps.map((step, i) => stepItem(store, step, ids[i], i === steps.length - 1 ? label : null))),
    isDrawn(store) ? el("p", { class: "actions" }, button(say("path.show"), show)) : null,
  );
}

/** Whether the model has this tree itself; those of an ensemble's members have no view. */
function isDrawn(store) {
  return Boolean(store.get("card")?.n_trees);
}

/** One node; `label` is that of the last one, which is its leaf. */
function stepItem(store, step, id, label) {
  const bar = el("span", { class: "bar", "aria-hidden": "true" });
  setShare(bar, step.so_far);
  const title = label ? label.name : branchTitle(step.title);
  const allow = () => allowBranch(store, { id, title });
  return el(
    "li",
    { class: step.followed ? "" : "lost" },
    el(
      "div",
      { class: "step-head" },
      el("span", { class: "step-title", dir: "auto" }, title),
      label || !isDrawn(store) ? null : button(say("branch.only"), allow, { class: "quiet", "aria-label": say("branch.onlyThis", { title }) }),
    ),
    bar,
    el("p", { class: "soft" }, stepWords(step, label ? "path.leaf" : "path.branch")),
  );
}

function stepWords(step, kind) {
  const words = say(kind, { score: score(step.so_far), place: ordinal(step.place), n: step.n_siblings });
  if (step.opened === false) return `${words}; ${say("path.notScored")}`;
  return step.followed ? words : `${words}; ${say("path.left")}`;
}
