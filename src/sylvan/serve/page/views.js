// Which view is open: the address after # says it, so that the browser's back button works.

import { byId } from "./dom.js";
import { say } from "./sentences.js";

const TITLES = { record: "view.record", tree: "view.tree", compare: "view.compare" };

export function startViews(store) {
  const links = [...document.querySelectorAll("nav a[data-view]")];

  const open = () => {
    const view = window.location.hash.slice(1) || "record";
    if (!(view in TITLES)) return;
    store.set({ view });
  };
  const show = () => {
    const card = store.get("card");
    const noTree = card !== null && !card.n_trees;
    if (noTree && store.get("view") === "tree") {
      window.location.hash = "record"; // this model has no such view
      return;
    }
    const view = store.get("view");
    const textsOnly = view !== "compare" && takesNoTexts(store) && !(view === "tree" && store.get("card")?.n_trees);
    for (const name of Object.keys(TITLES)) byId(name).hidden = name !== view || textsOnly;
    byId("not-texts").hidden = !textsOnly;
    for (const link of links) {
      link.hidden = noTree && link.dataset.view === "tree";
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    byId("model-pick").hidden = view === "compare" || store.get("models").length < 2; // compare has its own two
    document.title = `${say(TITLES[view])} · Sylvan`;
  };

  store.on(["view", "card", "models"], show);
  window.addEventListener("hashchange", open);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address names the view
    byId("main").focus();
  });
  open();
  show();
}

function takesNoTexts(store) {
  const card = store.get("card");
  return card !== null && card.takes !== "texts";
}
