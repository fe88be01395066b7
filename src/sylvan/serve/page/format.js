// Numbers and labels as people read them.

const whole = new Intl.NumberFormat("en");

export function count(number, one, many = `${one}s`) {
  return `${whole.format(number)} ${number === 1 ? one : many}`;
}

export function integer(number) {
  return whole.format(number);
}

/** A probability as a percentage, small ones with a decimal so that they don't all read 0%. */
export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.1) return "<0.1%";
  if (value < 10) return `${value.toFixed(1)}%`;
  return value > 99 && value < 100 ? ">99%" : `${Math.round(value)}%`;
}

/** A score in few digits; small ones keep theirs. */
export function score(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "none";
  return Math.abs(value) >= 0.01 || value === 0 ? value.toFixed(3) : value.toPrecision(2);
}

/** A percentage where the model is calibrated, a score otherwise. */
export function sureness(value, calibrated) {
  return calibrated ? percent(value) : score(value);
}

/** What a word adds, in two digits. */
export function signed(value) {
  const size = Math.abs(value);
  return `${value < 0 ? "−" : "+"}${size >= 0.1 ? size.toFixed(2) : size.toPrecision(2)}`;
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

export function ordinal(number) {
  const tens = number % 100;
  const ending = tens > 10 && tens < 14 ? "th" : (["th", "st", "nd", "rd"][number % 10] ?? "th");
  return `${whole.format(number)}${ending}`;
}
