// Numbers and labels as people read them.

import { number } from "./sentences.js";

/** A probability as a percentage, small ones with a decimal so that they don't all read 0%. */
export function percent(share) {
  const words = (value, digits) => number(value, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits });
  if (share > 0 && share < 0.001) return `<${words(0.001, 1)}`;
  if (share < 0.1) return words(share, 1);
  return share > 0.99 && share < 1 ? `>${words(0.99, 0)}` : words(share, 0);
}

/** A score in few digits; small ones keep theirs. */
export function score(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const small = Math.abs(value) < 0.01 && value !== 0;
  return number(value, small ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 3, maximumFractionDigits: 3 });
}

/** A percentage where the model is calibrated, a score otherwise. */
export function sureness(value, calibrated) {
  return calibrated ? percent(value) : score(value);
}

/** What a word adds, in two digits. */
export function signed(value) {
  const size = Math.abs(value);
  const digits = size >= 0.1 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { minimumSignificantDigits: 2, maximumSignificantDigits: 2 };
  return `${value < 0 ? "−" : "+"}${number(size, digits)}`;
}

/** Whether a label is an address that may become a link: no scheme but these two ever does. */
export function isAddress(label) {
  return /^https?:\/\/[^\s/]/i.test(String(label));
}

/** A branch's title without its number of labels, which stands beside it. */
export function branchTitle(title) {
  return String(title).replace(/ \([\d,]+ labels?\)$/, "");
}

export function shortened(text, length) {
  const line = String(text).replace(/\s+/gu, " ").trim();
  const letters = Array.from(line);
  return letters.length > length ? `${letters.slice(0, length - 1).join("").trimEnd()}…` : line;
}
