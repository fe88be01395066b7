// The words that speak for a label and against it, as marks in a text and as lists.

import { el } from "./dom.js";

/** The text as nodes, with a mark at each span; spans count code points, as the service does. */
export function marked(text, spans) {
  const pieces = inUnits(text, spans);
  const strongest = pieces.reduce((most, { weight }) => Math.max(most, Math.abs(weight)), 0);
  const nodes = [];
  let at = 0;
  for (const { start, end, weight } of pieces) {
    if (start > at) nodes.push(document.createTextNode(text.slice(at, start)));
    const strength = Math.ceil((3 * Math.abs(weight)) / strongest) || 1;
    const side = weight < 0 ? "against" : "for";
    nodes.push(el("mark", { class: `${side} strength-${strength}` }, text.slice(start, end)));
    at = end;
  }
  // A last line that is empty has no height without something in it.
  nodes.push(document.createTextNode(`${text.slice(at)}\n`));
  return nodes;
}

/**
 * Each term once, in lower case: the strongest `most` for the label, and against it. A span holds the weight of its term
 * in the whole text, so that a second one of the same term adds nothing.
 */
export function words(text, spans, most) {
  const units = unitOffsets(text);
  const weights = new Map();
  for (const { start, end, weight } of spans) {
    weights.set(text.slice(units(start), units(end)).toLowerCase().replace(/\s+/gu, " "), weight);
  }
  const sorted = [...weights].map(([word, weight]) => ({ word, weight })).sort((a, b) => b.weight - a.weight);
  return {
    for: sorted.filter(({ weight }) => weight > 0).slice(0, most),
    against: sorted.filter(({ weight }) => weight < 0).slice(-most).reverse(),
  };
}

/** Spans in the units of JavaScript's strings, in order, without overlaps: where two overlap their weights add up. */
function inUnits(text, spans) {
  const units = unitOffsets(text);
  const edges = [...new Set(spans.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const places = new Map(edges.map((edge, i) => [edge, i]));
  const sums = new Map();
  for (const { start, end, weight } of spans) {
    for (let i = places.get(start); edges[i] < end; i += 1) {
      sums.set(i, (sums.get(i) ?? 0) + weight);
    }
  }
  return [...sums]
    .filter(([, weight]) => weight !== 0)
    .sort(([a], [b]) => a - b)
    .map(([i, weight]) => ({ start: units(edges[i]), end: units(edges[i + 1]), weight }));
}

/** From code points to string offsets; the same number where the text has no character beyond the basic plane. */
function unitOffsets(text) {
  if (!/[\u{10000}-\u{10FFFF}]/u.test(text)) return (point) => point;
  const offsets = [];
  let at = 0;
  for (const letter of text) {
    offsets.push(at);
    at += letter.length;
  }
  return (point) => offsets[point] ?? text.length;
}
