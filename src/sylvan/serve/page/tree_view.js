// The view of the tree: what is open, chosen and lit in it. The list and the drawing show it, each in its way.

import { post, route } from "./api.js";
import { PAUSE } from "./answers.js";
import { allowBranch } from "./choices.js";
import { button, byId, el } from "./dom.js";
import { shortened } from "./format.js";
import { Latest } from "./latest.js";
import { say } from "./sentences.js";
import { fail } from "./status.js";
import { TreeData } from "./tree_data.js";
import { TreeDrawing } from "./tree_drawing.js";
import { TreeList } from "./tree_list.js";
import { best, litWords, Tree } from "./tree_state.js";

const CHIPS = 5; // labels whose path can be lit

export function startTree(store) {
  const tree = new Tree();
  const list = new TreeList(byId("tree-list"), tree);
  const drawing = new TreeDrawing(byId("drawing"), tree);
  const number = byId("tree-number");
  const latest = new Latest((busy) => byId("tree-progress").classList.toggle("is-busy", busy));

  tree.changed = (fit) => {
    list.show();
    drawing.show(fit);
    chosen(store, tree);
    pathButtons(tree);
  };

  async function restart() {
    const card = store.get("card");
    latest.cancel();
    if (!card?.n_trees) return;
    number.replaceChildren(...Array.from({ length: card.n_trees }, (_, i) => el("option", { value: i }, say("tree.number", { number: i + 1, all: card.n_trees }))));
    byId("tree-pick").hidden = card.n_trees < 2;
    await start(0);
  }

  async function start(which) {
    number.value = String(which);
    tree.reset(new TreeData(store.get("card").name, which), which);
    try {
      await tree.open(tree.data.rootId);
      tree.changed(true);
      search(0);
    } catch (problem) {
      fail(problem, () => start(which));
    }
  }

  /** Lights what the beam search of the text goes through. */
  function search(delay) {
    const [card, text] = [store.get("card"), store.get("text")];
    if (store.get("view") !== "tree" || !tree.data || !card?.n_trees) return;
    if (card.takes !== "texts" || !text.trim()) {
      latest.cancel();
      tree.light(null);
      tree.changed(false);
      return;
    }
    latest.start(
      delay,
      async (signal) => {
        const beam = await post(route(card.name, "/beam"), { text, tree: tree.number }, signal);
        await tree.light(beam);
        if (!signal.aborted) tree.changed(true);
      },
      (problem) => fail(problem, () => search(0)),
    );
  }

  /** Another part of the page asks to see a path. */
  async function reveal() {
    const wanted = store.get("treeNode");
    if (!wanted || store.get("view") !== "tree") return;
    store.set({ treeNode: null });
    if (wanted.tree !== tree.number) await start(wanted.tree);
    tree.pinned = true;
    await tree.reveal(wanted.ids);
    tree.changed(true);
    list.focus();
  }

  let shownCard = null;
  store.on(["card", "view"], async () => {
    const card = store.get("card");
    if (store.get("view") !== "tree" || !card) return;
    if (shownCard !== card) {
      shownCard = card;
      await restart();
    } else {
      search(0);
    }
    await reveal();
  });
  store.on(["text"], () => {
    tree.pinned = false;
    search(PAUSE);
  });
  store.on(["choices", "explained"], () => chosen(store, tree));
  number.addEventListener("change", () => start(Number(number.value)));
}

function pathButtons(tree) {
  const place = byId("tree-paths");
  const answers = tree.beam ? best(tree.beam).filter(({ label }) => tree.beam.paths[label]).slice(0, CHIPS) : [];
  const { activeElement } = document;
  const focused = place.contains(activeElement) ? activeElement.textContent : null;
  place.replaceChildren(
    ...answers.map(({ label, name }) => {
      const light = async () => {
        tree.pinned = false;
        await tree.lightPath(String(label));
        tree.changed(true);
      };
      const pressed = String(String(label) === tree.pathOf && !tree.pinned);
      return button(shortened(name, 28), light, { class: "path-button", "aria-pressed": pressed, title: name });
    }),
  );
  if (focused) [...place.children].find(({ textContent }) => textContent === focused)?.focus();
}

/** What can be done with the chosen node. */
function chosen(store, tree) {
  const place = byId("tree-chosen");
  const node = tree.data?.node(tree.chosen);
  place.hidden = !node || node === tree.root;
  if (place.hidden) return;
  const branch = store.get("choices").branch;
  const lit = tree.lit(node);
  const explain = () => {
    store.set({ view: "record" }); // before the address says so: what is out of sight can't take the focus
    window.location.hash = "record";
    store.set({ explained: { label: node.label, name: node.title } });
  };
  const texts = store.get("card")?.takes === "texts";
  let action = null;
  if (texts && node.leaf && store.get("card").explains) action = button(say("tree.why"), explain);
  if (texts && !node.leaf) {
    action =
      branch?.id === node.id
        ? button(say("branch.all"), () => allowBranch(store, null))
        : button(say("branch.allow"), () => allowBranch(store, { id: node.id, title: node.title }));
  }
  const words = [node.leaf ? say("tree.leaf") : say("tree.labels", { n: node.labels }), lit ? litWords(lit) : null];
  place.replaceChildren(
    el("p", { class: "chosen-title", dir: "auto" }, node.title),
    el("p", { class: "soft" }, words.filter(Boolean).join(" · ")),
    ...(action ? [el("p", { class: "actions" }, action)] : []),
  );
}
