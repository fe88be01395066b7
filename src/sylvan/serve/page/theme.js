// Light or dark: as the system says until a person says otherwise.

import { byId } from "./dom.js";
import { keep, kept } from "./storage.js";

export function startTheme() {
  const toggle = byId("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = ["dark", "light"].find((theme) => theme === kept("theme"));

  const show = () => {
    const dark = chosen ? chosen === "dark" : system.matches;
    if (chosen) document.documentElement.dataset.theme = chosen;
    toggle.setAttribute("aria-pressed", String(dark));
  };
  toggle.addEventListener("click", () => {
    chosen = toggle.getAttribute("aria-pressed") === "true" ? "light" : "dark";
    keep("theme", chosen);
    show();
  });
  system.addEventListener("change", show);
  show();
}
