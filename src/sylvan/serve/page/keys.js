// Keys. Each of them only saves steps: whatever it does has a button too. The table is what the page says of them; keys
// that have names of their own in each language are there by their sentences.

import { byId, el } from "./dom.js";
import { say } from "./sentences.js";
import { keep, kept } from "./storage.js";

const TABLE = [
  [["1", "…", "9", "0"], "keys.tick"],
  [["N"], "keys.save"],
  [["key.control", "key.enter"], "keys.saveAnywhere"],
  [["S"], "keys.skip"],
  [["P"], "keys.previous"],
  [["/"], "keys.search"],
  [["↓", "↑"], "keys.move"],
  [["→", "←"], "keys.row"],
  [["key.space"], "keys.space"],
  [["key.enter"], "keys.explain"],
  [["key.delete"], "keys.remove"],
  [["C"], "keys.copy"],
  [["key.escape"], "keys.close"],
  [["↓", "↑", "→", "←"], "keys.tree"],
  [["+", "−", "0"], "keys.drawing"],
];
const BUTTONS = { n: "save", s: "skip-record", p: "previous" };
const TYPED = "textarea, select, input:not([type=checkbox], [type=range])";

export function startKeys(store) {
  const on = byId("keys-on");
  on.checked = kept("keys") !== false;
  on.addEventListener("change", () => keep("keys", on.checked));
  byId("keys").replaceChildren(
    ...TABLE.map(([keys, words]) => el("li", {}, keys.flatMap((key) => [el("kbd", {}, key.startsWith("key.") ? say(key) : key), " "]), say(words))),
  );

  document.addEventListener("keydown", (event) => {
    if (store.get("view") !== "record" || document.querySelector("dialog[open]")) return;
    const modified = event.altKey || event.metaKey || event.ctrlKey;
    if (event.key === "Enter" && event.ctrlKey) byId("save").click();
    else if (modified || !on.checked || event.target.matches(TYPED)) return;
    else if (/^[0-9]$/.test(event.key)) tick((Number(event.key) + 9) % 10);
    else if (BUTTONS[event.key.toLowerCase()]) byId(BUTTONS[event.key.toLowerCase()]).click();
    else if (event.key === "/") byId("search").focus();
    else return;
    event.preventDefault();
  });
  for (const list of [byId("added"), byId("labels")]) list.addEventListener("keydown", inRow);
}

function tick(place) {
  byId("labels").children[place]?.querySelector("input.tick").click();
}

/** Up and down go to other rows, right and left along the row; the others act on the row. */
function inRow(event) {
  const row = event.target.closest("li");
  if (!row || event.ctrlKey || event.altKey || event.metaKey) return;
  const rows = [...document.querySelectorAll("#added > li, #labels > li")];
  const parts = [...row.querySelectorAll("input, button, a")].filter((part) => part.checkVisibility());
  const along = (step) => parts[parts.indexOf(event.target) + step]?.focus();
  const press = (selector) => row.querySelector(selector)?.click();
  const onTick = event.target.matches("input");
  const actions = {
    ArrowDown: () => rows[rows.indexOf(row) + 1]?.querySelector("input").focus(),
    ArrowUp: () => rows[rows.indexOf(row) - 1]?.querySelector("input").focus(),
    ArrowRight: () => along(1),
    ArrowLeft: () => along(-1),
    Delete: () => press("button.remove"),
    ...(onTick ? { Enter: () => press("button.label") } : {}),
    ...(byId("keys-on").checked ? { c: () => press("button.copy") } : {}),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}
