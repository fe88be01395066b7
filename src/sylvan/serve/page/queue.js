// The queue: records one after the other, of a file or typed; where one is in it, and what the browser keeps of it.

import { choicesOf, isTouched, newRecord, NO_CHOICES, textOf } from "./records.js";
import { keepPlace, keepQueue, keepRecord, keptQueue } from "./storage.js";

/** A queue without a name is of typed records: it grows by one when the last one is saved. */
export function startQueue(store) {
  store.set(keptQueue() ?? { queueName: "", place: 0, records: [newRecord()] });
  const { records, place } = store.fields();
  if (records[place].text !== null) store.set({ text: records[place].text }); // without waiting for the model

  store.on(["card"], () => store.get("card") && show(store));
  store.on(["text"], () => {
    const { records, place, text, card } = store.fields();
    if (text === textOf(records[place], card?.fields ?? [])) return;
    records[place].text = text;
    note(store);
  });
  store.on(["choices"], () => {
    const { records, place, choices, card } = store.fields();
    if (!card || records[place].choices[card.name] === choices) return;
    records[place].choices[card.name] = choices;
    note(store);
  });
}

/** Opens a queue in place of the one before; false where the browser has no room for it, and the old one stays. */
export function openQueue(store, queueName, records) {
  const before = store.fields();
  if (!keepQueue(queueName, 0, records)) {
    keepQueue(before.queueName, before.place, before.records);
    return false;
  }
  store.set({ queueName, records, place: 0 });
  go(store, 0);
  return true;
}

/** Goes to a record. The branch that was allowed stays. */
export function go(store, place) {
  const { queueName, records } = store.fields();
  store.set({ place, removed: null, explained: null, wanted: 10, answers: null });
  keepPlace(queueName, place, records.length);
  show(store);
}

/** A person is done with this record: it is saved, and the next one that isn't is there; false where none is left. */
export function saveAndNext(store) {
  const { queueName, records, place, card } = store.fields();
  records[place].saved = { model: card.name, version: card.version, decided: new Date().toISOString() };
  note(store);
  const left = [...records.keys()].filter((i) => !records[i].saved);
  const next = left.find((i) => i > place) ?? left[0];
  if (next === undefined && queueName !== "") return false;
  if (next === undefined) addRecord(store);
  else go(store, next);
  return true;
}

/** A new record behind the others, to be typed. */
export function addRecord(store) {
  const { records } = store.fields();
  const record = newRecord();
  store.set({ records: [...records, record] });
  keepRecord(records.length, record);
  go(store, records.length);
}

/** Another text: what was decided for the one before says nothing of it. Its branch stays. */
export function startAnew(store) {
  const { records, place, choices } = store.fields();
  Object.assign(records[place], { choices: {}, saved: null, exported: false });
  store.set({ choices: { ...NO_CHOICES, branch: choices.branch }, removed: null });
}

/** How many records are saved; how many were decided on since the last export. */
export function counts(store) {
  const records = store.get("records");
  const saved = records.filter((record) => record.saved).length;
  return { saved, unexported: records.filter((record) => isTouched(record) && !record.exported).length };
}

/** The saved records are in a file now. */
export function noteExport(store) {
  const { records } = store.fields();
  records.forEach((record, i) => {
    if (!record.saved || record.exported) return;
    record.exported = true;
    keepRecord(i, record);
  });
  store.set({ records: [...records] });
}

/** The record at its place, with the choices for the model. */
function show(store) {
  const { records, place, card, choices } = store.fields();
  const fields = card?.fields ?? [];
  store.set({ text: textOf(records[place], fields), choices: choicesOf(records[place], card, choices.branch), spans: [] });
}

/** The record has changed: the browser keeps it, and whoever counts records counts again. */
function note(store) {
  const { queueName, records, place } = store.fields();
  records[place].exported = false;
  const isKept = keepRecord(place, records[place]) && keepPlace(queueName, place, records.length);
  store.set({ records: [...records], unkept: !isKept });
}
