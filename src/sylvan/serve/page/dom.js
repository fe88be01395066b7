// Elements made by script. Whatever comes from a model or a person only ever becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; `on` holds its listeners, and false, null or undefined leave one out. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same in SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** The element of this id; a missing one is a mistake in index.html. */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no #${id}`);
  return found;
}

/** A button that submits nothing. */
export function button(text, click, attributes = {}) {
  return el("button", { type: "button", ...attributes, on: { click } }, text);
}

/** An address or code that may break behind its slashes, rather than in a word. */
export function breakable(text) {
  return text.split(/(?<=[/#])(?![/#])/u).flatMap((part) => [part, el("wbr")]);
}

/** How far a bar reaches, 0 to 1; a custom property, as the policy forbids style attributes in markup only. */
export function setShare(bar, share) {
  bar.style.setProperty("--share", String(Math.min(Math.max(share, 0), 1)));
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
