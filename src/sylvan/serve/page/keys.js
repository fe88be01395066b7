// Keys in the lists of labels. Each of them only saves steps: whatever it does has a button too.

import { byId } from "./dom.js";

export function startKeys() {
  for (const list of [byId("added"), byId("labels")]) {
    list.addEventListener("keydown", (event) => {
      const row = event.target.closest("li");
      if (!row || event.ctrlKey || event.altKey || event.metaKey) return;
      const other = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
      if (other) other.querySelector("button").focus();
      else if (event.key === "Delete") row.querySelector("button.remove").click();
      else return;
      event.preventDefault();
    });
  }
}
