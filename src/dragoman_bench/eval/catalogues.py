"""Reads catalogues of human translations, and chooses messages to test similar translations with: `dragoman eval --adapt`.

Of each language some messages are held out; all others are the memory, without those that are nearly equal to one held out. A
message is of the band of similarity of the memory's most similar one: as many messages of each band are chosen, those without a
similar one among them, and as many again with placeholders or tags.
"""

from __future__ import annotations

import gettext
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from rapidfuzz import fuzz, process

from dragoman import languages
from dragoman.errors import ConfigError
from wholetext.errors import InvalidFile
from wholetext.files import tmx
from wholetext.markup import document, marks
from wholetext.markup.marks import MARK_VARIANT, Block

SOURCE = "en"
"""The language of the messages."""
BANDS: Mapping[str, tuple[float, float]] = {"60–75": (60, 75), "75–85": (75, 85), "85–97": (85, 97)}
NONE, MARKED = "none similar", "placeholders"
EQUAL = 97.0
"""From here on two messages without case, accelerators and punctuation are one."""
SHORTEST, LONGEST, FEWEST_WORDS = 12, 160, 3
HELD_OUT = 3_000
"""Messages of a language of which the test is chosen."""
RANDOM = 3
_MARKED = re.compile(r"[_&%<{\n\t]")
_PLACEHOLDER = re.compile(r"%[\w(.]|<\w|\{\w")

Pairs = Mapping[str, str]
"""Messages with their translations."""


@dataclass(frozen=True, slots=True)
class AdaptText:
    """A message to translate. `similar` is the memory's most similar one's translation, `random` are pairs of others."""

    target: str
    source: str
    reference: str
    band: str
    similarity: float
    similar: str
    random: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AdaptInputs:
    """The test. `memories` are by target, with tags as marks; `growing` are the messages of one catalogue of each target."""

    texts: tuple[AdaptText, ...]
    memories: Mapping[str, Sequence[tuple[str, str]]]
    growing: Mapping[str, Sequence[tuple[str, str]]]


# ---- catalogues


def read_catalogues(paths: Iterable[Path]) -> dict[str, dict[str, Pairs]]:
    """Return the messages of files (.mo, .po, .tmx; all in a folder) by target and file. Raises ConfigError.

    Of plural forms the first is taken. The target of .mo and .po is in the path (`fr/LC_MESSAGES/`), else in the header.
    """
    found: dict[str, dict[str, Pairs]] = defaultdict(dict)
    for path in paths:
        files = sorted(one for one in path.rglob("*") if one.suffix in _READERS) if path.is_dir() else [path]
        for file in files:
            by_target: dict[str, dict[str, str]] = defaultdict(dict)
            for target, source, translation in _rows(file):
                if is_fit(source, translation):
                    by_target[target][source] = translation
            for target, pairs in by_target.items():
                found[target][str(file)] = pairs
    if not found:
        raise ConfigError("no catalogue has translations from English", param="file")
    return found


def is_fit(source: str, translation: str) -> bool:
    """Whether a pair can be in a memory, and its translation is one."""
    is_text = all(text.strip() == text and text and "\x00" not in text for text in (source, translation))
    return is_text and source != translation and len(source) <= 1_000 and not MARK_VARIANT.search(source + translation)


def _rows(path: Path) -> Iterator[tuple[str, str, str]]:
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise ConfigError(f"{path} is no catalogue: .mo, .po, .tmx or a folder of them", param="file")
    try:
        yield from reader(path)
    except (OSError, ValueError, LookupError, InvalidFile) as error:
        raise ConfigError(f"cannot read {path}: {error}", param="file") from error


def _mo(path: Path) -> Iterator[tuple[str, str, str]]:
    with path.open("rb") as file:
        catalogue = gettext.GNUTranslations(file)
    if target := _target(catalogue.info().get("language", ""), path):
        messages: dict[Any, str] = vars(catalogue)["_catalog"]
        for key, translation in messages.items():
            source, form = cast(tuple[str, int], key) if isinstance(key, tuple) else (str(key), 0)
            if form == 0:
                yield target, source.rpartition("\x04")[2], translation


def _po(path: Path) -> Iterator[tuple[str, str, str]]:
    catalogue: Any = import_module("polib").pofile(str(path))
    if target := _target(catalogue.metadata.get("Language", ""), path):
        for entry in catalogue.translated_entries():
            yield target, entry.msgid, entry.msgstr or entry.msgstr_plural.get(0, "")


def _tmx(path: Path) -> Iterator[tuple[str, str, str]]:
    for entry in tmx.read(path.read_bytes(), Counter()):
        if languages.primary(entry.source) == SOURCE and "<" not in entry.text:
            yield entry.target, entry.text, entry.translation


_READERS = {".mo": _mo, ".po": _po, ".tmx": _tmx}


def _target(named: str, path: Path) -> str | None:
    """The language of a catalogue; None: it has no other one than English."""
    name = path.parent.parent.name if path.parent.name == "LC_MESSAGES" else named or path.stem
    target = languages.find(re.sub(r"\..*", "", name.replace("@latin", "-Latn")))
    return None if target is None or languages.primary(target) == SOURCE else target


# ---- the test


def choose(
    catalogues: Mapping[str, Mapping[str, Pairs]], targets: Sequence[str], number: int, growing: int, seed: int = 1
) -> AdaptInputs:
    """Choose `number` messages of each band for each target (none given: all), and `growing` of one catalogue.

    Raises ConfigError for a target without catalogues.
    """
    texts, memories, grown = list[AdaptText](), dict[str, Sequence[tuple[str, str]]](), dict[str, Any]()
    for target in targets or sorted(catalogues):
        if target not in catalogues:
            raise ConfigError(
                f"no catalogue is in {target}; there are {', '.join(sorted(catalogues))}", param="targets"
            )
        draw = random.Random(f"{seed} {target}")
        files = catalogues[target]
        pairs = {source: text for of_file in files.values() for source, text in of_file.items()}
        chosen, memory = _chosen(target, pairs, number, draw)
        texts += chosen
        memories[target] = [stored(source, pairs[source]) for source in memory]
        largest = max(files.values(), key=lambda of_file: sum(map(_is_plain, of_file)))
        plain = [(source, text) for source, text in largest.items() if _is_plain(source)]
        draw.shuffle(plain)
        grown[target] = plain[:growing]
    return AdaptInputs(tuple(texts), memories, grown)


def _is_plain(source: str) -> bool:
    return _has_test_length(source) and not _MARKED.search(source)


def _has_test_length(source: str) -> bool:
    return SHORTEST <= len(source) <= LONGEST and len(source.split()) >= FEWEST_WORDS and "\n" not in source


def normalised(source: str) -> str:
    """A message without case, accelerators and punctuation."""
    return " ".join(re.sub(r"\W+", " ", re.sub(r"[_&](?=\w)", "", source).casefold()).split())


def _chosen(target: str, pairs: Pairs, number: int, draw: random.Random) -> tuple[list[AdaptText], list[str]]:
    """The texts of a target, and the messages of its memory."""
    sources = list(pairs)
    draw.shuffle(sources)
    plain = [source for source in sources if _is_plain(source)]
    marked = [s for s in sources if _has_test_length(s) and _PLACEHOLDER.search(s) and "_" not in s and "&" not in s]
    held_out = [*plain[: min(HELD_OUT, len(plain) // 2)], *marked[: min(HELD_OUT // 2, len(marked) // 2)]]
    is_held_out = set(held_out)
    memory = [source for source in sources if source not in is_held_out]
    equal = _scores([*map(normalised, held_out)], [*map(normalised, memory)], EQUAL).max(axis=0)
    memory = [source for source, score in zip(memory, equal, strict=True) if score < EQUAL]
    scores = _scores(held_out, memory, min(low for low, _ in BANDS.values()))
    found: dict[str, list[AdaptText]] = defaultdict(list)
    others_of = [source for source in memory if _is_plain(source)]
    for source, of_source in zip(held_out, scores, strict=True):
        place = int(of_source.argmax())
        band = _band(source, float(of_source[place]))
        if band and len(found[band]) < number:
            others = [(other, pairs[other]) for other in draw.sample(others_of, RANDOM)]
            similar = pairs[memory[place]] if of_source[place] else ""
            one = AdaptText(target, source, pairs[source], band, float(of_source[place]), similar, tuple(others))
            found[band].append(one)
    return [one for band in (*BANDS, NONE, MARKED) for one in found[band]], memory


def _scores(texts: Sequence[str], others: Sequence[str], least: float) -> Any:
    """The similarity of each text to each other one; 0 below `least`."""
    if not texts or len(others) <= RANDOM:
        raise ConfigError("the catalogues have too few messages to choose from", param="file")
    return process.cdist(texts, others, scorer=fuzz.ratio, score_cutoff=least, dtype=np.float32, workers=-1)


def _band(source: str, similarity: float) -> str | None:
    if not similarity:
        return None if _MARKED.search(source) else NONE
    if _MARKED.search(source):
        return MARKED if similarity < EQUAL else None
    return next((name for name, (low, high) in BANDS.items() if low <= similarity < high), None)


def stored(source: str, translation: str) -> tuple[str, str]:
    """A pair as a document's edit stores it: with tags as marks, where the translation has the same ones."""
    pieces = [*document.pieces(source, "text")]
    [block, *rest] = pieces
    if rest or not isinstance(block, Block) or (form := marks.canonical(block.text, block.marks)) is None:
        return source, translation
    written = translation
    for number, old in enumerate(form[1], 1):
        mark = block.marks[old - 1]
        if mark.closing is None:
            written = written.replace(mark.opening, f"<x{number}/>", 1)
        else:
            written = written.replace(mark.opening, f"<g{number}>", 1).replace(mark.closing, f"</g{number}>", 1)
    return (source, translation) if marks.lost(form[0], written) else (form[0], written)
