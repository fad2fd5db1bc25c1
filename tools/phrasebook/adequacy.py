"""Adequacy of translations of the independent everyday lines.

The lines lie in ``tools/phrasebook/evaluation/*.jsonl``, one JSON object a line: ``id``, ``topic``,
``texts`` (for each of en, ja, ko and zh a list of references, of which the first is also the source
text), ``checks`` (for each language 1 to 4 groups of alternatives) and, where it helps, ``absent``
(for a language, alternatives that must not occur). A translation is adequate if every group has an
alternative that occurs in it, no absent alternative occurs, it is not much longer than the
references, and it does not repeat itself.

How an alternative matches: both sides are normalised first (NFKC, lower case, plain apostrophes).
In Japanese, Korean and Chinese an alternative is a substring, spaces ignored. In English it is a whole
word or phrase that may carry a regular ending ("visit" matches "visits" and "visiting", not
"visitor"); a trailing ``*`` marks a stem with any ending, and ``n't`` matches inside a word. A leading
``=`` marks an alternative that must be the whole translation, but for an article or "to" in English and
a copula in Japanese and Korean: single words are judged so.

A row may hold ``read``: for a language, translations with the verdict of someone who read them, where the checks say
otherwise. Besides, a translation must deny where the references of all languages do, and ask where they do, and
must not where none does (``sentence_form``).

The references and the checks of both sets were written by one author, and read and corrected by a second
one without translations of a model beside them: 966 of the 1,005 test lines and 288 of the 303 validation
lines got other checks, 9 test lines corrected references.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from tools.phrasebook import sentence_form

LANGUAGES = ("en", "ja", "ko", "zh")
DIRECTIONS = tuple((source, target) for source in LANGUAGES for target in LANGUAGES if source != target)
EVALUATION_FOLDER = Path(__file__).parent / "evaluation"

Translate = Callable[[list[str], str, str], list[str]]
"""Translates texts, given the source and the target language; returns one text for each."""

_ENGLISH_ENDINGS = r"(?:s|es|'s|d|ed|ing|ly|n't|'re|'m|'ve|'ll)?"
_FINAL_PUNCTUATION = " .!?。！？…~～、,;:"
_LONGEST_FACTOR = 3
_LONGEST_EXTRA_CHARACTERS = 10
_WHOLE = {
    "en": re.compile(r"^(?:an?|the|to|some|it's|i'm|i am) "),
    "ja": re.compile(r"(?:です|だ|でした)$"),
    "ko": re.compile(r"(?:입니다|이에요|예요|이다)$"),
    "zh": re.compile(r"^(?:一个|一只|一|我|很)|[了啊]$"),
}
_REPETITION = re.compile(r"(.{2,}?)\1{3,}|(.)\2{5,}", re.DOTALL)
_MOST_GROUPS = 4


class EvaluationFileError(ValueError):
    """A file of evaluation lines that cannot be used: the message names the file and the line."""


@dataclass(frozen=True)
class EvaluationRow:
    """One everyday line in four languages.

    ``texts``: language to references, the first of which is the source text in that language.
    ``checks``: language to groups of alternatives. ``absent``: language to alternatives that must
    not occur in a translation. ``read``: language to translations with a reader's verdict, which goes over the checks.
    """

    id: str
    topic: str
    texts: dict[str, list[str]]
    checks: dict[str, list[list[str]]]
    absent: dict[str, list[str]]
    read: dict[str, dict[str, bool]] = field(default_factory=dict[str, dict[str, bool]])


@dataclass(frozen=True)
class LineResult:
    """The translation of one row in one direction, and what the checks found."""

    row_id: str
    topic: str
    source: str
    target: str
    source_text: str
    translation: str
    adequate: bool
    exact: bool


def load_rows(path: Path) -> list[EvaluationRow]:
    """Reads and validates a file of evaluation lines; raises EvaluationFileError at the first fault."""
    rows: list[EvaluationRow] = []
    ids: set[str] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = _parse_row(json.loads(line))
            if row.id in ids:
                raise ValueError(f"the id {row.id!r} occurs twice")
        except ValueError as error:  # also json.JSONDecodeError
            raise EvaluationFileError(f"{path}, line {number}: {error}") from error
        ids.add(row.id)
        rows.append(row)
    if not rows:
        raise EvaluationFileError(f"{path}: no lines")
    return rows


def adequate(row: EvaluationRow, language: str, translation: str) -> bool:
    """Whether a translation of the row into the language passes the row's content checks, or a reader said so."""
    if (verdict := row.read.get(language, {}).get(translation)) is not None:
        return verdict
    text = normalised(translation)
    references = [normalised(reference) for reference in row.texts[language]]
    longest = max(len(reference) for reference in references)
    if not text or len(text) > _LONGEST_FACTOR * longest + _LONGEST_EXTRA_CHARACTERS:
        return False
    if _REPETITION.search(text) and not any(_REPETITION.search(reference) for reference in references):
        return False
    if any(_occurs(alternative, text, language) for alternative in row.absent.get(language, [])):
        return False
    if not all(any(_occurs(alternative, text, language) for alternative in group) for group in row.checks[language]):
        return False
    return sentence_form.same_form(text, language, _normalised_references(row))


def exact_match(row: EvaluationRow, language: str, translation: str) -> bool:
    """Whether a translation equals a reference but for spaces, case and final punctuation."""
    wanted = {_bare(reference, language) for reference in row.texts[language]}
    return _bare(translation, language) in wanted


def judge(
    rows: Sequence[EvaluationRow],
    translate: Translate,
    directions: Iterable[tuple[str, str]] = DIRECTIONS,
) -> list[LineResult]:
    """Translates every row in every direction, one call a direction, and judges each translation.

    Raises ValueError if ``translate`` returns another number of texts than it was given.
    """
    results: list[LineResult] = []
    for source, target in directions:
        sources = [row.texts[source][0] for row in rows]
        translations = translate(sources, source, target)
        if len(translations) != len(sources):
            raise ValueError(f"{source} to {target}: {len(translations)} translations of {len(sources)} texts")
        results += [
            LineResult(
                row_id=row.id,
                topic=row.topic,
                source=source,
                target=target,
                source_text=text,
                translation=translation,
                adequate=adequate(row, target, translation),
                exact=exact_match(row, target, translation),
            )
            for row, text, translation in zip(rows, sources, translations, strict=True)
        ]
    return results


def summarise(rows: Sequence[EvaluationRow], results: Sequence[LineResult]) -> dict[str, Any]:
    """Figures over all results, by direction ("en-ja"), by target language and by topic.

    Each part holds ``lines`` (number of translations), ``adequacy`` and ``exact_match`` (shares from
    0 to 1) and ``chrf`` (0 to 100: sacrebleu's corpus chrF against all references).
    """
    by_id = {row.id: row for row in rows}
    parts: dict[str, dict[str, list[LineResult]]] = {"direction": {}, "target": {}, "topic": {}}
    for result in results:
        keys = {
            "direction": f"{result.source}-{result.target}",
            "target": result.target,
            "topic": result.topic,
        }
        for name, key in keys.items():
            parts[name].setdefault(key, []).append(result)
    summary: dict[str, Any] = {"all": _figures(by_id, results)}
    for name, groups in parts.items():
        summary[f"by_{name}"] = {key: _figures(by_id, group) for key, group in groups.items()}
    return summary


def normalised(text: str) -> str:
    """NFKC, lower case, plain apostrophes, single spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.replace("’", "'").replace("‘", "'").split())


def chrf(translations: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """sacrebleu's corpus chrF (Popović 2015; character order 6, no words), 0 to 100, each against all its references."""
    from sacrebleu.metrics.chrf import CHRF

    if not translations:
        return 0.0
    most = max(map(len, references))
    # chrF takes the best reference of a line, so that repeating one changes nothing.
    padded = [[texts[min(index, len(texts) - 1)] for texts in references] for index in range(most)]
    return float(CHRF().corpus_score(list(translations), padded).score)


def _figures(by_id: dict[str, EvaluationRow], results: Sequence[LineResult]) -> dict[str, float]:
    if not results:
        return {"lines": 0, "adequacy": 0.0, "exact_match": 0.0, "chrf": 0.0}
    references = [by_id[result.row_id].texts[result.target] for result in results]
    return {
        "lines": len(results),
        "adequacy": sum(result.adequate for result in results) / len(results),
        "exact_match": sum(result.exact for result in results) / len(results),
        "chrf": chrf([result.translation for result in results], references),
    }


def _bare(text: str, language: str) -> str:
    bare = normalised(text).strip(_FINAL_PUNCTUATION)
    return bare if language == "en" else bare.replace(" ", "")


def _normalised_references(row: EvaluationRow) -> dict[str, list[str]]:
    return {language: [normalised(reference) for reference in some] for language, some in row.texts.items()}


def _occurs(alternative: str, text: str, language: str) -> bool:
    if alternative.startswith("="):
        wanted = _bare(alternative[1:], language)
        return _WHOLE[language].sub("", _bare(text, language)) in (wanted, _WHOLE[language].sub("", wanted))
    if language == "en":
        return _english_pattern(normalised(alternative)).search(text) is not None
    return normalised(alternative).replace(" ", "") in text.replace(" ", "")


@cache
def _english_pattern(alternative: str) -> re.Pattern[str]:
    if alternative.startswith("n't"):
        return re.compile(re.escape(alternative))
    stem = re.escape(alternative.removesuffix("*"))
    if alternative.endswith("*"):
        return re.compile(rf"(?<![a-z0-9]){stem}")
    return re.compile(rf"(?<![a-z0-9]){stem}{_ENGLISH_ENDINGS}(?![a-z0-9])")


def _parse_row(value: object) -> EvaluationRow:
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    row = cast(dict[str, Any], value)
    unknown = set(row) - {"id", "topic", "texts", "checks", "absent", "read"}
    if unknown:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    _strings([row.get("id"), row.get("topic")], "id and topic")
    texts: dict[str, list[str]] = {}
    checks: dict[str, list[list[str]]] = {}
    for language in LANGUAGES:
        texts[language] = _strings(_member(row, "texts", language), f"texts.{language}")
        groups = _member(row, "checks", language)
        if not isinstance(groups, list) or not 1 <= len(cast(list[Any], groups)) <= _MOST_GROUPS:
            raise ValueError(f"'checks.{language}' must be a list of 1 to {_MOST_GROUPS} groups")
        checks[language] = [_strings(group, f"checks.{language}") for group in cast(list[Any], groups)]
    absent_field = row.get("absent", {})
    if not isinstance(absent_field, dict) or set(cast(dict[str, Any], absent_field)) - set(LANGUAGES):
        raise ValueError(f"'absent' must map some of {', '.join(LANGUAGES)} to lists of texts")
    absent = {
        language: _strings(group, f"absent.{language}")
        for language, group in cast(dict[str, Any], absent_field).items()
    }
    parsed = EvaluationRow(row["id"], row["topic"], texts, checks, absent, _verdicts(row.get("read", {})))
    for language in LANGUAGES:
        failed = [text for text in texts[language] if not adequate(parsed, language, text)]
        if failed:
            raise ValueError(f"the {language} reference {failed[0]!r} fails its own checks")
    return parsed


def _verdicts(value: object) -> dict[str, dict[str, bool]]:
    read = cast(dict[str, Any], value) if isinstance(value, dict) else {"": value}
    for language, verdicts in read.items():
        if language not in LANGUAGES or not isinstance(verdicts, dict):
            raise ValueError(f"'read' must map some of {', '.join(LANGUAGES)} to translations with a verdict")
        if not all(isinstance(verdict, bool) for verdict in cast(dict[str, Any], verdicts).values()):
            raise ValueError(f"a verdict of 'read.{language}' is neither true nor false")
    return cast(dict[str, dict[str, bool]], read)


def _member(row: dict[str, Any], field: str, language: str) -> object:
    part = row.get(field)
    if not isinstance(part, dict) or language not in part:
        raise ValueError(f"'{field}.{language}' is missing")
    return cast(dict[str, Any], part)[language]


def _strings(value: object, name: str) -> list[str]:
    items = cast(list[Any], value) if isinstance(value, list) else []
    if not items or not all(isinstance(item, str) and item.strip() for item in items):
        raise ValueError(f"{name!r} must be a list of texts that are not empty")
    return cast(list[str], items)
