// Asks for labels whenever the text, the model or a choice changes; answers that are out of date never arrive.

import { Problem } from "./api.js";
import { byId } from "./dom.js";
import { Latest } from "./latest.js";
import { labelKey, rank } from "./rank.js";
import { clearFailure, fail } from "./status.js";

/** Milliseconds after the last key before the service is asked. */
export const PAUSE = 150;

export const NO_ANSWER = "There is no answer for this text.";
export const NO_LABEL = "The model has no label for this text.";

export function startAnswers(store) {
  const latest = new Latest((busy) => {
    byId("progress").classList.toggle("is-busy", busy); // the style sheet shows it after 300 ms
    byId("labels").setAttribute("aria-busy", String(busy));
  });

  function ask(delay) {
    const { card, text, choices, wanted } = read(store);
    if (!card || card.takes !== "texts" || !text.trim()) {
      latest.cancel();
      clearFailure();
      store.set({ answers: null, problem: null });
      return;
    }
    store.set({ problem: null }); // was of the question before
    latest.start(
      delay,
      async (signal) => {
        const answers = await labels(card, text, choices, wanted, signal);
        clearFailure();
        store.set({ answers, problem: null });
      },
      (problem) => {
        store.set({ answers: null, problem: problem.message });
        fail(problem, () => ask(0));
      },
    );
  }

  store.on(["text"], () => ask(PAUSE));
  store.on(["card", "choices", "wanted"], () => ask(0));
}

async function labels(card, text, choices, wanted, signal) {
  const options = { k: Math.min(wanted, card.labels) };
  if (choices.denied.length) options.denied = choices.denied.map(({ label }) => label);
  if (choices.branch) options.branch = choices.branch.id;
  const best = await rank(card, text, options, signal);
  const { unknown } = best;
  return { labels: best, unknown, added: await added(card, text, choices.added, best, signal), calibrated: card.calibrated };
}

/** The values of labels that a person added; those beyond the best have to be asked for by name. */
async function added(card, text, chosen, best, signal) {
  const known = new Map(best.map((answer) => [labelKey(answer.label), answer]));
  const missing = chosen.filter(({ label }) => !known.has(labelKey(label)));
  if (missing.length) {
    const allowed = missing.map(({ label }) => label);
    const more = await rank(card, text, { k: Math.min(allowed.length, card.labels), allowed }, signal).catch(unknown);
    for (const answer of more) known.set(labelKey(answer.label), answer);
  }
  return chosen.map(({ label, name }) => ({ label, name, value: known.get(labelKey(label))?.value ?? null }));
}

/** A model that can't rank a few labels alone leaves those of a person without a value, and its own answers stay. */
function unknown(problem) {
  if (problem instanceof Problem) return [];
  throw problem;
}

function read(store) {
  return Object.fromEntries(["card", "text", "choices", "wanted"].map((field) => [field, store.get(field)]));
}
