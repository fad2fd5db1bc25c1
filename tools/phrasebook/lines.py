"""The hand-written parallel corpus: rows of aligned wordings in every language, loaded and checked.

`data/lines/*.tsv` holds sentences and messages: a header `en ja ko zh` (tabs between), then one row a line; a line
`# topic: NAME` opens a topic. `data/words/*.tsv` holds words and set phrases: a header `kind en ja ko zh`, then one row a
line. A cell is one or more wordings with ` | ` between them. The first is the standard translation, which the model learns
to write; all of them are sources that it learns to read. A first wording with `=` before it is written but never read: it
is for a word that means something else more often ("=light", of weight, beside "light", of lamps). Within a cell `\\n` is a
line break.

`python -m tools.phrasebook.lines` lists every fault in the packaged files, or in the directory that it is given.
"""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook import data_dir
from tools.phrasebook.corpus import CorpusError

DEFAULT_TOPIC = "general"
_TOPIC = "# topic:"
_KIND = re.compile(r"[a-z][a-z_]*")


@dataclass(frozen=True, slots=True)
class Row:
    """One meaning in every language. `standard` and `sources` are in the order of `LANGUAGES`.

    `topic` is the topic of a line or the kind of a word. `sources` holds, by language, every text that a user might type
    for this meaning; it is empty where only the standard was given and is not to be read (`=`).
    """

    file: str
    line: int
    topic: str
    standard: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]
    word: bool

    @property
    def is_typed_first(self) -> bool:
        """Whether it is of the lines that people type first (`data/lines/typed_*.tsv`)."""
        return self.file.startswith("typed_")

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Lines:
    """The rows of the corpus: `lines` are sentences and messages, `words` are words and set phrases."""

    lines: tuple[Row, ...]
    words: tuple[Row, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.lines + self.words


@cache
def packaged() -> Lines:
    """The rows in this package, loaded once."""
    return load(data_dir())


def load(directory: Path) -> Lines:
    """The rows under `directory`. Raises CorpusError for the first fault found."""
    rows, faults = survey(directory)
    if faults:
        raise CorpusError(faults[0] if len(faults) == 1 else f"{faults[0]} (and {len(faults) - 1} more)")
    return rows


def survey(directory: Path) -> tuple[Lines, list[str]]:
    """The rows that can be read under `directory`, and a line for every fault: file, line and reason."""
    faults: list[str] = []
    lines = [row for path in sorted((directory / "lines").glob("*.tsv")) for row in _read(path, False, faults)]
    words = [row for path in sorted((directory / "words").glob("*.tsv")) for row in _read(path, True, faults)]
    rows = Lines(tuple(lines), tuple(words))
    faults += [f"{row.name}: {fault}" for row in rows.rows for fault in _row_faults(row)]
    faults += _contradictions(rows.rows)
    return rows, faults


def key(text: str) -> str:
    """What two sources share that differ by capitals, width, curly quotes, spaces or a final full stop alone."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    folded = " ".join(folded.split())
    return folded.rstrip(".。!") or folded


def bare(text: str) -> str:
    """`key` of `text` without its final question mark too: how it is typed in a hurry."""
    return key(text).rstrip(".。!?") or key(text)


@cache
def bare_texts() -> Mapping[str, frozenset[str]]:
    """By language, every text of the packaged rows as `bare` gives it: what the model has read or learned to write."""
    rows = packaged().rows
    return {
        language: frozenset(bare(text) for row in rows for text in (*row.sources[index], row.standard[index]))
        for index, language in enumerate(LANGUAGES)
    }


def ambiguous_when_bare(rows: Iterable[Row]) -> frozenset[tuple[str, str]]:
    """Every (language, bare text) that stands for rows of different meaning, a statement and a question: the question must keep
    its mark."""
    first: dict[tuple[str, str], Row] = {}
    found: set[tuple[str, str]] = set()
    for row in rows:
        for language, texts in zip(LANGUAGES, row.sources, strict=True):
            for text in texts:
                place = (language, bare(text))
                if first.setdefault(place, row).standard != row.standard:
                    found.add(place)
    return frozenset(found)


def _read(path: Path, word: bool, faults: list[str]) -> Iterator[Row]:
    header = "\t".join(("kind", *LANGUAGES) if word else LANGUAGES)
    topic = DEFAULT_TOPIC
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if number == 1:
            if text != header:
                faults.append(f"{path.name}:1: the header is not {header!r}")
        elif text.startswith(_TOPIC):
            topic = text.removeprefix(_TOPIC).strip()
        elif text and not text.startswith("# "):
            row = _parsed(path.name, number, text, None if word else topic)
            if isinstance(row, str):
                faults.append(f"{path.name}:{number}: {row}")
            else:
                yield row


def _parsed(file: str, number: int, text: str, topic: str | None) -> Row | str:
    """The row that a line of a file describes, or the fault in it. `topic` is None in a file of words."""
    cells = text.split("\t")
    kind, cells = (topic, cells) if topic is not None else (cells[0], cells[1:])
    if len(cells) != len(LANGUAGES):
        return f"{len(cells)} languages where {len(LANGUAGES)} are wanted"
    if topic is None and not _KIND.fullmatch(kind):
        return f"bad kind {kind!r}"
    standard: list[str] = []
    sources: list[tuple[str, ...]] = []
    for language, cell in zip(LANGUAGES, cells, strict=True):
        wordings = [wording.strip() for wording in cell.replace("\\n", "\n").split(" | ")]
        unread = wordings[0].startswith("=") and len(wordings[0]) > 1
        wordings[0] = wordings[0].removeprefix("=") if unread else wordings[0]
        if not all(wordings):
            return f"{language}: an empty cell or wording"
        if any(" |" in wording or "| " in wording or wording.startswith("=") for wording in wordings):
            return f"{language}: a stray '|' or '=' in {cell!r}"
        standard.append(wordings[0])
        sources.append(tuple(wordings[1:] if unread else wordings))
    return Row(file, number, kind, tuple(standard), tuple(sources), topic is None)


_HAN = "\u3400-\u4dbf\u4e00-\u9fff々〆"
_KANA = "\u3040-\u30ff\u31f0-\u31ffｦ-ﾟ"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3"
_OWN = {"en": "A-Za-z", "ja": _HAN + _KANA, "ko": _HANGUL, "zh": _HAN}
_FOREIGN = {"en": _HAN + _KANA + _HANGUL, "ja": _HANGUL, "ko": _HAN + _KANA, "zh": _KANA.replace("・", "") + _HANGUL}
_HAS_OWN = {language: re.compile(f"[{letters}]") for language, letters in _OWN.items()}
_HAS_FOREIGN = {language: re.compile(f"[{letters}]") for language, letters in _FOREIGN.items()}
_CODECS = {"ja": "cp932", "zh": "gb2312"}
_COMMON_OUTSIDE_CODECS = {"ja": "圳", "zh": "囧啰嘚咔噻碁瞭着蕌煊瑄镕嘢嚯嗳唔煲"}
"""Characters in daily use that the national standard of the language lacks."""

_LATIN = re.compile(r"[A-Za-z]+")
_COPIED = re.compile(
    r"<[^<>\s][^<>]*>"  # marks and tags
    r"|\{\{[^{}]*\}\}|\{[^{}]*\}|%\([a-z_]+\)[sd]|%[sd]|\$\{[^{}]*\}"  # placeholders
    r"|https?://[!-~]*[\w/]|[\w.+-]+@[a-z\d-]+(?:\.[a-z]+)+",  # addresses
    re.ASCII,
)
_EMOJI = re.compile("[\u2600-\u27bf\U0001f300-\U0001faff]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SPELLED = 12
"""Numbers up to this one may be a numeral in one language and a word in another ("March", "three" and 3)."""


def _row_faults(row: Row) -> Iterator[str]:
    copied: tuple[Counter[str], Counter[str]] | None = None
    for index, language in enumerate(LANGUAGES):
        texts = dict.fromkeys((row.standard[index], *row.sources[index]))
        if len({text.casefold() for text in row.sources[index]}) < len(row.sources[index]):
            yield f"{language}: a wording is listed twice"
        for text in texts:
            if fault := _script_fault(text, language, row):
                yield f"{language}: {fault} in {text!r}"
            marks = _marks(text)
            copied = copied or marks
            if marks != copied:
                missing, extra = (
                    sorted(((a[0] - b[0]) + (a[1] - b[1])).elements()) for a, b in ((copied, marks), (marks, copied))
                )
                yield f"{language}: {text!r} lacks {missing} and has {extra} beside the English standard"


def _script_fault(text: str, language: str, row: Row) -> str | None:
    plain = _COPIED.sub("", text)
    if match := _HAS_FOREIGN[language].search(plain):
        return f"the letter {match.group()!r} of another language"
    if codec := _CODECS.get(language):
        for char in re.findall(f"[{_HAN}]", plain):
            if char not in _COMMON_OUTSIDE_CODECS[language] and not char.encode(codec, "ignore"):
                return f"the character {char!r}, which the language does not use"
    if language == "en" or _HAS_OWN[language].search(plain):
        return None
    english = {word.casefold() for wording in (row.standard[0], *row.sources[0]) for word in _LATIN.findall(wording)}
    foreign = [word for word in _LATIN.findall(plain) if not word.isupper() and word.casefold() not in english]
    return f"no letter of the language (only {foreign[0]!r})" if foreign else None


def _marks(text: str) -> tuple[Counter[str], Counter[str]]:
    """What every language must hold alike: copied stretches and emoji, and numbers over `_SPELLED`."""
    copied = Counter(_COPIED.findall(text))
    rest = _COPIED.sub(" ", text)
    copied.update(_EMOJI.findall(rest))
    numbers = _NUMBER.findall(unicodedata.normalize("NFKC", rest))
    return copied, Counter(number for number in numbers if not number.isdigit() or int(number) > _SPELLED)


def _contradictions(rows: Iterable[Row]) -> Iterator[str]:
    """Rows that repeat another row, and sources that have two different standard translations."""
    seen: dict[tuple[str, ...], Row] = {}
    meanings: dict[tuple[str, str], Row] = {}
    for row in rows:
        other = seen.setdefault(tuple(key(text) for text in row.standard), row)
        if other is not row:
            yield f"{row.name}: repeats {other.name}: {row.standard}"
            continue
        for index, language in enumerate(LANGUAGES):
            for text in row.sources[index]:
                other = meanings.setdefault((language, key(text)), row)
                if other is row:
                    continue
                for target in range(len(LANGUAGES)):
                    if target != index and other.standard[target] != row.standard[target]:
                        yield (
                            f"{row.name}: {language} {text!r} is {LANGUAGES[target]} {row.standard[target]!r} here and "
                            f"{other.standard[target]!r} in {other.name}"
                        )
                        break


def main(arguments: list[str]) -> int:
    """Prints every fault and the counts of the rows by file; 1 if there are faults."""
    rows, faults = survey(Path(arguments[0]) if arguments else data_dir())
    for fault in faults:
        sys.stdout.write(f"{fault}\n")
    for file, count in Counter(row.file for row in rows.rows).items():
        sys.stdout.write(f"{count:6} {file}\n")
    sys.stdout.write(f"{len(rows.lines)} lines, {len(rows.words)} words, {len(faults)} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
