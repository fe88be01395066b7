// The labels that are shown, for a spreadsheet or a program, on the clipboard.

import { byId } from "./dom.js";
import { count } from "./format.js";

export function startCopy(store) {
  const buttons = { "copy-csv": csv, "copy-json": json };
  for (const [id, write] of Object.entries(buttons)) {
    const button = byId(id);
    const words = button.textContent;
    button.addEventListener("click", async () => {
      const shown = store.get("shown");
      const done = await copy(write(shown, store.get("card")), button);
      if (!done) return;
      button.textContent = "Copied";
      byId("summary").textContent = `Copied ${count(shown.length, "label")}.`;
      setTimeout(() => {
        button.textContent = words;
      }, 1500);
    });
  }
  store.on(["shown"], () => {
    for (const id of Object.keys(buttons)) byId(id).disabled = !store.get("shown").length;
  });
  for (const id of Object.keys(buttons)) byId(id).disabled = true;
  byId("copy-close").addEventListener("click", () => byId("copy-dialog").close());
}

/** RFC 4180: a header, lines that end in CR LF, quotes where a field needs them. */
function csv(shown, card) {
  const value = card.calibrated ? "probability" : "score";
  const named = shown.some(({ label, name }) => String(label) !== name);
  const rows = shown.map((answer) => [
    String(answer.label),
    ...(named ? [answer.name] : []),
    answer.value === null ? "" : rounded(answer.value),
    answer.added ? "person" : "model",
  ]);
  const head = ["label", ...(named ? ["name"] : []), value, "chosen_by"];
  return [head, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

function json(shown, card) {
  const value = card.calibrated ? "probability" : "score";
  const labels = shown.map((answer) => ({
    label: answer.label,
    ...(String(answer.label) === answer.name ? {} : { name: answer.name }),
    [value]: answer.value === null ? null : rounded(answer.value),
    chosen_by: answer.added ? "person" : "model",
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
