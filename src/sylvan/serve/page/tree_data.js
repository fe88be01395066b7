// The nodes of one tree of labels, fetched when they are first needed.

import { get, route } from "./api.js";
import { branchTitle } from "./format.js";
import { say } from "./sentences.js";

export class TreeData {
  #model;
  #nodes = new Map();
  #opening = new Map(); // a node's id -> the promise of its children, so that none is asked for twice

  constructor(model, number) {
    this.#model = model;
    this.rootId = `${number}/root`;
  }

  /** The node, if it was fetched already: {id, title, labels, leaf, label, parent, children, more}. */
  node(id) {
    return this.#nodes.get(id);
  }

  /** The node with its children. */
  async open(id) {
    const node = this.#nodes.get(id);
    if (node?.leaf || node?.children) return node;
    if (!this.#opening.has(id)) {
      const query = new URLSearchParams({ node: id, depth: 1 });
      const asked = get(route(this.#model, `/tree?${query}`)).then((answer) => this.#add(answer.node, node?.parent ?? null));
      this.#opening.set(id, asked);
      asked.catch(() => this.#opening.delete(id));
    }
    return this.#opening.get(id);
  }

  /** Opens each node of a path from the root down. */
  async openPath(ids) {
    await Promise.all([this.rootId, ...ids.slice(0, -1)].map((id) => this.open(id)));
    // They may have arrived in any order: only now does each know its parent.
    [this.rootId, ...ids].forEach((id, i, path) => {
      if (i > 0 && this.#nodes.has(id)) this.#nodes.get(id).parent = path[i - 1];
    });
  }

  #add(found, parent) {
    const known = this.#nodes.get(found.id);
    const node = known ?? {
      id: found.id,
      title: found.id === this.rootId ? say("tree.all") : found.leaf ? found.title : branchTitle(found.title),
      labels: found.labels,
      leaf: found.leaf,
      label: found.label,
      parent,
    };
    this.#nodes.set(found.id, node);
    if (found.children?.length) {
      node.children = found.children.map((child) => this.#add(child, found.id));
      node.more = found.more ?? 0;
      for (const child of node.children) child.parent = found.id;
    }
    return node;
  }
}
