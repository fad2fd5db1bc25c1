"""Finds the documents of rich-text editors in JSON, by their structure: which strings are their text, and which are not.

Three structures serve the editors that are known: trees of nodes that have a type and a list of children, whose leaves have the
text (ProseMirror and Tiptap, Slate, Lexical, Strapi's blocks, Contentful, Portable Text); blocks of a type with their data
(Editor.js); lists of insertions (Quill). Where a part of a structure is missing it is no document.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wholetext.files.values import reason_to_leave

Path: TypeAlias = tuple[str, ...]
Values: TypeAlias = Mapping[Path, Mapping[str, str]]
"""The strings of each object and list, by its path and their keys; also its `code` and `format` of other types."""
Role: TypeAlias = Literal["text", "code", "structure"]

TYPES = ("type", "nodeType", "_type")
_CHILDREN = ("content", "children")
_CODE = frozenset(
    {"code", "codeblock", "codehighlight", "pre", "code-block", "code_block", "code-line", "code-highlight"}
)
_DESCRIPTIONS = frozenset({"alt", "title", "caption", "alternativeText", "altText"})
_DATA = frozenset({"text", "caption", "title", "message", "content", "description"})
_LISTS = frozenset({"items", "content"})
_LEXICAL_CODE = 16  # of the bits of a leaf's `format`


@dataclass(slots=True)
class RichTexts:
    """The documents in a file. `roots` are the paths of their outermost objects or lists."""

    leaves: dict[Path, str] = field(default_factory=lambda: dict[Path, str]())  # the key that has the text
    code: set[Path] = field(default_factory=lambda: set[Path]())  # leaves
    roots: set[Path] = field(default_factory=lambda: set[Path]())
    blocks: set[Path] = field(default_factory=lambda: set[Path]())  # roots of Editor.js
    _roots_of: dict[Path, Path | None] = field(default_factory=lambda: dict[Path, Path | None]())

    def role(self, parent: Path, key: str) -> Role | None:
        """What a string of the object or list at `parent` is in its document; None outside of documents."""
        root = self._root(parent)
        if root is None:
            return None
        if root in self.blocks:
            is_item = key.startswith("[") and not _LISTS.isdisjoint(parent[len(root) + 2 :])
            return "text" if (key in _DATA and len(parent) > len(root) + 1) or is_item else _not_text(key)
        if self.leaves.get(parent) == key:
            return "code" if parent in self.code else "text"
        return "text" if key in _DESCRIPTIONS else _not_text(key)

    def _root(self, parent: Path) -> Path | None:
        if not self.roots:
            return None
        if parent not in self._roots_of:
            cuts = (parent[:length] for length in range(len(parent) + 1))
            self._roots_of[parent] = next((cut for cut in cuts if cut in self.roots), None)
        return self._roots_of[parent]


def _not_text(key: str) -> Role:
    return "code" if key in ("code", "html") else "structure"


def rich_texts(values: Values) -> RichTexts:
    """Return the documents among the values of a file."""
    found = RichTexts()
    children: dict[Path, list[Path]] = defaultdict(list)  # of each list, the objects that have strings
    for path in values:
        if path and path[-1].startswith("["):
            children[path[:-1]].append(path)
    typed = {items for items, paths in children.items() if all(_type(values[path]) for path in paths)}
    for items, paths in children.items():
        if items[-1:] == ("ops",):
            _add_insertions(found, values, items, paths)
        elif items[-1:] == ("blocks",):
            _add_blocks(found, values, items, paths)
        if items and items[-1] in _CHILDREN and _is_node(values, items[:-1], paths):
            _add_tree(found, values, typed, items, paths)
    return found


def _add_insertions(found: RichTexts, values: Values, items: Path, paths: Sequence[Path]) -> None:
    if all("insert" in values[path] for path in paths):
        found.roots.add(items)
        found.leaves |= dict.fromkeys(paths, "insert")
        found.code |= {path for path in paths if "code" in values.get((*path, "attributes"), ())}


def _add_blocks(found: RichTexts, values: Values, items: Path, paths: Sequence[Path]) -> None:
    are_blocks = all("type" in values[path] and values[path].keys() <= {"id", "type"} for path in paths)
    if are_blocks and any((*path, "data") in values for path in paths):
        found.roots.add(items)
        found.blocks.add(items)


def _type(values: Mapping[str, str]) -> str | None:
    return next((values[name] for name in TYPES if name in values), None)


def _leaf(values: Mapping[str, str]) -> str | None:
    """The key of a leaf's text, if the object is one."""
    kind = _type(values)
    if kind == "text" and "value" in values and "text" not in values:
        return "value"
    if "text" not in values:
        return None
    if kind in ("text", "span") or {"mode", "style"} <= values.keys():
        return "text"
    others = (values[name] for name in values if name not in ("text", "code", "format", *TYPES))
    return "text" if all(map(reason_to_leave, others)) else None


def _is_node(values: Values, node: Path, paths: Sequence[Path]) -> bool:
    """Whether an object is a node: it and its children have types, or these are leaves, of which it has one."""
    if _type(values.get(node, {})) is None:
        return False
    leaves = [_leaf(values[path]) for path in paths]
    return any(leaves) and all(leaf or _type(values[path]) for path, leaf in zip(paths, leaves, strict=True))


def _add_tree(found: RichTexts, values: Values, typed: set[Path], items: Path, paths: Sequence[Path]) -> None:
    """Add the leaves of a list, and the root of the document that it is in."""
    root = items[:-1]
    is_code = (_type(values[root]) or "").lower() in _CODE
    for path in paths:
        key = _leaf(values[path])
        if key:
            found.leaves[path] = key
            if is_code or _is_code(values, path):
                found.code.add(path)
    while len(root) > 1 and root[-1].startswith("[") and root[-2] in _CHILDREN and _type(values.get(root[:-2], {})):
        root = root[:-2]
    if "".join(root[-1:]).startswith("[") and root[:-1] in typed:
        root = root[:-1]
    found.roots.add(root)


def _is_code(values: Values, leaf: Path) -> bool:
    own = values[leaf]
    if own.get("code") == "true" or (own.get("format", "").isdecimal() and int(own["format"][:9]) & _LEXICAL_CODE):
        return True
    if (_type(own) or "").lower() in _CODE or "code" in values.get((*leaf, "marks"), {}).values():
        return True
    marks = (values.get((*leaf, "marks", f"[{number}]"), {}) for number in range(5))
    return any(_type(mark) == "code" for mark in marks)
