// The tree as a drawing: a box a node, from left to right, that moves and zooms.

import { svg } from "./dom.js";
import { shortened } from "./format.js";
import { PanZoom } from "./pan_zoom.js";
import { number, say } from "./sentences.js";
import { litNote } from "./tree_state.js";

const BOX = { width: 170, height: 38 };
const GAP = { x: 34, y: 6 };
const EDGE = 8; // between text and the edge of its box, and between a title and its note
const LINES = [16, 31]; // where text stands in a box
const MIDDLE = BOX.height / 2 + 4; // where a single line does
const LETTERS = 45; // no line is longer, in any font

export class TreeDrawing {
  #tree;
  #layer = svg("g");
  #view;
  #boxes = [];

  constructor(place, tree) {
    this.#tree = tree;
    // The list beside holds the same for those who can't see or point: the drawing itself is one picture.
    const picture = svg("svg", { "aria-hidden": "true" }, this.#layer);
    place.append(picture);
    this.#view = new PanZoom(place, this.#layer, () => this.#extent());
    this.#layer.addEventListener("click", (event) => {
      const box = event.target.closest("[data-id]");
      if (!box || this.#view.dragged) return;
      if (box.dataset.more) tree.showMore(tree.data.node(box.dataset.id));
      else tree.toggle(tree.data.node(box.dataset.id));
    });
  }

  show(fit) {
    const { root } = this.#tree;
    if (!root) return;
    const parts = { edges: svg("g", { class: "edges" }), lit: svg("g", { class: "edges" }), boxes: svg("g") };
    this.#boxes = [];
    this.#draw(root, 0, 0, [], parts);
    this.#layer.replaceChildren(parts.edges, parts.lit, parts.boxes);
    if (fit) this.#view.fit();
  }

  /**
   * Draws a node and what is open below it, a column a depth: children begin beside their parent, or below what their
   * column holds already, so that a path of first children is a straight line. `free` has each column's next line.
   */
  #draw(node, depth, from, free, parts) {
    const x = depth * (BOX.width + GAP.x);
    const y = take(free, depth, from);
    const lit = this.#tree.lit(node);
    parts.boxes.append(this.#box(node, x, y, lit));
    this.#boxes.push({ x, y, onPath: Boolean(lit?.onPath) });

    const { children, hidden, beyond } = this.#tree.children(node);
    const childX = x + BOX.width + GAP.x;
    const edge = (end) => ({ d: curve(x + BOX.width, y + BOX.height / 2, childX, end + BOX.height / 2) });
    for (const child of children) {
      const end = this.#draw(child, depth + 1, y, free, parts);
      const childLit = this.#tree.lit(child);
      const kind = childLit?.onPath ? "on-path" : childLit?.followed ? "followed" : null;
      (kind ? parts.lit : parts.edges).append(svg("path", { class: kind, ...edge(end) }));
    }
    if (children.length && hidden + (beyond ?? 0) > 0) {
      const end = take(free, depth + 1, y);
      parts.edges.append(svg("path", edge(end)));
      parts.boxes.append(moreBox(node, childX, end, hidden || beyond, hidden > 0));
      this.#boxes.push({ x: childX, y: end, onPath: false });
    }
    if (children.length) free[depth + 1] += 2 * GAP.y; // air between one node's children and the next one's
    return y;
  }

  #box(node, x, y, lit) {
    const classes = ["node", node.leaf && "leaf", this.#tree.isOpen(node) && "open", this.#tree.chosen === node.id && "chosen"];
    if (lit) classes.push(lit.onPath ? "on-path" : lit.followed ? "followed" : "scored");
    const note = lit && litNote(lit) ? litNote(lit) : node.leaf ? "" : number(node.labels);
    const noteWidth = note ? textWidth(note) + EDGE : 0;
    const [first, second] = twoLines(node.title, BOX.width - 2 * EDGE, noteWidth, lit?.onPath);
    return svg(
      "g",
      { class: classes.filter(Boolean).join(" "), transform: `translate(${x} ${y})`, "data-id": node.id },
      svg("title", {}, node.title),
      svg("rect", { width: BOX.width, height: BOX.height, rx: 5 }),
      titleLine(first, second ? LINES[0] : MIDDLE, second ? 0 : noteWidth),
      second ? titleLine(second, LINES[1], noteWidth) : null,
      svg("text", { class: "node-note", x: BOX.width - EDGE, y: second ? LINES[1] : MIDDLE, "text-anchor": "end" }, note),
    );
  }

  /** What should be in sight: all, with the lit path first where not all of it fits. */
  #extent() {
    const onPath = this.#boxes.filter((box) => box.onPath);
    const across = onPath.length > 1 ? onPath : this.#boxes;
    const edge = (boxes, pick, field, size) => pick(...boxes.map((box) => box[field] + size));
    return {
      left: edge(across, Math.min, "x", 0),
      right: edge(across, Math.max, "x", BOX.width),
      top: edge(across, Math.min, "y", 0),
      bottom: edge(this.#boxes, Math.max, "y", BOX.height),
    };
  }
}

/** The next free line of a column, at or below `from`. */
function take(free, column, from) {
  const y = Math.max(free[column] ?? 0, from);
  free[column] = y + BOX.height + GAP.y;
  return y;
}

let pen = null;

function textWidth(text, bold = false) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.textRendering = "geometricPrecision"; // as the style sheet has it
  pen.font = `${bold ? "600 " : ""}12.5px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** A line of a title in a window of its own: whatever the font is like, it never runs into the note beside it. */
function titleLine(words, y, noteWidth) {
  const width = BOX.width - 2 * EDGE - noteWidth;
  return svg("svg", { x: EDGE, y: 0, width, height: BOX.height, overflow: "hidden" }, svg("text", { class: "node-title", y }, words));
}

/** A title on one line beside its note, or on two, the second beside the note; SVG's text breaks no lines of its own. */
function twoLines(title, width, note, bold) {
  const words = title.split(/\s+/u);
  if (words.length === 1 || textWidth(title, bold) <= width - note) return [fitted(title, width - note, bold), ""];
  let taken = 1;
  while (taken < words.length - 1 && textWidth(words.slice(0, taken + 1).join(" "), bold) <= width) taken += 1;
  return [fitted(words.slice(0, taken).join(" "), width, bold), fitted(words.slice(taken).join(" "), width - note, bold)];
}

/** As much of a line as fits. */
function fitted(title, width, bold) {
  for (let letters = LETTERS; letters > 1; letters -= 1) {
    const text = shortened(title, letters);
    if (textWidth(text, bold) <= width) return text;
  }
  return "…";
}

function moreBox(node, x, y, n, shows) {
  return svg(
    "g",
    { class: "node more", transform: `translate(${x} ${y})`, ...(shows ? { "data-id": node.id, "data-more": "1" } : {}) },
    svg("rect", { width: BOX.width, height: BOX.height, rx: 5 }),
    svg("text", { class: "node-note", x: EDGE, y: MIDDLE }, fitted(say(shows ? "tree.moreHere" : "tree.beyond", { n }), BOX.width - 2 * EDGE)),
  );
}

function curve(x1, y1, x2, y2) {
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}
