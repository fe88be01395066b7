// Starts the page: its sentences first, then one store, and each part with it.

import { startAnswers } from "./answers.js";
import { startChoices } from "./choices.js";
import { startCompare } from "./compare.js";
import { startCopy } from "./copy.js";
import { startExplain } from "./explain.js";
import { startKeys } from "./keys.js";
import { startLabels } from "./labels.js";
import { startModels } from "./models.js";
import { startQueue } from "./queue.js";
import { startQueueView } from "./queue_view.js";
import { NO_CHOICES } from "./records.js";
import { startSearch } from "./search.js";
import { loadSentences } from "./sentences.js";
import { startSlider } from "./slider.js";
import { startStatus } from "./status.js";
import { createStore } from "./store.js";
import { startText } from "./text.js";
import { startTheme } from "./theme.js";
import { startTree } from "./tree_view.js";
import { startViews } from "./views.js";

await loadSentences();

const store = createStore({
  view: "record", // record, tree or compare
  models: [], // as GET v1/models lists them
  model: null, // the chosen one's name
  card: null, // what GET v1/models/{model} says of it
  queueName: "", // of the file or folder that the records are from; empty where they are typed
  records: [], // as records.js has them
  place: 0, // of the record that is there
  unkept: false, // whether the browser couldn't keep the last change
  text: "", // of that record
  choices: NO_CHOICES, // accepted, denied and branch, of that record and the chosen model
  removed: null, // the last removal, while it can be undone: {label, before}
  wanted: 10, // suggestions to ask for
  sure: 0, // the smallest value shown, 0 to 1
  answers: null, // {labels: [{label, name, code, value}], accepted: [the same], unknown, calibrated}
  problem: null, // why there are no answers
  explained: null, // the label whose explanation is open: {label, name, code}
  spans: [], // the words for and against it, in the text
  shown: [], // what the lists show, and what is copied
  treeNode: null, // a node that the tree is asked to open: its path of ids
});

startTheme();
startViews(store);
startStatus(store);
startText(store);
startChoices(store);
startLabels(store);
startSlider(store);
startQueue(store); // before what asks: a model's card brings the record's text and choices
startQueueView(store);
startAnswers(store);
startSearch(store);
startCopy(store);
startExplain(store);
startTree(store);
startCompare(store);
startKeys(store);
startModels(store);
