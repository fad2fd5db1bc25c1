/** Making elements, and reading the page's own. */

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id; a page without it is broken, so this throws. */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element #${id}`);
  return found;
}

/** An element with attributes and children. */
export function el(tag, attributes = {}, ...children) {
  return dressed(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return dressed(document.createElementNS(SVG, tag), attributes, children);
}

function dressed(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Change the text only where it differs: assistive technology and selections are left alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Whether the reader asked for less motion. */
export const stillness = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
