/** Marks in a segment's text (`<g1>…</g1>`, `<x1/>`): shown as what they are, and edited as wholes. */

import { el } from "./dom.js";
import { has, t } from "./i18n.js";

const MARK = /(<\/?g\d{1,5}>|<x\d{1,5}\/>)/;
const ELEMENTS = { bold: "b", italic: "i", underline: "u", strike: "s", superscript: "sup", subscript: "sub", code: "code", link: "span" };
const LETTERS = { bold: "B", italic: "I", underline: "U", strike: "S", superscript: "x²", subscript: "x₂", code: "</>", link: "↗", break: "↵" };

/** A text in its marks and what is between them: those at odd places are marks. */
const split = (text) => text.split(MARK);

export const marksOf = (text) => split(text).filter((_, at) => at % 2);

const numberOf = (mark) => mark.match(/\d+/)[0];

/** What a mark is, `[{name}]` or `[{text}]`; empty: not known. @param {Object<string, string>} looks by number */
function lookOf(mark, looks) {
  const look = looks?.[numberOf(mark)] ?? "";
  return look.startsWith("=") ? { names: [], text: look.slice(1) } : { names: look.split(" ").filter(Boolean), text: "" };
}

const called = (name) => (has(`mark.${name}`) ? t(`mark.${name}`) : name);

/** What a mark is in words, for a button or for assistive technology. */
export function nameOf(mark, looks) {
  const { names, text } = lookOf(mark, looks);
  const what = text || names.map(called).join(", ");
  if (!what) return mark;
  if (!mark.includes("g")) return what;
  return t(mark.startsWith("</") ? "mark.end" : "mark.beginning", { what });
}

/** A mark as one thing in a line, whatever the line's direction. */
export function chip(mark, looks) {
  const { names, text } = lookOf(mark, looks);
  const letters = names.map((name) => LETTERS[name] ?? name).join(" ");
  const shown = text || (letters && mark.includes("g") ? (mark.startsWith("</") ? `${letters}⟩` : `⟨${letters}`) : letters) || mark;
  return el("span", { class: "mark", dir: "ltr", title: nameOf(mark, looks), "data-mark": mark }, shown);
}

/** The words of a text, with what is searched for marked. */
function words(text, find) {
  if (!find || !text) return [text];
  const parts = text.split(new RegExp(`(${find.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")})`, "giu"));
  return parts.map((part, at) => (at % 2 ? el("mark", {}, part) : part));
}

/** Nodes of a text for reading: bold is bold; a mark that is not known is shown as it is. */
export function rendered(text, looks, find = "") {
  const root = el("span");
  const open = [root];
  for (const [at, part] of split(text).entries()) {
    const inside = open.at(-1);
    if (at % 2 === 0) inside.append(...words(part, find));
    else if (part === inside.dataset?.closing) open.pop();
    else {
      const { names } = lookOf(part, looks);
      const isPair = part.startsWith("<g") && names.length && names.every((name) => ELEMENTS[name]);
      if (isPair) {
        const [outer, inner] = dressed(names, part);
        inside.append(outer);
        open.push(inner);
      } else {
        inside.append(chip(part, looks));
        if (names.includes("break")) inside.append("\n");
      }
    }
  }
  return [...root.childNodes];
}

/** Elements one in the other for what a pair of marks is; the innermost knows the mark that closes it. */
function dressed(names, mark) {
  const made = names.map((name) => el(ELEMENTS[name], { class: name === "link" ? "link" : "look" }));
  made.reduce((outer, inner) => (outer.append(inner), inner));
  made.at(-1).dataset.closing = mark.replace("<", "</");
  return [made[0], made.at(-1)];
}

/** A text as a box holds it: the browser shows a last line that is empty only with one more line break behind it. */
function held(text) {
  return text.endsWith("\n") ? `${text}\n` : text;
}

/**
 * A box for a text with marks. A mark is one thing in it: the cursor steps over it, it goes, is copied and pasted as a whole, and
 * becomes one when it is typed. What is put into it is a step that the browser takes back (Ctrl+Z), as what is typed is.
 */
export class MarkedField {
  /** @param {string} label @param {Object<string, string>} looks of the marks */
  constructor(label, looks) {
    this.looks = looks;
    const attributes = { class: "field", role: "textbox", "aria-multiline": "true", "aria-label": label, contenteditable: "plaintext-only" };
    this.element = el("div", attributes);
    this.element.addEventListener("input", ({ inputType, isComposing }) => {
      if (!isComposing && !inputType?.startsWith("history")) queueMicrotask(() => this.tidy()); // not within a script's own command
    });
    this.element.addEventListener("paste", (event) => this.paste(event));
    for (const kind of ["copy", "cut", "dragstart"]) this.element.addEventListener(kind, (event) => this.copy(event));
  }

  get value() {
    return textOf(this.element).replace(/\n$/, "");
  }

  set value(text) {
    this.element.replaceChildren(...this.nodes(held(text)));
  }

  set readOnly(is) {
    this.element.setAttribute("contenteditable", is ? "false" : "plaintext-only");
    this.element.setAttribute("aria-readonly", String(is));
  }

  get readOnly() {
    return this.element.getAttribute("contenteditable") === "false";
  }

  nodes(text) {
    return split(text).flatMap((part, at) => (at % 2 ? [this.chip(part)] : part ? [part] : []));
  }

  chip(mark) {
    const made = chip(mark, this.looks);
    made.setAttribute("contenteditable", "false");
    return made;
  }

  /** Put the cursor at the end. */
  focus() {
    this.element.focus();
    getSelection().selectAllChildren(this.element);
    getSelection().collapseToEnd();
  }

  /** Put a mark where the cursor is. */
  insert(mark) {
    if (!this.element.contains(getSelection().anchorNode)) this.focus();
    this.write(mark);
  }

  /** Put a text in place of all that is in it. */
  replace(text) {
    this.focus();
    getSelection().selectAllChildren(this.element);
    this.write(held(text));
  }

  /** Put a text in place of what is selected. The browser dispatches `input`. */
  write(text) {
    if (this.readOnly) return;
    const written = el("div", {}, ...this.nodes(text));
    this.element.setAttribute("contenteditable", "true"); // else a mark is put there as characters
    document.execCommand(text ? "insertHTML" : "delete", false, written.innerHTML);
    this.element.setAttribute("contenteditable", "plaintext-only");
    const selection = getSelection();
    const last = (selection.anchorNode.parentElement ?? this.element).closest(".mark") ?? selection.anchorNode;
    if (last.dataset?.mark) selection.collapse(last.parentNode, [...last.parentNode.childNodes].indexOf(last) + 1); // not inside
  }

  /** Make a mark of each that was typed or dropped as characters. */
  tidy() {
    const walker = document.createTreeWalker(this.element, NodeFilter.SHOW_TEXT, (node) =>
      node.parentElement.dataset.mark ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT,
    );
    while (walker.nextNode()) {
      const found = MARK.exec(walker.currentNode.data);
      if (!found) continue;
      getSelection().setBaseAndExtent(walker.currentNode, found.index, walker.currentNode, found.index + found[0].length);
      return this.write(found[0]); // which leads here again
    }
  }

  paste(event) {
    const text = event.clipboardData.getData("text/plain");
    if (!MARK.test(text)) return;
    event.preventDefault();
    this.write(text.replace(/\r\n?/g, "\n"));
  }

  /** What is copied has marks as they are written, and not what is shown of them. */
  copy(event) {
    const text = textOf(getSelection().getRangeAt(0).cloneContents());
    if (!MARK.test(text)) return;
    event.preventDefault(); // what is dragged would be what is shown
    event.clipboardData?.setData("text/plain", text);
    if (event.type === "cut") document.execCommand("delete");
  }
}

/** What is in a box, with marks as they are written. */
function textOf(element) {
  return [...element.childNodes].map(written).join("");
}

function written(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  if (node.dataset?.mark) return node.dataset.mark;
  return node.nodeName === "BR" ? "\n" : textOf(node);
}
