"""Finds words that the project replaces by the field's terms: `python scripts/check_words.py [PATH ...]`.

Looks at every text file that git tracks or would track (identifiers, comments, docstrings, messages, prose, file names)
for the words of `words.toml`, whole or as parts of `snake_case` and `CamelCase`. Prints `file:line: word -> use ...` and
exits with 1 where it found any. Not looked at: data (`exclude` in `words.toml`), fenced code blocks in Markdown, and
quoted examples, which are marked so:

    TEXT = "Tell me a story."  # words: example
    # words: off              (in Markdown and HTML <!-- words: off -->)
    ... lines of examples ...
    # words: on
"""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_name("words.toml")
SUFFIXES = {".py", ".md", ".html", ".js", ".css", ".json", ".yml", ".yaml", ".toml", ".jinja", ".sh", ".txt", ""}
_GAP = r"[\s#*>/]+"  # white space between the words of a phrase, and what begins a continued comment or quotation
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_OFF = re.compile(r"words: off\b.*?(?:words: on\b|\Z)", re.DOTALL)
_EXAMPLE = re.compile(r"^.*words: example\b.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Term:
    """Forms of one word that is not used, and what to write instead."""

    words: tuple[str, ...]
    use: str
    unless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One occurrence; `line` counts from 1, and is 0 for a file's name."""

    file: str
    line: int
    word: str
    use: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.word} -> use {self.use}"


@dataclass(frozen=True, slots=True)
class WordList:
    """What `words.toml` says."""

    terms: tuple[Term, ...]
    exclude: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path = LIST) -> WordList:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        terms = (Term(tuple(t["words"]), t["use"], tuple(t.get("unless", ()))) for t in data["term"])
        return cls(tuple(terms), tuple(data["exclude"]))

    def excludes(self, file: str) -> bool:
        return any(fnmatch.fnmatch(file, pattern) for pattern in self.exclude)


def _pattern(words: list[str]) -> re.Pattern[str]:
    """Each word alone, or as a part of an identifier: in `word_by`, `byWord2` and `WORD`, not in `swords`."""

    def any_of(forms: list[str]) -> str:
        return "|".join(re.escape(form).replace(r"\ ", _GAP) for form in sorted(forms, key=len, reverse=True))

    lower, title, upper = words, [word[0].upper() + word[1:] for word in words], [word.upper() for word in words]
    return re.compile(
        rf"(?<![A-Za-z])(?:{any_of(lower)})(?![a-z])|(?<![A-Z])(?:{any_of(title)})(?![a-z])|"
        rf"(?<![A-Za-z])(?:{any_of(upper)})(?![A-Za-z])"
    )


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def without_examples(file: str, text: str) -> str:
    """The text with quoted examples, and a Markdown file's code blocks, blanked; lines keep their numbers."""
    if file.endswith(".md"):
        text = _FENCE.sub(_blank, text)
    return _EXAMPLE.sub(_blank, _OFF.sub(_blank, text))


class Checker:
    """A word list, compiled."""

    def __init__(self, words: WordList) -> None:
        self._words = words
        self._term = {" ".join(form.lower().split()): term for term in words.terms for form in term.words}
        self._pattern = _pattern([form for term in words.terms for form in term.words])

    def findings(self, file: str, text: str) -> Iterator[Finding]:
        """What stands in a file of this name with this text."""
        for match in self._pattern.finditer(file):
            yield self._finding(file, 0, match)
        text = without_examples(file, text)
        allowed: dict[str, list[tuple[int, int]]] = {}
        for match in self._pattern.finditer(text):
            for unless in self._term_of(match).unless:
                if unless not in allowed:
                    allowed[unless] = [found.span() for found in re.finditer(unless, text)]
            spans = (span for unless in self._term_of(match).unless for span in allowed[unless])
            if not any(start <= match.start() and match.end() <= end for start, end in spans):
                yield self._finding(file, text.count("\n", 0, match.start()) + 1, match)

    def _term_of(self, match: re.Match[str]) -> Term:
        return self._term[" ".join(re.split(_GAP, match.group().lower()))]

    def _finding(self, file: str, line: int, match: re.Match[str]) -> Finding:
        return Finding(file, line, " ".join(re.split(_GAP, match.group())), self._term_of(match).use)

    def tree(self, root: Path, paths: list[str]) -> Iterator[Finding]:
        """What stands in the files below `root` that git knows or would add."""
        command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for file in sorted(set(filter(None, listed.split("\0")))):
            path = root / file
            if path.suffix not in SUFFIXES or self._words.excludes(file) or not path.is_file() or path.is_symlink():
                continue
            yield from self.findings(file, path.read_text(encoding="utf-8"))


def main() -> int:
    checker = Checker(WordList.read())
    found = list(checker.tree(ROOT, sys.argv[1:]))
    for finding in found:
        print(finding)
    if found:
        files = len({finding.file for finding in found})
        most = ", ".join(f"{word} {n}" for word, n in Counter(f.word.lower() for f in found).most_common(8))
        print(f"{len(found)} words in {files} files to replace (most: {most})", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
