// The bar above the record: opening a file or a folder, going through the records, and the export of what was decided.

import { byId, el } from "./dom.js";
import { addRecord, counts, go, noteExport, openQueue, saveAndNext, startAnew } from "./queue.js";
import { queueOf, textOfFile } from "./queue_files.js";
import { exported, newRecord } from "./records.js";
import { say } from "./sentences.js";
import { isOfQueue } from "./storage.js";
import { setText } from "./text.js";

const TEXT_LIMIT = 4 << 20; // bytes of a text: a browser may hang on more; how long one may be says the service

export function startQueueView(store) {
  const problem = (words) => {
    byId("file-problem").textContent = words;
    byId("file-problem").hidden = !words;
  };
  const note = (words) => {
    byId("queue-note").textContent = words;
  };

  function show() {
    const { queueName, records, place, text, card, unkept } = store.fields();
    const { saved } = counts(store);
    const record = records[place];
    const id = record.source.id;
    byId("queue-name").textContent = queueName;
    byId("record-title").textContent = records.length > 1 || queueName ? say("queue.place", { n: place + 1, all: records.length }) : say("record.title");
    byId("record-id").textContent = typeof id === "string" || typeof id === "number" ? String(id) : "";
    byId("record-saved").hidden = !record.saved;
    byId("queue-count").textContent = say("queue.saved", { n: saved });
    byId("previous").disabled = place === 0;
    byId("skip-record").disabled = place === records.length - 1;
    byId("save").disabled = !text.trim() || card?.takes !== "texts";
    byId("export").disabled = !saved || !card;
    byId("unkept").hidden = !unkept;
    byId("close-queue").hidden = !queueName && records.length < 2;
  }

  async function open(files) {
    problem("");
    note("");
    const card = store.get("card");
    if (!files.length || card?.takes !== "texts") return;
    try {
      const [only] = files;
      if (files.length === 1 && store.get("queueName") === "" && (/\.txt$/i.test(only.name) || only.type === "text/plain")) {
        if (only.size > TEXT_LIMIT) throw new Error(say("queue.tooLarge", { file: only.name, most: TEXT_LIMIT >> 20 }));
        const text = await textOfFile(only);
        if (store.get("records")[store.get("place")].saved) addRecord(store);
        else startAnew(store);
        setText(store, text);
        byId("text").focus();
        return;
      }
      const { name, records, passed } = await queueOf(files, card);
      if (!mayLose(store)) return;
      if (!openQueue(store, name, records)) throw new Error(say("queue.noRoom", { file: name, n: records.length }));
      note([say("queue.opened", { n: records.length }), passed.length ? say("queue.passed", { n: passed.length, file: passed[0].name }) : ""].join(" "));
      byId("record-title").focus();
    } catch (fault) {
      problem(fault.message);
    }
  }

  function move(place) {
    note("");
    go(store, place);
    byId(store.get("text") ? "record-title" : "text").focus();
  }

  function save() {
    const isThere = saveAndNext(store);
    const left = store.get("records").filter((record) => !record.saved).length;
    note(isThere ? say("queue.left", { n: left }) : say("queue.done"));
    byId(store.get("text") ? "record-title" : "text").focus();
  }

  byId("previous").addEventListener("click", () => move(store.get("place") - 1));
  byId("skip-record").addEventListener("click", () => move(store.get("place") + 1));
  byId("save").addEventListener("click", save);
  byId("export").addEventListener("click", () => {
    const { queueName, records, card } = store.fields();
    download(`${queueName.replace(/\.[^.]*$/, "") || card.name}-subjects.jsonl`, exported(records, card));
    noteExport(store);
    note(say("queue.exported", { n: counts(store).saved }));
  });
  byId("close-queue").addEventListener("click", () => {
    if (!mayLose(store)) return;
    openQueue(store, "", [newRecord()]);
    note("");
    byId("text").focus();
  });
  for (const [id, input] of [["open-file", "file"], ["open-folder", "folder"]]) {
    byId(id).addEventListener("click", () => byId(input).click());
    byId(input).addEventListener("change", async (event) => {
      await open([...event.target.files]);
      event.target.value = ""; // so that the same file can be opened again
    });
  }
  drop(open);
  window.addEventListener("storage", ({ key }) => {
    if (isOfQueue(key)) byId("elsewhere").hidden = false; // each window would undo what the other does
  });
  store.on(["queueName", "records", "place", "text", "card", "unkept"], show);
  store.on(["text"], () => problem(""));
  show();
}

/** Whether a person agrees to what another queue takes the place of. */
function mayLose(store) {
  const { unexported } = counts(store);
  return !unexported || window.confirm(say("queue.lose", { n: unexported }));
}

/** Files that are dropped anywhere on the page. */
function drop(open) {
  const editor = byId("editor");
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
    open([...event.dataTransfer.files]);
  });
}

/** Gives the browser a file to save. */
function download(name, content) {
  const address = URL.createObjectURL(new Blob([content], { type: "application/jsonl" }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // once it has been read
}
