// The text: typed, pasted, or read from a file that is opened or dropped; with the words of an explanation marked.

import { startAnew } from "./choices.js";
import { byId } from "./dom.js";
import { integer } from "./format.js";
import { marked } from "./highlight.js";

const LARGEST = 4 << 20; // bytes of a file: a browser may hang on more; how long a text may be says the service

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
  const file = byId("file");

  const scroll = () => {
    mirror.scrollTop = area.scrollTop;
  };
  const size = () => {
    byId("clear-text").hidden = area.value === "";
    byId("text-count").textContent = area.value ? `${integer(area.value.length)} characters` : "";
  };
  const use = (text) => {
    problem("");
    startAnew(store);
    setText(store, text);
  };
  const problem = (words) => {
    byId("file-problem").textContent = words;
    byId("file-problem").hidden = !words;
  };

  async function read(chosen) {
    if (!chosen) return;
    if (!/\.txt$/i.test(chosen.name) && !chosen.type.startsWith("text/")) {
      problem(`${chosen.name} is not a text file. Save it as .txt first.`);
      return;
    }
    if (chosen.size > LARGEST) {
      problem(`${chosen.name} is too large: a file may have ${LARGEST >> 20} MiB.`);
      return;
    }
    use(decoded(await chosen.arrayBuffer()));
    area.focus();
  }

  area.addEventListener("input", () => {
    problem("");
    setText(store, area.value);
  });
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
    use("");
    area.focus();
  });
  byId("open-file").addEventListener("click", () => file.click());
  file.addEventListener("change", () => {
    read(file.files[0]);
    file.value = ""; // so that the same file can be opened again
  });

  for (const name of ["dragenter", "dragover"]) {
    document.addEventListener(name, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault(); // the browser would leave the page for the file
      editor.classList.add("is-target");
    });
  }
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) editor.classList.remove("is-target");
  });
  document.addEventListener("drop", (event) => {
    editor.classList.remove("is-target");
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    read(event.dataTransfer.files[0]);
  });
  size();
}

/** UTF-8, or what Windows wrote before it. */
function decoded(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}
