// The text of the record: typed, pasted or opened; with the words of an explanation marked.

import { byId } from "./dom.js";
import { marked } from "./highlight.js";
import { startAnew } from "./queue.js";
import { say } from "./sentences.js";

/** The text is another one now, or is edited: then at least half of the one before stays where it was. */
export function setText(store, text) {
  if (isAnother(store.get("text"), text)) startAnew(store);
  store.set({ text, spans: [] }); // marks of another text would stand at the wrong words
}

function isAnother(before, text) {
  if (!before.trim()) return false;
  if (!text.trim()) return true;
  const most = Math.min(before.length, text.length);
  let first = 0;
  while (first < most && before[first] === text[first]) first += 1;
  let last = 0;
  while (last < most - first && before.at(-1 - last) === text.at(-1 - last)) last += 1;
  return 2 * (first + last) < before.length;
}

export function startText(store) {
  const area = byId("text");
  const editor = byId("editor");
  const mirror = byId("mirror");

  const scroll = () => {
    mirror.scrollTop = area.scrollTop;
  };
  const size = () => {
    byId("clear-text").hidden = area.value === "";
    byId("text-count").textContent = area.value ? say("text.size", { n: area.value.length }) : "";
  };

  area.addEventListener("input", () => setText(store, area.value));
  area.addEventListener("scroll", scroll);
  new ResizeObserver(scroll).observe(area);

  store.on(["text"], () => {
    if (area.value !== store.get("text")) area.value = store.get("text");
    // A text area has its own line ends; the spans that come back have to fit what it shows.
    if (area.value !== store.get("text")) store.set({ text: area.value });
    size();
  });
  store.on(["spans"], () => {
    const spans = store.get("spans");
    editor.classList.toggle("is-marked", spans.length > 0);
    mirror.replaceChildren(...(spans.length ? marked(store.get("text"), spans) : []));
    scroll();
  });

  byId("clear-text").addEventListener("click", () => {
    setText(store, "");
    area.focus();
  });
  size();
}
