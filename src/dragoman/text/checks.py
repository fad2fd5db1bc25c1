"""Checks of a translation against its source that need no knowledge of either language.

A check that fails becomes a warning for the client, or a reason to translate a segment again: the caller decides. Every
check is linear in the lengths of source and output, and looks at one segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from dragoman import languages
from dragoman.text.answers import is_answered
from dragoman.text.commentary import has_commentary, is_refusal
from dragoman.text.comparisons import (
    CheckContext,
    CopiedLetters,
    both_sentence_ends,
    is_copied,
    is_empty,
    is_wrong_language,
    length_faults,
    line_breaks_kept,
    may_be_equal,
    numbers_lost,
    numbers_repeated,
    placeholders_lost,
    repeats,
    repeats_sentence,
    too_few_sentences,
)
from dragoman.text.copies import copied
from dragoman.types import Example, TextPlace, TranslationWarning, WarningCode
from wholetext.markup import marks
from wholetext.markup.segments import sentences

EMPTY_OUTPUT: Final = "empty_output"
REFUSAL: Final = "refusal"
ANSWERED: Final = "answered"
REPETITION: Final = "repetition"
WRONG_LANGUAGE: Final = "wrong_language"
SOURCE_COPIED: Final = "source_copied"
COPIED_EXAMPLE: Final = "copied_example"
LENGTH_LIMIT: Final = "length_limit"
SENTENCES_DROPPED: Final = "sentences_dropped"
LENGTH_OUT_OF_BOUNDS: Final = "length_out_of_bounds"
COMMENTARY: Final = "commentary"
PLACEHOLDERS_LOST: Final = "placeholders_lost"
MARKS_MOVED: Final = "marks_moved"
NUMBERS_CHANGED: Final = "numbers_changed"
TERMS_MISSING: Final = "terms_missing"
LINE_BREAKS_LOST: Final = "line_breaks_lost"
PLURAL_CATEGORIES: Final = "plural_categories"
FORMALITY_IGNORED: Final = "formality_ignored"
CONTEXT_IGNORED: Final = "context_ignored"
INSTRUCTIONS_IGNORED: Final = "instructions_ignored"
EXAMPLES_IGNORED: Final = "examples_ignored"
LANGUAGE_UNDETERMINED: Final = "language_undetermined"
LANGUAGE_NOT_SERVED: Final = "language_not_served"
LANGUAGE_DOUBTFUL: Final = "language_doubtful"
LOW_CONFIDENCE: Final = "low_confidence"

WARNING_CODES: Mapping[WarningCode, str] = MappingProxyType(
    {
        EMPTY_OUTPUT: "The model returned no words.",
        REFUSAL: "The model refused to translate, or answered instead.",
        ANSWERED: "The model seems to have answered the text, or done what it says, instead of translating it.",
        REPETITION: "The output repeats a part of itself; the translation may be incomplete.",
        WRONG_LANGUAGE: "The translation is not in the target language, or not in its script.",
        SOURCE_COPIED: "The translation is the same as the source; it may not have been translated.",
        COPIED_EXAMPLE: "The translation is that of an example, or has names or numbers of one, instead of the source's.",
        LENGTH_LIMIT: "The output reached its length limit; the translation may be incomplete.",
        SENTENCES_DROPPED: "The translation has fewer sentences than the source; some may be missing.",
        LENGTH_OUT_OF_BOUNDS: "The translation is much shorter or longer than the source.",
        COMMENTARY: "The translation has comments of the model, such as a preamble, a note or the source once more.",
        PLACEHOLDERS_LOST: "Placeholders, tags, URLs or other things to keep are not in the translation.",
        MARKS_MOVED: "The model lost tags or placeholders; they were put back where they are in the source.",
        NUMBERS_CHANGED: "Numbers of the source are not in the translation, or are there more often.",
        TERMS_MISSING: "Terms of the glossary are not translated as it says.",
        LINE_BREAKS_LOST: "The translation does not have the line breaks of the source.",
        PLURAL_CATEGORIES: "The target language has plural categories that the message lacks.",
        FORMALITY_IGNORED: "The model cannot be given a formality; it was ignored.",
        CONTEXT_IGNORED: "The model cannot be given a context; it was ignored.",
        INSTRUCTIONS_IGNORED: "The model cannot be given instructions; they were ignored.",
        EXAMPLES_IGNORED: "The model cannot be given examples; they were ignored.",
        LANGUAGE_UNDETERMINED: "The source language could not be detected; the text is returned unchanged.",
        LANGUAGE_NOT_SERVED: "The text is in a language that the model does not translate; it is returned unchanged.",
        LANGUAGE_DOUBTFUL: "The text may be in a language that the model does not translate; give its language.",
        LOW_CONFIDENCE: "The model was unsure; the translation may be wrong.",
    }
)
"""Every code that a warning may have, and what it means; the worst first."""

SEVERITY: Mapping[WarningCode, int] = MappingProxyType({code: place for place, code in enumerate(WARNING_CODES)})
"""0 is the worst."""

_MAX_LISTED = 5
_MAX_PLACES = 100
"""Places that a warning names, and sentences of a segment among which they are looked for."""
_MAX_NAMED = 12
"""Languages that a message names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check that failed. `missing`: what the output lacks, in the source's order, then numbers that it has too often."""

    code: WarningCode
    missing: tuple[str, ...] = ()


def findings(source: str, output: str, context: CheckContext) -> tuple[Finding, ...]:
    """Return the failed checks of one segment's translation, worst first. Both texts are without marks (`marks.plain`)."""
    if is_empty(source, output):
        return (Finding(EMPTY_OUTPUT),)
    found: list[Finding] = []
    if is_refusal(source, output):
        found.append(Finding(REFUSAL))
    loops = repeats(source, output) or repeats_sentence(source, output)
    if loops:
        found.append(Finding(REPETITION))
    elif is_answered(source, output, context):
        found.append(Finding(ANSWERED))
    if is_copied(source, output, context):
        found.append(Finding(SOURCE_COPIED))
    elif is_wrong_language(source, output, context):
        found.append(Finding(WRONG_LANGUAGE))
    if not loops:
        found += [Finding(code) for code in length_faults(source, output)]
    if has_commentary(source, output, context.target_language):
        found.append(Finding(COMMENTARY))
    found += _lost(source, output)
    return worst_first(found) if found else ()


def of_examples(source: str, output: str, examples: Sequence[Example]) -> tuple[Finding, ...]:
    """Return what an output has from an example of its prompt, if it has anything. Source and output are without marks."""
    pairs = [(marks.plain(one.source), marks.plain(one.translation)) for one in examples]
    theirs = copied(source, output, pairs)
    return () if theirs is None else (Finding(COPIED_EXAMPLE, theirs),)


def _lost(source: str, output: str) -> Iterator[Finding]:
    if missing := placeholders_lost(source, output):
        yield Finding(PLACEHOLDERS_LOST, missing)
    if changed := (*numbers_lost(source, output), *numbers_repeated(source, output)):
        yield Finding(NUMBERS_CHANGED, changed)
    if not line_breaks_kept(source, output):
        yield Finding(LINE_BREAKS_LOST)


def badness(found: Iterable[Finding]) -> tuple[int, ...]:
    """Return a sort key, smaller for the better output: the worst findings are compared first, then the next ones."""
    worst_first = sorted((SEVERITY[one.code], -len(one.missing)) for one in found)
    return tuple(value for severity, missing in worst_first for value in (len(WARNING_CODES) - severity, -missing))


def worst_first(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Remove duplicates, and sort by severity."""
    return tuple(sorted(dict.fromkeys(found), key=lambda one: SEVERITY[one.code]))


def places_of(
    source: str, output: str, found: Iterable[Finding], context: CheckContext, whole: TextPlace
) -> Iterator[tuple[WarningCode, TextPlace]]:
    """Yield the place of each finding of a segment at `whole`: its sentences, each of which has it by itself.

    It is the segment as a whole where source and output have not as many sentences, or where no sentence has the finding.
    """
    pairs = _sentence_pairs(source, output, context, whole) if whole.source_start is not None else []
    narrow: list[tuple[WarningCode, TextPlace]] = [
        (one.code, place) for ours, theirs, place in pairs for one in findings(ours, theirs, context)
    ]
    listed: list[WarningCode] = [each.code for each in found]
    for code in dict.fromkeys(listed):
        own = [place for other, place in narrow if other == code]
        for place in own or [whole]:
            yield code, place


def _sentence_pairs(
    source: str, output: str, context: CheckContext, whole: TextPlace
) -> list[tuple[str, str, TextPlace]]:
    """Sentences of a segment with their translations; nothing where their numbers differ, or there is but one."""
    if (len(source), len(output)) != ((whole.source_end or 0) - (whole.source_start or 0), whole.end - whole.start):
        return []  # they do not stand in the texts as they are
    ours, theirs = sentences(source, context.source_language), sentences(output, context.target_language)
    if len(ours) != len(theirs) or not 1 < len(ours) <= _MAX_PLACES:
        return []
    pairs: list[tuple[str, str, TextPlace]] = []
    at, start = whole.source_start or 0, whole.start
    for one, other in zip(ours, theirs, strict=True):
        place = TextPlace(start, start + len(other.rstrip()), at, at + len(one.rstrip()))
        pairs.append((one.strip(), other.strip(), place))
        at, start = at + len(one), start + len(other)
    return pairs


class TextChecks:
    """The checks of one text, segment by segment. `add` is linear in the segment's length."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        source_language = context.source_language
        self._may_be_equal = source_language is not None and may_be_equal(source_language, context.target_language)
        self._missing: dict[WarningCode, list[str]] = {}
        self._places: dict[WarningCode, list[TextPlace]] = {}
        self._sentences = [0, 0]  # of the source and of the output
        self._copied = CopiedLetters()

    def add(
        self, source: str, output: str, found: Sequence[Finding] | None = None, place: TextPlace | None = None
    ) -> None:
        """Add a segment and its translation. `found`: its findings, if the caller has them; `place`: where it stands."""
        found = findings(source, output, self._context) if found is None else found
        for one in found:
            self._missing.setdefault(one.code, []).extend(one.missing)
        if found and place is not None:
            for code, at in places_of(source, output, found, self._context, place):
                self._places.setdefault(code, []).append(at)
        for index, ends in enumerate(both_sentence_ends(source, output)):
            self._sentences[index] += ends
        if not self._may_be_equal:
            self._copied.add(source, output)

    def warnings(self) -> tuple[TranslationWarning, ...]:
        """Return the warnings of all segments together, in the order of `WARNING_CODES`.

        `source_copied` is decided over the whole text, because a single segment may be a name, which stays the same.
        """
        found = set(self._missing) - {SOURCE_COPIED}
        if too_few_sentences(*self._sentences):
            found.add(SENTENCES_DROPPED)
        if self._copied.all_of_it():
            found.add(SOURCE_COPIED)
        numbers = self._missing.get(NUMBERS_CHANGED, [])
        missing = self._missing | {NUMBERS_CHANGED: list(dict.fromkeys(numbers))}
        return tuple(
            warning(code, tuple(missing.get(code, ())), tuple(self._places.get(code, ())))
            for code in WARNING_CODES
            if code in found
        )


def warning(code: WarningCode, missing: tuple[str, ...] = (), places: tuple[TextPlace, ...] = ()) -> TranslationWarning:
    """Return the warning with this code. The message names the first few of `missing`."""
    message = WARNING_CODES[code]
    if missing:
        more = len(missing) - _MAX_LISTED
        listed = ", ".join(missing[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
        message = f"{message.removesuffix('.')}: {listed}."
    return TranslationWarning(code, message, missing, places[:_MAX_PLACES])


def language_not_served(tag: str, served: Sequence[str]) -> TranslationWarning:
    """Return the warning that a text is in a language which is none of those served, with the names of all of them."""
    message = f"The text is in {language_named(tag, served)}. It is returned unchanged."
    return TranslationWarning(LANGUAGE_NOT_SERVED, message)


def language_named(tag: str, served: Sequence[str]) -> str:
    """Return what is said of a language that is not served: "German; this model translates English and Japanese"."""
    return f"{languages.name(tag)}; {_translated_languages(tuple(served))}"


def language_doubtful(tag: str, taken: str) -> TranslationWarning:
    """Return the warning that a text may be in a language which is not served; it was `taken` for another one."""
    message = f"The text may be in {languages.name(tag)}, which the model does not translate; "
    return TranslationWarning(
        LANGUAGE_DOUBTFUL, f"{message}it was taken for {languages.name(taken)}. Give its language."
    )


@lru_cache(maxsize=16)
def _translated_languages(served: tuple[str, ...]) -> str:
    names = [*dict.fromkeys(map(languages.name, served))]
    if len(names) > _MAX_NAMED:
        return f"this model translates {len(names)} other languages"
    return f"this model translates {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"
