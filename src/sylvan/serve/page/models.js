// Which models there are, which one answers, and what its card says.

import { events, get, route } from "./api.js";
import { byId, el } from "./dom.js";
import { NO_CHOICES } from "./records.js";
import { number, say } from "./sentences.js";
import { keep, kept } from "./storage.js";
import { fail } from "./status.js";

export function startModels(store) {
  const pick = byId("model");
  let loading = new AbortController();

  async function choose(model) {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    store.set({ model, card: null, answers: null, explained: null, spans: [], choices: NO_CHOICES, removed: null, wanted: 10 });
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
        fail(new Error(say("models.none")), load);
        return;
      }
      const before = models.find(({ name }) => name === kept("model"));
      const first = before ?? models.find(({ takes }) => takes === "texts") ?? models[0];
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

  pick.addEventListener("change", () => {
    keep("model", pick.value);
    choose(pick.value);
  });
  events.addEventListener("version", refresh);
  store.on(["card"], () => {
    const card = store.get("card");
    // The page is in a language of its own; the texts and labels may not be.
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
  const parts = [card.title || card.name, card.class, say("about.labels", { n: card.labels })];
  const [measure, places] = Object.entries(card.measured?.measures ?? {})[0] ?? [];
  if (measure) {
    const [place, value] = Object.entries(places)[0];
    parts.push(say("about.measured", { measure: `${measure}@${place}`, value: number(Number(value), { minimumFractionDigits: 3 }), file: card.measured.on }));
  }
  parts.push(say("about.version", { version: card.version }));
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
    el("h1", { id: "not-texts-title" }, say(vectors ? "notTexts.vectors" : "notTexts.features", { model: card.title || card.name })),
    el(
      "p",
      {},
      say(vectors ? "notTexts.vectorsHow" : "notTexts.featuresHow"),
    ),
    el("pre", { tabindex: "0" }, `POST ${address}\nContent-Type: application/json\n\n${body}`),
  );
}
