// What the page knows, in one place; the parts of the page listen to the fields that they show.

/** `fields()` has all of them, to be read; `on(fields, listener)` calls the listener after any of the fields was set to something else. */
export function createStore(fields) {
  const state = { ...fields };
  const listeners = [];
  return {
    get: (field) => state[field],
    fields: () => ({ ...state }),
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
