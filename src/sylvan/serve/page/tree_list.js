// The tree as a nested list: the whole of it for a keyboard and a screen reader, and an index beside the drawing.

import { el } from "./dom.js";
import { number, say } from "./sentences.js";
import { litNote, litWords } from "./tree_state.js";

export class TreeList {
  #place;
  #tree;
  #at = null; // the id of the item that Tab comes to

  constructor(place, tree) {
    this.#place = place;
    this.#tree = tree;
    place.addEventListener("keydown", (event) => this.#key(event));
    place.addEventListener("click", (event) => {
      const item = event.target.closest("[role=treeitem]");
      if (item) this.#act(item, true);
    });
  }

  show() {
    const { root, chosen } = this.#tree;
    if (!root) return;
    const focused = this.#place.contains(document.activeElement);
    if (chosen && !focused) this.#at = chosen;
    this.#place.replaceChildren(this.#item(root, 1, 1, 1));
    const items = this.#items();
    const at = items.find(({ dataset }) => dataset.id === this.#at) ?? items[0];
    at.tabIndex = 0;
    this.#at = at.dataset.id;
    if (focused) at.focus();
    else if (chosen) this.#scrollTo(at);
  }

  /** The focus goes to the chosen node. */
  focus() {
    this.#focus(this.#items().find(({ dataset }) => dataset.id === this.#tree.chosen));
  }

  #item(node, level, place, size) {
    const tree = this.#tree;
    const open = tree.isOpen(node);
    const lit = tree.lit(node);
    const { children, hidden, beyond } = tree.children(node);
    const all = children.length + (hidden || beyond ? 1 : 0);
    const note = (lit && litNote(lit)) || (node.leaf ? "" : number(node.labels));
    const words = [node.leaf ? null : say("tree.labels", { n: node.labels }), lit ? litWords(lit) : null].filter(Boolean);
    return el(
      "li",
      { role: "none", class: lit ? (lit.onPath ? "on-path" : lit.followed ? "followed" : "scored") : null },
      el(
        "div",
        {
          class: "item",
          role: "treeitem",
          tabindex: "-1",
          "data-id": node.id,
          "aria-level": level,
          "aria-posinset": place,
          "aria-setsize": size,
          "aria-expanded": node.leaf ? null : String(open),
          "aria-selected": String(tree.chosen === node.id),
        },
        el("span", { class: "twist", "aria-hidden": "true" }, node.leaf ? "" : "▸"),
        el("span", { class: "item-title", dir: "auto" }, node.title),
        el("span", { class: "item-note", "aria-hidden": "true" }, note),
        el("span", { class: "unseen" }, words.map((part) => `, ${part}`).join("")),
      ),
      open && children.length
        ? el(
            "ul",
            { role: "group" },
            children.map((child, i) => this.#item(child, level + 1, i + 1, all)),
            hidden ? more(node, level + 1, all, say("tree.more", { n: hidden })) : null,
            !hidden && beyond ? more(null, level + 1, all, say("tree.beyond", { n: beyond })) : null,
          )
        : null,
    );
  }

  #items() {
    return [...this.#place.querySelectorAll("[role=treeitem]")];
  }

  /** Chooses an item, and opens or closes it; the item for more shows more. */
  #act(item, toggle) {
    const { id, moreOf } = item.dataset;
    const tree = this.#tree;
    this.#at = id;
    this.#focus(item);
    if (moreOf) {
      const node = tree.data.node(moreOf);
      this.#at = tree.children(node).children.at(-1).id;
      tree.showMore(node);
    } else if (id && toggle) {
      tree.toggle(tree.data.node(id));
    } else if (id) {
      tree.choose(tree.data.node(id));
    }
  }

  #key(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.ctrlKey || event.altKey || event.metaKey) return;
    const items = this.#items();
    const i = items.indexOf(item);
    const open = item.getAttribute("aria-expanded");
    const parent = item.closest("[role=group]")?.parentElement.querySelector(":scope > [role=treeitem]");
    const moves = {
      ArrowDown: () => this.#focus(items[i + 1]),
      ArrowUp: () => this.#focus(items[i - 1]),
      Home: () => this.#focus(items[0]),
      End: () => this.#focus(items.at(-1)),
      ArrowRight: () => (open === "false" ? this.#act(item, true) : open === "true" && this.#focus(items[i + 1])),
      ArrowLeft: () => (open === "true" && parent ? this.#act(item, true) : this.#focus(parent)),
      Enter: () => this.#act(item, false),
      " ": () => this.#act(item, false),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }

  #focus(item) {
    if (!item) return;
    for (const other of this.#items()) other.tabIndex = -1;
    item.tabIndex = 0;
    item.focus();
    this.#at = item.dataset.id;
  }

  /** Within the list only: the page itself must not jump while someone types. */
  #scrollTo(item) {
    const row = item.getBoundingClientRect();
    const box = this.#place.getBoundingClientRect();
    if (row.top < box.top || row.bottom > box.bottom) {
      this.#place.scrollTop += row.top - box.top - box.height / 3;
    }
  }
}

/** The last item of a long group: it shows more, or says that there are more. */
function more(node, level, size, words) {
  return el(
    "li",
    { role: "none", class: "more-item" },
    el(
      "div",
      {
        class: "item",
        role: "treeitem",
        tabindex: "-1",
        "data-id": `more-${node?.id ?? level}`,
        "data-more-of": node?.id,
        "aria-level": level,
        "aria-posinset": size,
        "aria-setsize": size,
        "aria-selected": "false",
      },
      el("span", { class: "twist", "aria-hidden": "true" }, "…"),
      el("span", { class: "item-title" }, words),
    ),
  );
}
