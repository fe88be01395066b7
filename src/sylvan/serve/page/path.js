// A label's path from the root of the tree to its leaf, as a list of steps with their scores.

import { allowBranch } from "./choices.js";
import { button, el, setShare } from "./dom.js";
import { branchTitle, integer, ordinal, score } from "./format.js";

/** A heading and a list for each tree of the model; none where it has no tree. */
export function paths(store, label, explanation) {
  const votes = (explanation.trees ?? []).filter((vote) => vote.paths.length);
  return votes.flatMap((vote) => [
    el("h3", {}, votes.length > 1 ? `Path in tree ${vote.number + 1}` : "Path in the tree"),
    el("p", { class: "soft" }, reach(vote)),
    path(store, label, vote),
  ]);
}

/** Whether the search comes to the label, and what it would take. */
function reach(vote) {
  const copies = vote.paths.length > 1 ? `, the best of its ${vote.paths.length} places` : "";
  if (vote.paths[0].lost_at === null) return `The search reaches this label${copies}.`;
  const enough = vote.enough === null ? "" : ` A beam of ${integer(vote.enough)} instead of ${integer(vote.beam)} would.`;
  return `The search doesn't reach this label${copies}.${enough}`;
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
    isDrawn(store) ? el("p", { class: "actions" }, button("Show it in the tree", show)) : null,
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
      label || !isDrawn(store) ? null : button("Only this branch", allow, { class: "quiet", "aria-label": `Only this branch: ${title}` }),
    ),
    bar,
    el("p", { class: "soft" }, stepWords(step, label ? "labels" : "branches")),
  );
}

function stepWords(step, kind) {
  const words = `${score(step.so_far)}, ${ordinal(step.place)} of ${integer(step.n_siblings)} ${kind} here`;
  if (step.opened === false) return `${words}; not scored, as the search didn't come this far`;
  return step.followed ? words : `${words}; the search leaves it here`;
}
