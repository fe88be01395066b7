// A record: its fields as they came, the text as it was edited, and what a person decided; and its line in the export.
// Nothing here knows of the page, so that it is tested without one.

/** What a person has decided of one model's suggestions for a record, and the only branch that is allowed. */
export const NO_CHOICES = Object.freeze({ accepted: [], denied: [], branch: null });

/** Who put a subject among the accepted: the model suggested it, a person added it, or the file had it. */
export const BY = Object.freeze({ model: "model", person: "person", file: "file" });

const OF_SUGGESTIONS = ["uris", "probabilities", "scores", "weights"]; // fields that speak of the labels in the file

/**
 * `source` has the fields of the file, `text` what was typed (null: as in the file), `choices` those for each model,
 * `saved` when a person was done with it, and by which model (null: not yet).
 */
export function newRecord(source = {}, text = null) {
  return { source, text, choices: {}, saved: null, exported: false };
}

/** The text of a record as the model reads it: its fields, joined as in training. */
export function textOf(record, fields) {
  const joined = record.text ?? fields.map((field) => record.source[field]).filter(Boolean).join(" ");
  return joined.replace(/\r\n?/g, "\n"); // as a text area has it
}

/** The choices of a record for a model; at first those subjects are accepted that the file has. */
export function choicesOf(record, card, branch = null) {
  const listed = record.source.uris ?? record.source[card?.labels_field] ?? [];
  const accepted = labelsOf(listed).map((label) => ({ label, name: String(label), by: BY.file }));
  return record.choices[card?.name] ?? { ...NO_CHOICES, accepted, branch };
}

/**
 * The labels of a record in a file, as `sylvan` reads them: a list of strings, numbers, [label, weight] or {uri, label},
 * or a single one; null where they are none of these.
 */
export function labelsOf(listed) {
  const labels = (Array.isArray(listed) ? listed : [listed]).map((one) => (Array.isArray(one) ? one[0] : (one?.uri ?? one?.label ?? one)));
  return labels.every((label) => typeof label === "string" || Number.isInteger(label)) ? [...new Set(labels)] : null;
}

/** Whether anything was decided of a record. */
export function isTouched(record) {
  return record.saved !== null || Object.values(record.choices).some(({ accepted, denied }) => denied.length || accepted.some(({ by }) => by !== BY.file));
}

/** The saved records as JSON lines that `sylvan update` learns from: their fields, their subjects, and who chose which. */
export function exported(records, card) {
  const lines = records.filter(({ saved }) => saved).map((record) => {
    const { accepted, denied } = choicesOf(record, { ...card, name: record.saved.model });
    const [first, ...others] = card.fields;
    const texts = record.text === null ? {} : { ...Object.fromEntries(others.map((field) => [field, ""])), [first]: record.text };
    const source = Object.fromEntries(Object.entries(record.source).filter(([field]) => !OF_SUGGESTIONS.includes(field)));
    const by = (who) => accepted.filter((label) => label.by === who).map(({ label }) => label);
    return {
      ...source,
      ...texts,
      [card.labels_field]: accepted.map(({ label }) => label),
      accepted: by(BY.model),
      added: by(BY.person),
      removed: denied.map(({ label }) => label),
      ...record.saved,
    };
  });
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}
