// How sure the model must be of what is shown: at first the threshold of the best F1 that is stored with it.

import { byId } from "./dom.js";
import { percent } from "./format.js";
import { bounded } from "./rank.js";
import { number, say } from "./sentences.js";
import { keep, kept } from "./storage.js";

export function startSlider(store) {
  const sure = byId("sure");

  sure.addEventListener("input", () => {
    store.set({ sure: sure.valueAsNumber / 100 });
    keep(`sure.${store.get("model")}`, store.get("sure"));
  });
  store.on(["card"], () => {
    const card = store.get("card");
    if (!card) return;
    const threshold = card.calibrated ? card.threshold : null;
    const chosen = kept(`sure.${card.name}`);
    store.set({ sure: typeof chosen === "number" && chosen >= 0 && chosen <= 1 ? chosen : (threshold?.f1 ?? 0) });
    byId("sure-note").hidden = !card.calibrated;
    byId("sure-note").textContent = threshold
      ? say("sure.threshold", { threshold: percent(threshold.f1), file: threshold.on, n: threshold.rows })
      : say("sure.none");
  });
  store.on(["sure", "card", "answers"], () => {
    const { sure: floor, card, answers } = store.fields();
    const scores = card?.calibrated === false;
    const words = scores ? number(floor, { minimumFractionDigits: 2 }) : number(floor, { style: "percent" });
    sure.value = String(Math.round(100 * floor));
    sure.setAttribute("aria-valuetext", words);
    byId("sure-value").textContent = words;
    const whole = bounded(answers?.labels ?? []) ? "sure.score" : "sure.part";
    byId("sure-label").textContent = say(scores ? whole : "sure.label");
  });
}
