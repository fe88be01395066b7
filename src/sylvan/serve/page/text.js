// The text: typed, pasted, or read from a file that is opened or dropped; with the words of an explanation marked.

import { byId } from "./dom.js";
import { integer } from "./format.js";
import { marked } from "./highlight.js";

const LONGEST = 1_000_000; // characters, the service's own limit

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
    store.set({ text, spans: [] }); // marks of another text would stand at the wrong words
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
    if (chosen.size > 4 * LONGEST) {
      problem(`${chosen.name} is too long: a text may have ${integer(LONGEST)} characters.`);
      return;
    }
    const text = decoded(await chosen.arrayBuffer());
    if (text.length > LONGEST) {
      problem(`${chosen.name} has ${integer(text.length)} characters; a text may have ${integer(LONGEST)}.`);
      return;
    }
    problem("");
    use(text);
    area.focus();
  }

  area.addEventListener("input", () => {
    problem("");
    use(area.value);
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
