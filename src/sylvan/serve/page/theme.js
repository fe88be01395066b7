// Light or dark: as the system says until a person says otherwise.

import { byId } from "./dom.js";

const KEY = "sylvan.theme";

export function startTheme() {
  const toggle = byId("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = stored();

  const show = () => {
    const dark = chosen ? chosen === "dark" : system.matches;
    if (chosen) document.documentElement.dataset.theme = chosen;
    toggle.setAttribute("aria-pressed", String(dark));
  };
  toggle.addEventListener("click", () => {
    chosen = toggle.getAttribute("aria-pressed") === "true" ? "light" : "dark";
    store(chosen);
    show();
  });
  system.addEventListener("change", show);
  show();
}

// A browser may forbid storage; the theme then lasts as long as the page.
function stored() {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "dark" || theme === "light" ? theme : null;
  } catch {
    return null;
  }
}

function store(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // As above.
  }
}
