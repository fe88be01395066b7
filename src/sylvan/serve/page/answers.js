// Asks for suggestions whenever the text, the model or a choice changes; answers that are out of date never arrive.

import { Problem } from "./api.js";
import { has } from "./choices.js";
import { byId } from "./dom.js";
import { Latest } from "./latest.js";
import { labelKey, rank } from "./rank.js";
import { clearFailure, fail } from "./status.js";

/** Milliseconds after the last key before the service is asked. */
export const PAUSE = 150;

export function startAnswers(store) {
  const latest = new Latest((busy) => {
    byId("progress").classList.toggle("is-busy", busy); // the style sheet shows it after 300 ms
    byId("labels").setAttribute("aria-busy", String(busy));
  });

  let asked = null; // the choices that the answers are for

  function ask(delay) {
    const { card, text, choices, wanted } = store.fields();
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
        asked = choices;
        store.set({ answers, problem: null });
      },
      (problem) => {
        store.set({ answers: null, problem: problem.message });
        fail(problem, () => ask(0));
      },
    );
  }

  store.on(["text"], () => ask(PAUSE));
  store.on(["card", "wanted"], () => ask(0));
  store.on(["choices"], () => {
    const { answers, choices } = store.fields();
    const known = (label) => has(answers.labels, label) || has(answers.accepted, label);
    const same = answers && asked.denied === choices.denied && asked.branch === choices.branch;
    if (!same || !choices.accepted.every(known)) ask(0); // ticks change nothing of what is suggested
  });
}

async function labels(card, text, choices, wanted, signal) {
  const options = { k: Math.min(wanted, card.labels) };
  if (choices.denied.length) options.denied = choices.denied.map(({ label }) => label);
  if (choices.branch) options.branch = choices.branch.id;
  const best = await rank(card, text, options, signal);
  const { unknown } = best;
  return { labels: best, unknown, accepted: await accepted(card, text, choices.accepted, best, signal), calibrated: card.calibrated };
}

/** The accepted subjects as the model sees them; those beyond the best have to be asked for by name. */
async function accepted(card, text, chosen, best, signal) {
  const known = new Map(best.map((answer) => [labelKey(answer.label), answer]));
  const missing = chosen.filter(({ label }) => !known.has(labelKey(label))).map(({ label }) => label);
  const ask = (allowed) => rank(card, text, { k: Math.min(allowed.length, card.labels), allowed }, signal);
  if (missing.length) {
    // One that the model doesn't know spoils the question for all of them.
    const more = await ask(missing).catch(async (problem) => {
      const each = missing.length > 1 ? await Promise.all(missing.map((label) => ask([label]).catch(none))) : [none(problem)];
      return each.flat();
    });
    for (const answer of more) known.set(labelKey(answer.label), answer);
  }
  return chosen.map((label) => ({ value: null, code: null, ...label, ...known.get(labelKey(label.label)) }));
}

/** A label that the model doesn't know, or can't rank alone, stays without a value. */
function none(problem) {
  if (problem instanceof Problem) return [];
  throw problem;
}
