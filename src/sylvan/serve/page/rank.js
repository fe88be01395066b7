// One text ranked by one model, as the views need it.

import { post, route } from "./api.js";

/** What an explanation and a removal name a label by. */
export function labelKey(label) {
  return String(label);
}

/**
 * The best labels of a text: [{label, name, code, value}], where value is the probability, or the score without one, and
 * code what a catalogue calls it, where that isn't its name; with `unknown` where the model knows no word of the text.
 */
export async function rank(card, text, options, signal) {
  const body = { text, ...options };
  if (card.calibrated) body.probabilities = true;
  const { results } = await post(route(card.name, "/rank"), body, signal);
  const result = results[0];
  const values = result.probabilities ?? result.scores;
  const found = result.labels.map((label, i) => {
    const name = String(result.names?.[i] ?? label);
    return { label, name, code: result.uris?.[i] ?? (name === String(label) ? null : String(label)), value: values[i] };
  });
  return Object.assign(found, { unknown: result.unknown ?? false });
}

/** Whether the values are in [0, 1], as probabilities are and most models' scores. */
export function bounded(answers) {
  return answers.every(({ value }) => value >= 0 && value <= 1);
}

/** How far the bar of each answer reaches; other scores count by the largest of them. */
export function shares(answers) {
  const whole = bounded(answers) ? 1 : Math.max(...answers.map(({ value }) => value)) || 1;
  return answers.map(({ value }) => Math.max(value, 0) / whole);
}
