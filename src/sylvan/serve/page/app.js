// Starts the page: one store, and each part with it.

import { startAnswers } from "./answers.js";
import { startChoices } from "./choices.js";
import { startCompare } from "./compare.js";
import { startCopy } from "./copy.js";
import { startExplain } from "./explain.js";
import { startKeys } from "./keys.js";
import { startLabels } from "./labels.js";
import { startModels } from "./models.js";
import { startSearch } from "./search.js";
import { startStatus } from "./status.js";
import { createStore, NO_CHOICES } from "./store.js";
import { startText } from "./text.js";
import { startTheme } from "./theme.js";
import { startTree } from "./tree_view.js";
import { startViews } from "./views.js";

const store = createStore({
  view: "tag", // tag, tree or compare
  models: [], // as GET v1/models lists them
  model: null, // the chosen one's name
  card: null, // what GET v1/models/{model} says of it
  text: "",
  choices: NO_CHOICES, // denied, added and branch, of the chosen model
  decided: new Map(), // the choices of the other models, as labels differ between them
  removed: null, // the last removal, while it can be undone: {label, before}
  wanted: 10, // labels to ask for
  sure: 0, // the smallest value shown, 0 to 1
  answers: null, // {labels: [{label, name, value}], added: [the same], calibrated}
  problem: null, // why there are no answers
  explained: null, // the label whose explanation is open: {label, name}
  spans: [], // the words for and against it, in the text
  shown: [], // what the list of labels shows, and what is copied
  treeNode: null, // a node that the tree is asked to open: its path of ids
});

startTheme();
startViews(store);
startStatus(store);
startText(store);
startChoices(store);
startLabels(store);
startAnswers(store);
startSearch(store);
startCopy(store);
startExplain(store);
startTree(store);
startCompare(store);
startKeys();
startModels(store);
