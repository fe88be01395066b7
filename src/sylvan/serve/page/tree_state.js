// What is open, chosen and lit in the tree, apart from how it is shown.

import { score as scoreWords } from "./format.js";
import { ordinal, say } from "./sentences.js";
import { fail } from "./status.js";

const FIRST = 12; // children shown of a node until a person asks for more
const STEP = 40;

/** Which nodes are open, which is chosen, which are lit. */
export class Tree {
  data = null;
  number = 0;
  chosen = null; // an id
  beam = null; // the service's answer
  path = []; // the ids that are lit
  pathOf = null; // the answer whose path it is
  bounded = true; // whether the search's scores are in [0, 1]
  pinned = false; // whether a person asked for this very path: new answers leave it then
  changed = () => {};
  #opened = new Set();
  #shown = new Map();
  #scores = new Map();

  reset(data, number) {
    Object.assign(this, { data, number, chosen: null, beam: null, path: [], pathOf: null, pinned: false });
    this.#opened.clear();
    this.#shown.clear();
    this.#scores.clear();
  }

  get root() {
    return this.data?.node(this.data.rootId);
  }

  isOpen(node) {
    return this.#opened.has(node.id);
  }

  async open(id) {
    await this.data.open(id);
    this.#opened.add(id);
  }

  async toggle(node) {
    this.chosen = node.id;
    if (node.leaf || this.#opened.has(node.id)) {
      if (node.id !== this.data.rootId) this.#opened.delete(node.id);
    } else {
      try {
        await this.open(node.id);
      } catch (problem) {
        fail(problem, () => this.toggle(node));
      }
    }
    this.changed(false);
  }

  choose(node) {
    this.chosen = node.id;
    this.changed(false);
  }

  showMore(node) {
    this.#shown.set(node.id, (this.#shown.get(node.id) ?? FIRST) + STEP);
    this.changed(false);
  }

  /** The children that are shown, the path and what the search scored first, and how many are not shown. */
  children(node) {
    if (!node.children || !this.isOpen(node)) return { children: [], hidden: 0 };
    const place = (child) => (this.path.includes(child.id) ? -1 : (this.#scores.get(child.id)?.place ?? Infinity));
    // Not their difference, which of two infinities is no number.
    const sorted = [...node.children].sort((a, b) => (place(a) < place(b) ? -1 : Number(place(a) > place(b))));
    const shown = sorted.slice(0, this.#shown.get(node.id) ?? FIRST);
    return { children: shown, hidden: node.children.length - shown.length, beyond: node.more };
  }

  /** {score, place, followed, onPath, bounded} of a node that is on the lit path, or that the search scored. */
  lit(node) {
    const scored = this.#scores.get(node.id);
    const onPath = this.path.includes(node.id) || (node.id === this.data.rootId && this.path.length > 0);
    return scored || onPath ? { score: null, followed: onPath, ...scored, onPath, bounded: this.bounded } : null;
  }

  /** Takes what the search says, and lights the path of the label as before, or of the best one. */
  async light(beam) {
    this.beam = beam;
    this.#scores.clear();
    const layers = beam?.layers ?? [];
    this.bounded = layers.flat().every(({ score }) => score >= 0 && score <= 1);
    for (const layer of layers) {
      layer.forEach(({ id, score, followed }, place) => this.#scores.set(id, { score, followed, place }));
    }
    if (this.pinned) return;
    const labels = beam ? best(beam).map(({ label }) => String(label)) : [];
    const reached = labels.filter((label) => beam.paths[label]);
    await this.lightPath(reached.includes(this.pathOf) ? this.pathOf : (reached[0] ?? null));
  }

  /** Lights the path of a label among the answers; null lights none. */
  lightPath(label) {
    this.pathOf = label;
    return this.reveal(this.beam?.paths[label] ?? []);
  }

  /** Opens a path and lights it, and closes the one lit before. */
  async reveal(ids) {
    this.path.forEach((id) => this.#opened.delete(id));
    this.path = ids;
    if (!ids.length) return;
    try {
      await this.data.openPath(ids);
    } catch (problem) {
      fail(problem, () => this.reveal(ids).then(() => this.changed(true)));
      return;
    }
    for (const id of [this.data.rootId, ...ids.slice(0, -1)]) this.#opened.add(id);
    this.chosen = ids.at(-1);
  }
}

/** The beam's answers as [{label, name, value}]; one result as of a ranking. */
export function best(beam) {
  const { labels } = beam;
  if (!Array.isArray(labels)) {
    const values = labels.probabilities ?? labels.scores;
    return labels.labels.map((label, i) => ({ label, name: String(labels.names?.[i] ?? label), value: values?.[i] }));
  }
  return labels.map((label) => (typeof label === "object" ? label : { label, name: String(label) }));
}

/** A score where it is one in [0, 1]; other rules have scores that say nothing to people, and the place does. */
export function litNote({ score, place, bounded }) {
  if (score === null) return "";
  return bounded ? scoreWords(score) : ordinal(place + 1);
}

/** What the search thought of a node, in words. */
export function litWords(lit) {
  const words = say(lit.onPath ? "tree.onPath" : lit.followed ? "tree.followed" : "tree.scored");
  return [words, litNote(lit)].filter(Boolean).join(", ");
}
