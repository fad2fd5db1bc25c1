"""Frames: sentences of four languages with slots for units, as `data/clauses/frames*.tsv` writes them.

Columns: slots, en, ja, ko, zh. A slot is `name=what it draws`; its first letter is its kind: s subject, v verb phrase, e event,
a adjective, n and t nouns, w time, p place, c clause. A cell refers to it as `{v.past}`; other braces are slots of the pattern
generator (`{name}`, `{time}`). Cells may hold source-only variants after ` || `.

Clauses (`data/clauses/inner.tsv`) are frames that stand inside another. Their cells hold the forms that languages need, split
by ` ;; `: Japanese plain, before a noun, polite; Korean plain (before 고), stem, before a noun, polite.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook import data_dir
from tools.phrasebook.clauses.lexicon import (
    Lexicon,
    NounUse,
    Style,
    Subject,
    Unit,
    VerbUse,
    rows,
)
from tools.phrasebook.clauses.lexicon import load as load_lexicon
from tools.phrasebook.corpus import CorpusError
from tools.phrasebook.grammar import capitalised

_REFERENCE = re.compile(r"\{([a-z]\d?)(?:\.([^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class Cell:
    """A template: literal text between (slot, form) references."""

    texts: tuple[str, ...]
    references: tuple[tuple[str, str], ...]

    def fill(self, language: str, units: Mapping[str, Unit], style: Style) -> str:
        pieces = [self.texts[0]]
        for (slot, form), text in zip(self.references, self.texts[1:], strict=True):
            pieces += (units[slot].form(language, form, style), text)
        text = "".join(pieces)
        return text.replace("在在", "在") if language == "zh" else text


def _cell(text: str) -> Cell:
    matches = list(_REFERENCE.finditer(text))
    ends = [0, *(match.end() for match in matches)]
    starts = [*(match.start() for match in matches), len(text)]
    texts = tuple(text[end:start] for end, start in zip(ends, starts, strict=True))
    return Cell(texts, tuple((match[1], match[2] or "") for match in matches))


@dataclass(frozen=True, slots=True)
class Frame:
    """`cells[language]` holds the canonical cell first, then the variants of a source (of an inner frame: its forms)."""

    name: str
    slots: tuple[tuple[str, str], ...]
    cells: Mapping[str, tuple[Cell, ...]]
    weight: float


_CLAUSE_FORMS: Mapping[str, tuple[str, ...]] = {
    "en": ("",),
    "ja": ("", "na", "polite"),
    "ko": ("", "stem", "mod", "polite"),
    "zh": ("",),
}


@dataclass(frozen=True, slots=True)
class Clause:
    """A frame inside another one, with its units."""

    frame: Frame
    units: Mapping[str, Unit]

    def form(self, language: str, name: str, style: Style) -> str:
        index = _CLAUSE_FORMS[language].index(name)
        cells = self.frame.cells[language]
        return cells[min(index, len(cells) - 1)].fill(language, self.units, Style(explicit=style.explicit))


@dataclass(frozen=True, slots=True)
class Library:
    """Everything that sentences are made of."""

    lexicon: Lexicon
    frames: tuple[Frame, ...]
    inner: Mapping[str, tuple[Frame, ...]]

    def units(self, frame: Frame, rng: Random) -> dict[str, Unit]:
        """A unit for each slot of `frame`, those that must agree drawn together."""
        units: dict[str, Unit] = {}
        for name, spec in frame.slots:
            units[name] = self._unit(name, spec, units, rng)
        return units

    def _unit(self, name: str, spec: str, units: Mapping[str, Unit], rng: Random) -> Unit:
        lexicon = self.lexicon
        kind = name[0]
        if kind == "s":
            return self._other_subject(spec, units, rng)
        if kind == "v":
            return VerbUse(lexicon.draw_verb(rng, spec), _agreeing(name, units))
        if kind == "a":
            return self._adjective(spec, units, rng)
        if kind == "e":
            return lexicon.draw_event(rng, spec)
        if kind in "nt":
            return lexicon.draw_noun(rng, spec)
        if kind == "c":
            frame = rng.choice(self.inner[spec])
            return Clause(frame, self.units(frame, rng))
        return lexicon.draw_phrase(rng, kind, spec)

    def _adjective(self, spec: str, units: Mapping[str, Unit], rng: Random) -> Unit:
        """By classes, or by the thing of slot t: "t" any that suits it, "T" one that Japanese can say too much of."""
        if spec not in ("t", "T"):
            return self.lexicon.draw_adjective(rng, spec)
        adjective = self.lexicon.draw_adjective(rng, _classes(units))
        while spec == "T" and adjective.ja.endswith("いる"):
            adjective = self.lexicon.draw_adjective(rng, _classes(units))
        return adjective

    def _other_subject(self, spec: str, units: Mapping[str, Unit], rng: Random) -> Subject:
        subject = self.lexicon.draw_subject(rng, spec)
        for _ in range(20):
            if subject not in units.values():
                break
            subject = self.lexicon.draw_subject(rng, spec)
        return subject


def _classes(units: Mapping[str, Unit]) -> str:
    """The adjective classes that suit the thing of slot t."""
    thing = units["t"]
    if not isinstance(thing, NounUse):
        raise CorpusError("clauses: an adjective of t needs a noun in t")
    return "|".join(sorted(tag for tag in thing.noun.tags if tag.islower() and tag not in ("own", "u")))


_YOU = Subject("you", "あなた", "당신", "你", "n", frozenset({"you"}))


def _agreeing(name: str, units: Mapping[str, Unit]) -> Subject:
    """The subject that a verb agrees with: that of its number, or the first one."""
    subject = units.get("s" + name[1:]) or units.get("s") or _YOU
    return subject if isinstance(subject, Subject) else _YOU


def english_sentence(text: str) -> str:
    """`text` with a capital at its start and after a full stop; a slot at the start is left to the renderer."""
    text = re.sub(r"\bthe (?=the\b|my\b|this\b)", "", text)
    return re.sub(r"(?<=[.?!] )[a-z]", lambda match: match[0].upper(), capitalised(text))


@cache
def library() -> Library:
    """The packaged tables."""
    return load(data_dir() / "clauses")


def load(directory: Path) -> Library:
    """The tables of `directory`. Raises CorpusError for what is invalid."""
    lexicon = load_lexicon(directory)
    frames = tuple(
        _frame(cells, " || ", f"{path.stem}:{number}")
        for path in sorted(directory.glob("frames*.tsv"))
        for number, cells in enumerate(rows(path, 6), 1)
    )
    inner: dict[str, list[Frame]] = {}
    for number, cells in enumerate(rows(directory / "inner.tsv", 6), 1):
        kinds, _, slots = cells[0].partition(":")
        frame = _frame([slots.strip() or "-", *cells[1:]], " ;; ", f"inner:{number}")
        for kind in kinds.split(","):
            inner.setdefault(kind.strip(), []).append(frame)
    return Library(lexicon, frames, {kind: tuple(group) for kind, group in inner.items()})


def _frame(cells: list[str], separator: str, name: str) -> Frame:
    slots = tuple(_slot(part, name) for part in cells[0].split() if part != "-")
    texts = dict(zip(LANGUAGES, cells[1:5], strict=True))
    parsed = {language: tuple(_cell(text) for text in cell.split(separator)) for language, cell in texts.items()}
    known = {slot for slot, _ in slots}
    for language, group in parsed.items():
        if unknown := {slot for cell in group for slot, _ in cell.references} - known:
            raise CorpusError(f"{name}: {language}: unknown slot {sorted(unknown)[0]!r} in {texts[language]!r}")
    open_slots = sum(1 for slot, _ in slots if slot[0] != "s") + 0.5 * len(slots)
    return Frame(name, slots, parsed, float(cells[5]) if cells[5] else 1.0 + min(open_slots, 3.0))


def _slot(part: str, name: str) -> tuple[str, str]:
    slot, equals, spec = part.partition("=")
    if not equals or not re.fullmatch(r"[svaentwpc]\d?", slot):
        raise CorpusError(f"{name}: bad slot {part!r}")
    return slot, spec
