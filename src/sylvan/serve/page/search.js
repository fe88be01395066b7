// A subject by its name or a synonym: completed while one types, then added or asked why it isn't suggested. The first
// that fits is highlighted, and Enter takes what is highlighted.

import { get, route } from "./api.js";
import { PAUSE } from "./answers.js";
import { accept } from "./choices.js";
import { breakable, byId, el } from "./dom.js";
import { Latest } from "./latest.js";
import { BY } from "./records.js";
import { say } from "./sentences.js";

const LIMIT = 12;

export function startSearch(store) {
  const input = byId("search");
  const list = byId("search-list");
  const latest = new Latest();
  let found = []; // [{label, name, rows, synonym}], for what was typed
  let active = -1; // the one that is highlighted

  const note = (words) => {
    byId("search-note").textContent = words;
  };
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const show = () => {
    list.replaceChildren(...found.map((label, i) => option(label, i, i === active, () => add(label))));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    byId("search-add").disabled = active < 0;
    byId("search-why").disabled = active < 0 || !store.get("card")?.explains;
    if (active < 0) return;
    input.setAttribute("aria-activedescendant", `search-option-${active}`);
    list.children[active].scrollIntoView({ block: "nearest" });
  };
  const empty = () => {
    latest.cancel();
    found = [];
    active = -1;
    show();
    close();
  };
  const add = (label) => {
    if (!label) return;
    accept(store, label, BY.person);
    input.value = "";
    empty();
    note(say("search.added", label));
    input.focus();
  };

  function complete() {
    const prefix = input.value.trim();
    active = -1; // what is listed was found for other words
    byId("search-add").disabled = byId("search-why").disabled = true;
    note("");
    if (!prefix || !store.get("model")) {
      empty();
      return;
    }
    latest.start(
      PAUSE,
      async (signal) => {
        const query = new URLSearchParams({ prefix, limit: LIMIT });
        const { labels } = await get(route(store.get("model"), `/labels?${query}`), signal);
        found = labels.map((label) => ({ ...label, name: String(label.name ?? label.label) }));
        active = found.length ? 0 : -1;
        show();
        if (!found.length) close();
        note(found.length ? "" : say("search.none"));
      },
      (problem) => note(problem.message),
    );
  }

  input.addEventListener("input", complete);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !list.hidden) {
      close();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && active >= 0) {
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (!list.hidden) active = (active + step + found.length) % found.length;
      show();
    } else {
      return;
    }
    event.preventDefault();
  });
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    add(found[active]);
  });
  byId("search-why").addEventListener("click", () => {
    const { label, name } = found[active];
    store.set({ explained: { label, name } });
  });
  store.on(["model", "place"], () => {
    input.value = "";
    note("");
    empty();
  });
}

function option({ label, name, rows, synonym }, i, active, take) {
  const notes = [synonym && say("search.synonym", { synonym }), String(label) !== name && String(label), Number.isInteger(rows) && say("search.rows", { n: rows })];
  return el(
    "li",
    {
      id: `search-option-${i}`,
      role: "option",
      "aria-selected": String(active),
      // Before the box loses the focus, which closes the list.
      on: { mousedown: (event) => event.preventDefault(), click: take },
    },
    el("span", { class: "option-name", dir: "auto" }, name),
    notes.filter(Boolean).map((words) => el("span", { class: "soft" }, breakable(words))),
  );
}
