"""Writes the options of a call into a prompt: terms, marks, context, formality, instructions.

Some models were trained on prompts with terms or marks: their templates have slots for these, and define their format.
General instruct models get all options as sentences in one block (`instruction_block`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from dragoman.types import PromptOption, PromptOptions

SLOTS: tuple[PromptOption, ...] = ("context", "terms", "formality", "instructions")
"""Slots of a template that are filled from the options of a call."""

_SLOT = re.compile(r"\{(\w+)\}")


@cache
def slots_of(template: str) -> frozenset[str]:
    """Return the names in braces, such as `{text}`. All other braces are literal."""
    return frozenset(_SLOT.findall(template))


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put `values` into their slots, in one pass: braces in a value are never slots. Slots without a value stay."""
    return _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), template)


# ---- formality


@dataclass(frozen=True, slots=True)
class FormalityWords:
    """A template's words for more and for less formal language."""

    more: str
    less: str

    def of(self, options: PromptOptions) -> str:
        if options.formality == "default":
            return ""
        return self.more if options.formality.endswith("more") else self.less


_FORMALITY = FormalityWords(
    more="Use formal language, and the polite form of address where {target} has one.",
    less="Use informal language, and the familiar form of address where {target} has one.",
)


# ---- terms and instructions


def one_line(text: str) -> str:
    """Remove line breaks, so that the text stays in its line of a list."""
    return " ".join(text.split())


def term_lines(line: str, options: PromptOptions) -> str:
    """Return the terms as lines in the format `line`."""
    return "\n".join(
        fill(line, {"term": one_line(term), "translation": one_line(translation)})
        for term, translation in options.terms
    )


def instruction_lines(line: str, options: PromptOptions) -> str:
    """Return the caller's instructions as lines in the format `line`, numbered from 1."""
    return "\n".join(
        fill(line, {"number": str(number), "instruction": one_line(instruction)})
        for number, instruction in enumerate(options.instructions, 1)
    )


def instruction_block(options: PromptOptions, marks: MarkForm, target: str, apart: frozenset[str]) -> str:
    """Return the options as paragraphs of a system prompt, in English. `target`: the target language's name.

    `apart`: options that have a slot of their own, and are left out here. Context is last, because it may be long and look
    like instructions.
    """
    return "\n\n".join(_paragraphs(options, marks, target, apart))


def _paragraphs(options: PromptOptions, marks: MarkForm, target: str, apart: frozenset[str]) -> Iterator[str]:
    given = options.given - apart
    if "marks" in given:
        yield (
            f"Tags such as {marks.write('<g1>…</g1>')} and {marks.write('<x2/>')} stand for formatting and for things that stay"
            " as they are. Copy each tag of the message into the translation exactly once, unchanged, in the place that"
            " corresponds to its place in the message."
        )
    if "formality" in given:
        yield fill(_FORMALITY.of(options), {"target": target})
    if "terms" in given:
        lines = term_lines("- {term} → {translation}", options)
        yield f"Translate these terms as given, inflected where the grammar asks for it:\n{lines}"
    if "instructions" in given:
        lines = instruction_lines("- {instruction}", options)
        yield f"Instructions for the translation:\n{lines}"
    if "context" in given:
        yield f"Context for the translation, not to be translated:\n{options.context}"


# ---- tags around the text


@cache
def tags_around_text(template: str) -> frozenset[str]:
    """Return the tags directly around `{text}`: `a` for `<a>{text}</a>`."""
    return frozenset(re.findall(r"<(\w+)>\{text\}</\1>", template))


def escape_tags(text: str, names: frozenset[str]) -> str:
    """Write these tags in full-width brackets, so that the text cannot end the element around it."""
    return re.sub(rf"<(/?(?:{'|'.join(sorted(names))}))>", "＜\\1＞", text)


def unescape_tags(output: str, text: str, names: frozenset[str]) -> str:
    """Undo `escape_tags` in an output: write the brackets as `text` has them."""
    for name in names:
        for tag in (name, f"/{name}"):
            if f"<{tag}>" in text:
                output = output.replace(f"＜{tag}＞", f"<{tag}>")
    return output


# ---- marks

_CANONICAL = re.compile(r"<(/?)g(\d{1,5})>|<x(\d{1,5})/>")


def has_marks(text: str) -> bool:
    """Whether a text has marks."""
    return "<" in text and _CANONICAL.search(text) is not None


@dataclass(frozen=True, slots=True)
class MarkForm:
    """The form of the marks `<g1>`, `</g1>` and `<x1/>` on which a model was trained; `{n}` is the number."""

    opening: str = "<g{n}>"
    closing: str = "</g{n}>"
    single: str = "<x{n}/>"

    def write(self, text: str) -> str:
        """Write the marks of a text in this form."""
        if self == _DEFAULT or "<" not in text:
            return text

        def written(found: re.Match[str]) -> str:
            form = self.single if found[3] else self.closing if found[1] else self.opening
            return fill(form, {"n": found[2] or found[3]})

        return _CANONICAL.sub(written, text)

    def read(self, output: str, source: str) -> str:
        """Convert the marks of an output from this form to `<g1>…</g1>` and `<x1/>`.

        `source`: the text before `write`, in which a number is that of a pair or of a single. If a single is written as a
        pair, text that the model puts between its two tags is kept.
        """
        if self == _DEFAULT:
            return output
        singles = {found[3] for found in _CANONICAL.finditer(source) if found[3]}
        closed = self.closing in self.single

        def canonical(found: re.Match[str]) -> str:
            number = next(group for group in found.groups() if group)
            if number in singles:
                return "" if closed and found["closing"] else f"<x{number}/>"
            if found["closing"]:
                return f"</g{number}>"
            return f"<g{number}></g{number}>" if found["single"] else f"<g{number}>"

        return _reader(self).sub(canonical, output)


_DEFAULT = MarkForm()


@cache
def _reader(form: MarkForm) -> re.Pattern[str]:
    """Return a pattern for the three kinds of marks; the longest is tried first."""
    forms = {"single": form.single, "opening": form.opening, "closing": form.closing}
    longest_first = sorted(forms.items(), key=lambda item: -len(item[1]))
    patterns: list[str] = []
    for name, one in longest_first:
        first, *others = (re.escape(part) for part in one.split("{n}"))
        repeated = "".join(rf"(?P={name}){part}" for part in others[1:])
        patterns.append(rf"{first}(?P<{name}>\d{{1,5}}){others[0]}{repeated}")
    return re.compile("|".join(patterns))
