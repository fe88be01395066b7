// The subjects of the record, or as long as there are none what is suggested: codes for a catalogue, CSV for a
// spreadsheet, JSON for a program, on the clipboard.

import { has } from "./choices.js";
import { byId } from "./dom.js";
import { labelKey } from "./rank.js";
import { say } from "./sentences.js";

export function startCopy(store) {
  const writers = { "copy-codes": codes, "copy-csv": csv, "copy-json": json };
  for (const [id, write] of Object.entries(writers)) {
    byId(id).addEventListener("click", () => {
      const listed = chosen(store);
      copied(write(listed, store.get("card")), byId(id), say(isOfSubjects(store) ? "copy.doneSubjects" : "copy.doneSuggestions", { n: listed.length }));
    });
  }
  const show = () => {
    const listed = chosen(store);
    byId("copy-what").textContent = say(isOfSubjects(store) ? "copy.whatSubjects" : "copy.whatSuggestions", { n: listed.length });
    for (const id of Object.keys(writers)) byId(id).disabled = !listed.length;
  };
  store.on(["shown", "choices"], show);
  show();
  byId("copy-close").addEventListener("click", () => byId("copy-dialog").close());
}

/** Copies a text and says so; `back` gets the focus where a dialog had to help. */
export async function copied(text, back, words) {
  if (await copy(text, back)) byId("summary").textContent = byId("copy-note").textContent = words;
}

/** The accepted subjects, each with who chose it; without any, all suggestions that are shown. */
function chosen(store) {
  const { shown, choices } = store.fields();
  const accepted = shown.filter((label) => has(choices.accepted, label));
  const by = new Map(choices.accepted.map(({ label, by }) => [labelKey(label), by]));
  return accepted.length ? accepted.map((label) => ({ ...label, by: by.get(labelKey(label.label)) })) : shown.map((label) => ({ ...label, by: null }));
}

function isOfSubjects(store) {
  return store.get("choices").accepted.length > 0;
}

/** One a line: the code, or the name of a label that has none. */
function codes(listed) {
  return listed.map(({ code, name }) => `${code ?? name}\n`).join("");
}

/** RFC 4180: a header, lines that end in CR LF, quotes where a field needs them. */
function csv(listed, card) {
  const coded = listed.some(({ code }) => code !== null);
  const rows = listed.map(({ name, code, value, by }) => [name, ...(coded ? [code ?? ""] : []), value === null ? "" : rounded(value), by ?? ""]);
  const head = ["name", ...(coded ? ["code"] : []), card.calibrated ? "probability" : "score", "chosen_by"];
  return [head, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

function json(listed, card) {
  const kind = card.calibrated ? "probability" : "score";
  const labels = listed.map(({ label, name, code, value, by }) => ({
    label,
    ...(String(label) === name ? {} : { name }),
    ...(code === null || code === String(label) ? {} : { uri: code }),
    [kind]: value === null ? null : rounded(value),
    chosen_by: by,
  }));
  return `${JSON.stringify({ model: card.name, version: card.version, labels }, null, 2)}\n`;
}

function rounded(value) {
  return Number(value.toPrecision(6));
}

function field(value) {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A page that didn't come over HTTPS has no clipboard; it may still copy what is selected, or let a person do so. */
async function copy(text, back) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const dialog = byId("copy-dialog");
    const area = byId("copy-text");
    area.value = text;
    dialog.showModal();
    area.select();
    if (document.execCommand("copy")) {
      dialog.close();
      back.focus();
      return true;
    }
    return false;
  }
}
