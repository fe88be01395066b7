// What is open, chosen and lit in the tree, apart from how it is shown.

import { score as scoreWords } from "./format.js";
import { fail } from "./status.js";

const FIRST = 16; // children shown of a node until a person asks for more
const STEP = 40;

/** Which nodes are open, which is chosen, which are lit. */
export class Tree {
  data = null;
  number = 0;
  chosen = null; // an id
  beam = null; // the service's answer
  path = null; // the label whose path is lit
  changed = () => {};
  #opened = new Set();
  #shown = new Map();
  #scores = new Map();

  reset(data, number) {
    Object.assign(this, { data, number, chosen: null, beam: null, path: null });
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

  /** The children that are shown, those that the search went through first, and how many are not. */
  children(node) {
    if (!node.children || !this.isOpen(node)) return { children: [], hidden: 0 };
    const place = (child) => this.#scores.get(child.id)?.place ?? Number.MAX_SAFE_INTEGER;
    const sorted = this.beam ? [...node.children].sort((a, b) => this.#first(b) - this.#first(a) || place(a) - place(b)) : node.children;
    const shown = sorted.slice(0, this.#shown.get(node.id) ?? FIRST);
    return { children: shown, hidden: node.children.length - shown.length, beyond: node.more };
  }

  /** {score, followed, onPath} of a node that the search scored. */
  lit(node) {
    const scored = this.#scores.get(node.id);
    const onPath = this.pathIds().includes(node.id) || (node.id === this.data.rootId && this.beam !== null);
    return scored || onPath ? { score: null, followed: onPath, ...scored, onPath } : null;
  }

  pathIds() {
    return this.beam?.paths[this.path] ?? [];
  }

  async light(beam) {
    this.beam = beam;
    this.#scores.clear();
    for (const layer of beam?.layers ?? []) {
      layer.forEach(({ id, score, followed }, place) => this.#scores.set(id, { score, followed, place }));
    }
    const labels = Object.keys(beam?.paths ?? {});
    if (!labels.length) this.path = null;
    else await this.lightPath(labels.includes(this.path) ? this.path : String(best(beam)[0]?.label ?? labels[0]));
  }

  /** Opens the path of a label among the answers, and closes the one lit before. */
  async lightPath(label) {
    for (const id of this.pathIds()) this.#opened.delete(id);
    this.path = label;
    await this.reveal(this.pathIds());
  }

  async reveal(ids) {
    if (!ids.length) return;
    try {
      await this.data.openPath(ids);
    } catch (problem) {
      fail(problem, () => this.reveal(ids).then(() => this.changed(true)));
      return;
    }
    for (const id of [this.data.rootId, ...ids.slice(0, -1)]) this.#opened.add(id);
    this.chosen = ids[ids.length - 1];
    // A node far down its parent's children is shown all the same.
    ids.forEach((id) => {
      const parent = this.data.node(this.data.node(id)?.parent);
      const { children } = parent ? this.children(parent) : { children: [] };
      if (parent && !children.some((child) => child.id === id)) {
        this.#shown.set(parent.id, parent.children.findIndex((child) => child.id === id) + 1);
      }
    });
  }

  #first(child) {
    return this.pathIds().includes(child.id) ? 1 : 0;
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

/** What the search thought of a node, in words. */
export function litWords({ score, followed, onPath }) {
  const value = score === null || score === undefined ? "" : `, ${scoreWords(score)}`;
  if (onPath) return `on the lit path${value}`;
  return followed ? `followed by the search${value}` : `scored by the search${value}, not followed`;
}
