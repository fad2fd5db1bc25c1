// What axe-core does not look at, or less strictly: each function returns what it finds fault with. Read by conftest.py.

const describe = (element) =>
  `${element.tagName.toLowerCase()}${element.id ? "#" + element.id : ""}.${element.getAttribute("class") ?? ""} "${element.textContent.trim().slice(0, 30)}"`;

const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".visually-hidden, noscript");

const every = (selector) => [...document.querySelectorAll(selector)];

function rgba(colour) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const brush = canvas.getContext("2d");
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}

// Relative luminance, WCAG 2.2
function luminance([r, g, b]) {
  const linear = [r, g, b].map((value) => value / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function ground(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = rgba(getComputedStyle(at).backgroundColor);
    if (colour[3] === 1) return colour;
  }
  return [255, 255, 255, 1];
}

function groundLuminance() {
  return [luminance(ground(document.body))];
}

// 1.4.3: 4.5 to 1, or 3 to 1 for large text; what cannot be used is exempt
function paleTexts() {
  const faults = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let checked = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !shown(element) || element.closest(":disabled")) continue;
    const style = getComputedStyle(element);
    const ink = luminance(rgba(element instanceof SVGElement ? style.fill : style.color));
    const paper = luminance(ground(element));
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    const size = parseFloat(style.fontSize);
    checked += 1;
    if (contrast < (size >= 24 ? 3 : 4.5)) faults.push(`${contrast.toFixed(2)} ${describe(element)}`);
  }
  return checked > 15 ? faults : [`only ${checked} texts were seen`];
}

// Text that is cut off without an ellipsis or a way to scroll to it
function cutOff() {
  const hides = (element) => {
    const { overflowX, textOverflow } = getComputedStyle(element);
    return overflowX === "hidden" && textOverflow !== "ellipsis";
  };
  return every("body *")
    .filter((element) => shown(element) && element.scrollWidth > element.clientWidth + 1 && hides(element) && element.textContent.trim())
    .map(describe);
}

function moving() {
  const seconds = (list) => Math.max(...list.split(",").map(parseFloat));
  const moves = (element) => {
    const { transitionDuration, animationDuration } = getComputedStyle(element);
    return seconds(transitionDuration) > 0 || seconds(animationDuration) > 0;
  };
  return every("body *").filter(moves).map(describe);
}

// 2.5.8: 24 by 24 CSS pixels; links in a line of text are exempt
function smallTargets() {
  return every("button, select, textarea, summary")
    .filter(shown)
    .filter((element) => Math.min(element.offsetWidth, element.offsetHeight) < 24)
    .map(describe);
}
