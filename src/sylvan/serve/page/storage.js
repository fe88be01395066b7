// What the browser keeps of the page between two visits; where it forbids that, things last as long as the page.

const PREFIX = `sylvan${new URL(".", document.baseURI).pathname}`; // several services may stand below one address
const RECORD = `${PREFIX}record.`;

/** What was kept under a name; null where there is nothing, or no sense in it. */
export function kept(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name));
  } catch {
    return null;
  }
}

/** Keeps a value under a name; whether the browser could. */
export function keep(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** The queue that was kept, {queueName, place, records}; null where there is none, or not all of it. */
export function keptQueue() {
  const queue = kept("queue");
  if (!Number.isInteger(queue?.length) || queue.length < 1) return null;
  const records = Array.from({ length: queue.length }, (_, i) => kept(`record.${i}`));
  const place = Math.min(Math.max(Number(queue.place) || 0, 0), queue.length - 1);
  return records.every(isRecord) ? { queueName: String(queue.name ?? ""), place, records } : null;
}

/** Keeps a queue in place of the one before; whether all of it fits. */
export function keepQueue(name, place, records) {
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(RECORD)) localStorage.removeItem(key);
  } catch {
    return false;
  }
  return records.every((record, i) => keepRecord(i, record)) && keepPlace(name, place, records.length);
}

/** Whether a change under a key of the browser's, which another window made, is of the queue. */
export function isOfQueue(key) {
  return key === null || key === `${PREFIX}queue` || key.startsWith(RECORD);
}

export function keepRecord(place, record) {
  return keep(`record.${place}`, record);
}

export function keepPlace(name, place, length) {
  return keep("queue", { name, place, length });
}

function isRecord(record) {
  const { source, text, choices } = record ?? {};
  const isObject = (value) => typeof value === "object" && value !== null;
  const areChoices = ({ accepted, denied }) => Array.isArray(accepted) && Array.isArray(denied);
  return isObject(source) && (text === null || typeof text === "string") && isObject(choices) && Object.values(choices).every(areChoices);
}
