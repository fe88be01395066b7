// A label by its name: completed while one types, then added by hand or asked why it isn't among the answers.

import { get, route } from "./api.js";
import { PAUSE } from "./answers.js";
import { add } from "./choices.js";
import { byId, el } from "./dom.js";
import { count } from "./format.js";
import { Latest } from "./latest.js";

const LIMIT = 12;

export function startSearch(store) {
  const input = byId("search");
  const list = byId("search-list");
  const latest = new Latest();
  let found = []; // [{label, name, rows}]
  let active = -1; // the option that the arrow keys are at
  let chosen = null;

  const say = (words) => {
    byId("search-note").textContent = words;
  };
  const choose = (label) => {
    chosen = label;
    if (label) input.value = label.name;
    byId("search-add").disabled = !label;
    byId("search-why").disabled = !label || !store.get("card")?.explains;
  };
  const close = () => {
    active = -1;
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const take = (label) => {
    latest.cancel();
    close();
    choose(label);
    say("");
    input.focus();
  };
  const show = () => {
    list.replaceChildren(...found.map((label, i) => option(label, i, i === active, () => take(label))));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    if (active >= 0) {
      input.setAttribute("aria-activedescendant", `search-option-${active}`);
      list.children[active].scrollIntoView({ block: "nearest" });
    } else {
      input.removeAttribute("aria-activedescendant");
    }
  };

  function complete() {
    choose(null);
    const prefix = input.value.trim();
    if (!prefix || !store.get("model")) {
      latest.cancel();
      found = [];
      close();
      say("");
      return;
    }
    latest.start(
      PAUSE,
      async (signal) => {
        const query = new URLSearchParams({ prefix, limit: LIMIT });
        const { labels } = await get(route(store.get("model"), `/labels?${query}`), signal);
        found = labels.map(({ label, name, rows }) => ({ label, name: String(name ?? label), rows }));
        active = -1;
        show();
        const exact = found.find(({ name }) => name.toLowerCase() === prefix.toLowerCase());
        if (exact && found.length === 1) take(exact);
        say(found.length ? "" : "No label of this model begins like this.");
      },
      (problem) => say(problem.message),
    );
  }

  input.addEventListener("input", complete);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !list.hidden) {
      close();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && found.length) {
      const step = event.key === "ArrowDown" ? 1 : -1;
      // Past either end the focus is in the box again, as in every other box of this kind.
      active = list.hidden ? (step > 0 ? 0 : found.length - 1) : ((active + step + found.length + 2) % (found.length + 1)) - 1;
      show();
    } else if (event.key === "Enter" && active >= 0) {
      take(found[active]);
    } else {
      return;
    }
    event.preventDefault();
  });
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!chosen) return;
    add(store, { label: chosen.label, name: chosen.name });
    say(`Added ${chosen.name}.`);
    input.value = "";
    choose(null);
    input.focus();
  });
  byId("search-why").addEventListener("click", () => {
    if (chosen) store.set({ explained: { label: chosen.label, name: chosen.name } });
  });
  store.on(["model"], () => {
    input.value = "";
    found = [];
    choose(null);
    close();
  });
}

function option({ label, name, rows }, i, active, take) {
  const note = [String(label) === name ? null : String(label), Number.isInteger(rows) ? count(rows, "text") : null];
  return el(
    "li",
    {
      id: `search-option-${i}`,
      role: "option",
      "aria-selected": String(active),
      // Before the box loses the focus, which closes the list.
      on: { mousedown: (event) => event.preventDefault(), click: take },
    },
    el("span", { dir: "auto" }, name),
    el("span", { class: "soft" }, note.filter(Boolean).join(" · ")),
  );
}
