// The page's sentences in the browser's language: a translation is a file such as de.json, and its name below.

const LANGUAGES = ["en", "de"];
const ATTRIBUTES = ["aria-label", "placeholder", "title"]; // that may be said, as data-say-title="key"

let sentences = {};
let plural, place;
const formats = new Map();

/** The first language of the browser's that there is a file of. */
export let language = LANGUAGES[0];

/** Loads the sentences, and says those of index.html: each element there names its own. */
export async function loadSentences() {
  const wanted = navigator.languages.map((tag) => tag.toLowerCase().split("-")[0]);
  language = wanted.find((tag) => LANGUAGES.includes(tag)) ?? LANGUAGES[0];
  const answer = await fetch(new URL(`${language}.json`, import.meta.url));
  sentences = await answer.json();
  plural = new Intl.PluralRules(language);
  place = new Intl.PluralRules(language, { type: "ordinal" });
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);
  for (const name of ATTRIBUTES) {
    for (const element of document.querySelectorAll(`[data-say-${name}]`)) {
      element.setAttribute(name, say(element.getAttribute(`data-say-${name}`)));
    }
  }
}

/**
 * A sentence with its values in place of {names}, numbers as the language writes them. One that has forms for numbers,
 * {"one": …, "other": …}, goes by the value `n`.
 */
export function say(key, values = {}) {
  return filled(key, plural, values);
}

/** A place, such as 2nd. */
export function ordinal(n) {
  return filled("ordinal", place, { n });
}

/** A number as the language writes it; options as of Intl.NumberFormat. */
export function number(value, options = {}) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat(language, options));
  return formats.get(key).format(value);
}

function filled(key, rules, values) {
  const sentence = sentences[key];
  if (sentence === undefined) throw new Error(`${language}.json has no sentence ${key}`);
  const form = typeof sentence === "string" ? sentence : (sentence[rules.select(values.n)] ?? sentence.other);
  return form.replace(/\{(\w+)\}/g, (_, name) => (typeof values[name] === "number" ? number(values[name]) : values[name]));
}
