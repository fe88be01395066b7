// What the page knows, in one place; the parts of the page listen to the fields that they show.

/** `on(fields, listener)` calls the listener after any of the fields was set to something else. */
export function createStore(fields) {
  const state = { ...fields };
  const listeners = [];
  return {
    get: (field) => state[field],
    set(changes) {
      const changed = Object.keys(changes).filter((field) => state[field] !== changes[field]);
      Object.assign(state, changes);
      for (const { fields, listener } of listeners) {
        if (fields.some((field) => changed.includes(field))) listener();
      }
    },
    on(fields, listener) {
      listeners.push({ fields, listener });
    },
  };
}

/** What a person has decided about one model's labels of one text: removed ones and added ones; and the only branch. */
export const NO_CHOICES = Object.freeze({ denied: [], added: [], branch: null });
