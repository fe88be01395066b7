// Which models there are, which one answers, and what its card says.

import { events, get, route } from "./api.js";
import { byId, el } from "./dom.js";
import { count } from "./format.js";
import { NO_CHOICES } from "./store.js";
import { fail } from "./status.js";

export function startModels(store) {
  const pick = byId("model");
  let loading = new AbortController();

  async function choose(model) {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    if (store.get("model")) store.get("decided").set(store.get("model"), store.get("choices"));
    const choices = store.get("decided").get(model) ?? NO_CHOICES;
    store.set({ model, card: null, answers: null, explained: null, spans: [], choices, removed: null, wanted: 10 });
    try {
      store.set({ card: await get(route(model), signal) });
    } catch (problem) {
      if (!signal.aborted) fail(problem, () => choose(model));
    }
  }

  async function load() {
    try {
      const { models } = await get("v1/models");
      store.set({ models });
      pick.replaceChildren(...models.map(({ name, title }) => el("option", { value: name }, title || name)));
      if (!models.length) {
        fail(new Error("The service has no model."), load);
        return;
      }
      const first = models.find(({ takes }) => takes === "texts") ?? models[0];
      pick.value = first.name;
      await choose(first.name);
    } catch (problem) {
      fail(problem, load);
    }
  }

  async function refresh({ detail: { model } }) {
    if (model !== store.get("model")) return;
    try {
      store.set({ card: await get(route(model)) });
    } catch {
      // The note says that there is another version; its answers are there all the same.
    }
  }

  pick.addEventListener("change", () => choose(pick.value));
  events.addEventListener("version", refresh);
  store.on(["card"], () => {
    const card = store.get("card");
    // The page is in English; the texts and labels may not be.
    for (const id of ["text", "compare-text", "mirror", "labels", "added", "search-list", "tree-list"]) {
      if (card?.language) byId(id).lang = card.language;
      else byId(id).removeAttribute("lang");
    }
    byId("about").textContent = card ? about(card) : "";
    if (card && card.takes !== "texts") showOther(card);
  });
  load();
}

/** One line about the model. */
function about(card) {
  const parts = [card.title || card.name, card.class, count(card.labels, "label")];
  const [measure, places] = Object.entries(card.measured?.measures ?? {})[0] ?? [];
  if (measure) {
    const [place, value] = Object.entries(places)[0];
    parts.push(`${measure}@${place} ${Number(value).toFixed(3)} on ${card.measured.on}`);
  }
  parts.push(`version ${card.version}`);
  if (card.message) parts.push(card.message);
  return parts.filter(Boolean).join(" · ");
}

/** What stands in place of the text box where a model takes no texts. */
function showOther(card) {
  const vectors = card.takes === "vectors";
  const body = vectors
    ? '{"vectors": [[0.1, 0.2, …]], "k": 10}'
    : '{"features": [{"indices": [3, 17], "values": [0.8, 0.6]}], "k": 10}';
  const address = new URL(route(card.name, vectors ? "/search" : "/rank"), document.baseURI);
  byId("not-texts").replaceChildren(
    el("h1", { id: "not-texts-title" }, `${card.title || card.name} takes ${vectors ? "vectors" : "features"}, not texts`),
    el(
      "p",
      {},
      vectors
        ? "It finds the nearest of its vectors, so there is nothing to type here. Programs ask it like this:"
        : "It ranks labels for rows of numbers, so there is nothing to type here. Programs ask it like this:",
    ),
    el("pre", { tabindex: "0" }, `POST ${address}\nContent-Type: application/json\n\n${body}`),
  );
}
