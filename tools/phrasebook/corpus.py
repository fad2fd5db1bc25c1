"""The data of the packaged model, loaded and checked: aligned sentence patterns, and the lexicon that fills their slots.

A pattern is one sentence in every language. Its notation: `{kind}`, `{kind:2}`, `{a:kind}` (with the English indefinite
article), and in Korean `[은/는]`. An invalid file is refused with its name, the pattern and the reason.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.phrasebook import LANGUAGES
from tools.phrasebook import data_dir
from tools.phrasebook.grammar import PAIRS
from tools.phrasebook.values import COPIED_KINDS, LOCALISED_KINDS, Value, localised


class TemplateError(ValueError):
    """A template that breaks the notation; the message says how."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a value. `initial` marks one that opens a sentence."""

    kind: str
    ref: str
    article: bool = False
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Particle:
    closed: str
    opened: str


Piece = str | Slot | Particle


@dataclass(frozen=True, slots=True)
class Template:
    text: str
    pieces: tuple[Piece, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Slot))

    def abstract(self) -> str:
        """The text with every slot reduced to its kind, which is what two patterns must not share."""
        return "".join(piece if isinstance(piece, str) else _abstract(piece) for piece in self.pieces)

    def wildcard(self) -> str:
        """The text with every slot reduced to one mark, whatever its kind."""
        return "".join("{}" if isinstance(p, Slot) else p if isinstance(p, str) else _abstract(p) for p in self.pieces)


_TOKEN = re.compile(r"\{([^{}]*)\}|\[([^\[\]]*)\]")
_SLOT = re.compile(r"(?P<article>a:)?(?P<kind>[a-z][a-z_]*)(?P<number>:\d)?")
_SENTENCE_BREAK = re.compile(r"(^|[.?!]\s)[\"'“‘(]*$")


def parse(text: str) -> Template:
    """The pieces of `text`. Raises TemplateError for unbalanced brackets, bad slots and unknown particles."""
    pieces: list[Piece] = []
    end = 0
    for match in _TOKEN.finditer(text):
        _add_text(pieces, text[end : match.start()])
        slot, particle = match.group(1), match.group(2)
        initial = bool(_SENTENCE_BREAK.search(text[: match.start()]))
        pieces.append(_particle(particle) if slot is None else _slot(slot, initial))
        end = match.end()
    _add_text(pieces, text[end:])
    return Template(text, tuple(pieces))


def _add_text(pieces: list[Piece], text: str) -> None:
    if stray := re.search(r"[{}\[\]]", text):
        raise TemplateError(f"unbalanced {stray.group()!r}")
    if text:
        pieces.append(text)


def _slot(inside: str, initial: bool) -> Slot:
    match = _SLOT.fullmatch(inside)
    if match is None:
        raise TemplateError(f"bad slot {{{inside}}}")
    kind = match["kind"]
    return Slot(kind, kind + (match["number"] or ""), article=match["article"] is not None, initial=initial)


def _particle(inside: str) -> Particle:
    closed, slash, opened = inside.partition("/")
    if not slash or (closed, opened) not in PAIRS:
        raise TemplateError(f"unknown particle [{inside}]")
    return Particle(closed, opened)


def _abstract(piece: Slot | Particle) -> str:
    return f"{{{piece.kind}}}" if isinstance(piece, Slot) else f"[{piece.closed}/{piece.opened}]"


_GENERATED = COPIED_KINDS | LOCALISED_KINDS
_FINALS: Mapping[str, str] = {"en": ".?!", "ko": ".?!", "ja": "。？！", "zh": "。？！"}
_CLOSERS = "\"'”’」』）)"


class CorpusError(ConfigError):
    """The data cannot be used: names the file, the entry and the reason."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One sentence in every language. `droppable` holds, by language, whether it is understood without its final
    punctuation: whether no other pattern differs from it by that alone. `sources`, where given, is what a user wrote for it;
    `held_out` marks a sentence that training never has, whatever its values."""

    topic: str
    templates: tuple[Template, ...]
    droppable: tuple[bool, ...]
    sources: tuple[Template, ...] = ()
    held_out: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}: {self.templates[0].text!r}"

    @property
    def kinds(self) -> dict[str, str]:
        """Kind of each slot, by reference."""
        return {slot.ref: slot.kind for slot in self.templates[0].slots}


@dataclass(frozen=True, slots=True)
class Corpus:
    patterns: tuple[Pattern, ...]
    lexicon: Mapping[str, tuple[Value, ...]]


@cache
def packaged() -> Corpus:
    """The corpus in this package, loaded once."""
    return load(data_dir())


def load(directory: Path) -> Corpus:
    """The corpus under `directory`. Raises CorpusError for the first fault found."""
    corpus, faults = survey(directory)
    if faults:
        raise CorpusError(faults[0] if len(faults) == 1 else f"{faults[0]} (and {len(faults) - 1} more)")
    return corpus


def survey(directory: Path) -> tuple[Corpus, list[str]]:
    """What is sound under `directory`, and a line for every fault."""
    faults: list[str] = []
    lexicon = _load_lexicon(directory / "lexicon", faults)
    sides = list(_load_patterns(directory / "patterns", frozenset(lexicon), faults))
    droppable = _droppable([templates for _, templates in sides])
    patterns = (Pattern(topic, templates, drop) for (topic, templates), drop in zip(sides, droppable, strict=True))
    corpus = Corpus(tuple(patterns), lexicon)
    if not corpus.patterns and not faults:
        faults.append(f"{directory / 'patterns'}: no patterns")
    return corpus, faults


def _tables(directory: Path, faults: list[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(directory.glob("*.toml")):
        try:
            yield path, tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            faults.append(f"{path.name}: {error}")


def _missing(entry: Mapping[str, Any]) -> str | None:
    """The first language that `entry` lacks."""
    return next((language for language in LANGUAGES if not isinstance(entry.get(language), str)), None)


def _load_lexicon(directory: Path, faults: list[str]) -> dict[str, tuple[Value, ...]]:
    classes: dict[str, list[Value]] = {}
    for path, table in _tables(directory, faults):
        for kind, entries in table.items():
            if kind in _GENERATED:
                faults.append(f"{path.name}: {kind!r} is the name of a generated slot")
                continue
            for entry in entries:
                value, fault = _entry(kind, entry, classes.setdefault(kind, []))
                if fault is not None:
                    faults.append(f"{path.name}: {kind} {entry.get('en')!r}: {fault}")
                elif value is not None:
                    classes[kind].append(value)
    return {kind: tuple(values) for kind, values in classes.items()}


def _entry(kind: str, entry: Mapping[str, Any], others: list[Value]) -> tuple[Value | None, str | None]:
    """The value that a lexicon table describes, or the fault in it."""
    if unknown := set(entry) - {*LANGUAGES, "en_a"}:
        return None, f"unknown key {sorted(unknown)[0]!r}"
    if language := _missing(entry):
        return None, f"no {language} text"
    for language in LANGUAGES:
        if not entry[language] or entry[language] != entry[language].strip():
            return None, f"{language} text is blank or has outer spaces"
    value = localised(kind, entry, entry.get("en_a"))
    return (None, "listed twice") if any(value.texts == other.texts for other in others) else (value, None)


def _load_patterns(
    directory: Path, lexicon: frozenset[str], faults: list[str]
) -> Iterator[tuple[str, tuple[Template, ...]]]:
    seen: set[tuple[str, ...]] = set()
    for path, table in _tables(directory, faults):
        for number, entry in enumerate(table.get("pattern", []), 1):
            where = f"{path.name}: pattern {number} ({entry.get('en')!r})"
            try:
                templates = _templates(entry)
                _check(templates, lexicon)
            except TemplateError as error:
                faults.append(f"{where}: {error}")
                continue
            texts = tuple(template.text for template in templates)
            if texts in seen:
                faults.append(f"{where}: listed twice")
                continue
            seen.add(texts)
            yield path.stem, templates


def _templates(entry: Mapping[str, Any]) -> tuple[Template, ...]:
    if unknown := set(entry) - set(LANGUAGES):
        raise TemplateError(f"unknown key {sorted(unknown)[0]!r}")
    if language := _missing(entry):
        raise TemplateError(f"no {language} text")
    templates: list[Template] = []
    for language in LANGUAGES:
        try:
            templates.append(parse(entry[language]))
        except TemplateError as error:
            raise TemplateError(f"{language}: {error}") from None
    return tuple(templates)


def _check(templates: tuple[Template, ...], lexicon: frozenset[str]) -> None:
    wanted = {slot.ref for slot in templates[0].slots}
    for language, template in zip(LANGUAGES, templates, strict=True):
        for slot in template.slots:
            if slot.kind not in lexicon and slot.kind not in _GENERATED:
                raise TemplateError(f"{language}: unknown slot {{{slot.ref}}}")
        refs = {slot.ref for slot in template.slots}
        if refs != wanted:
            raise TemplateError(f"{language}: slots {sorted(refs)} differ from en {sorted(wanted)}")
        if template.text != template.text.strip():
            raise TemplateError(f"{language}: outer spaces")
        if not template.text.rstrip(_CLOSERS).endswith(tuple(_FINALS[language])):
            raise TemplateError(f"{language}: does not end in one of {_FINALS[language]}")
        if language != "ko" and "[" in template.text:
            raise TemplateError(f"{language}: a particle bracket outside Korean")


def _droppable(sides: list[tuple[Template, ...]]) -> list[tuple[bool, ...]]:
    bare = [tuple(template.wildcard().rstrip(".?!。？！") for template in templates) for templates in sides]
    counts = [Counter(texts[index] for texts in bare) for index in range(len(LANGUAGES))]
    return [
        tuple(
            counts[index][text] == 1 and template.text[-1] in _FINALS[LANGUAGES[index]]
            for index, (text, template) in enumerate(zip(texts, templates, strict=True))
        )
        for texts, templates in zip(bare, sides, strict=True)
    ]
