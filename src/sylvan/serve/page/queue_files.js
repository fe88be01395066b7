// A queue from files: a file of JSON lines, a record a line; or text files, a record each. What isn't understood is refused.

import { labelsOf, newRecord } from "./records.js";
import { say } from "./sentences.js";

const LARGEST = 64 << 20; // bytes of all files: browsers keep less
const JSONL = /\.(jsonl|ndjson)$/i;
const TEXT = /\.txt$/i;

/** The name and the records of files, and how many other files there were. Throws an Error with a sentence. */
export async function queueOf(files, card) {
  const listed = files.filter(({ name }) => !name.startsWith(".")); // a system's own
  const lines = listed.filter(({ name }) => JSONL.test(name));
  const texts = listed.filter(({ name, type }) => TEXT.test(name) || (type.startsWith("text/plain") && !JSONL.test(name)));
  const [first] = listed;
  if (!lines.length && !texts.length) throw new Error(say(first ? "queue.wrongFile" : "queue.noFile", { file: first?.name }));
  if (lines.length > 1 || (lines.length && texts.length)) throw new Error(say("queue.oneFile", { first: lines[0].name, second: (lines[1] ?? texts[0]).name }));
  const size = [...lines, ...texts].reduce((sum, file) => sum + file.size, 0);
  if (size > LARGEST) throw new Error(say("queue.tooLarge", { file: (lines[0] ?? texts[0]).name, most: LARGEST >> 20 }));
  const passed = listed.filter((file) => !lines.includes(file) && !texts.includes(file));
  const records = lines.length ? recordsOf(lines[0].name, await textOfFile(lines[0]), card) : await ofTexts(texts, card);
  const folder = texts[0]?.webkitRelativePath?.split("/")[0];
  return { name: lines[0]?.name ?? (folder || texts[0].name), records, passed };
}

/** UTF-8, or what Windows wrote before it. */
export async function textOfFile(file) {
  const bytes = await file.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

/** Each text is a record in the first field, with the name of its file as id. */
async function ofTexts(files, card) {
  const sorted = [...files].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
  const [first, ...others] = card.fields;
  const empty = Object.fromEntries(others.map((field) => [field, ""]));
  return Promise.all(sorted.map(async (file) => newRecord({ id: file.name, [first]: await textOfFile(file), ...empty })));
}

/** The records of JSON lines; the first line at fault is named. */
export function recordsOf(file, content, card) {
  const records = content.split("\n").flatMap((line, i) => (line.trim() ? [record(line, { file, line: i + 1 }, card)] : []));
  if (!records.length) throw new Error(say("queue.empty", { file }));
  return records;
}

function record(line, where, card) {
  let source;
  try {
    source = JSON.parse(line);
  } catch {
    throw new Error(say("queue.noJson", where));
  }
  if (typeof source !== "object" || source === null || Array.isArray(source)) {
    throw new Error(say("queue.noObject", { ...where, example: `{"${card.fields[0]}": "…"}` }));
  }
  const missing = card.fields.find((field) => source[field] === undefined);
  if (missing !== undefined) {
    const received = Object.keys(source).slice(0, 10).join(", ");
    throw new Error(say("queue.noField", { ...where, field: missing, fields: card.fields.join(", "), received }));
  }
  const wrong = card.fields.find((field) => source[field] !== null && typeof source[field] !== "string");
  if (wrong !== undefined) throw new Error(say("queue.noText", { ...where, field: wrong }));
  if (labelsOf(source.uris ?? source[card.labels_field] ?? []) === null) {
    throw new Error(say("queue.noLabels", { ...where, field: card.labels_field }));
  }
  return newRecord(source);
}
