"""Before the model: languages are resolved, documents taken apart into segments, segments encoded as prompts.

Everything here is done piece by piece, when it is asked for: between two jobs and between two segments the work is
bounded, however long the text is, so that a caller can give control back to the event loop. Nothing runs here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count

from dragoman import languages
from dragoman.errors import InvalidRequest, UnsupportedLanguage
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable
from dragoman.prompts.profile import NO_OPTIONS
from dragoman.text import capitals, checks, comparisons, document, marks
from dragoman.text.capitals import CapitalsWriter
from dragoman.text.comparisons import CheckContext
from dragoman.text.detect import Detector
from dragoman.text.glossary import Glossary
from dragoman.text.html import TagRules
from dragoman.text.marks import Block, Mark, Piece, Verbatim
from dragoman.text.plain import icu_plural_categories_missing
from dragoman.text.segments import Segment, cut, sentences
from dragoman.text.spans import has_letters
from dragoman.types import EngineSequence, PromptOptions, TranslationRequest, WarningCode

MARGIN_TOKENS = 64  # that a short text's output may need beyond its ratio
MIN_SEGMENT_TOKENS = 16
SHORT_SEGMENT_TOKENS = 64
UNDETERMINED = "und"  # BCP-47's tag for an unknown language
SAMPLE_CHARACTERS = 2000
"""Of a document with markup, the text in which its language is detected."""

ANY_TERMS, ANY_CONTEXT = PromptOptions(terms=(("term", "translation"),)), PromptOptions(context="context")
MAX_TERMS_GROWTH = 20
"""How many times as long as a segment the translations of its terms may be."""
SMALL_GLOSSARY = 200
"""Terms that are compiled on the event loop, in some milliseconds."""

MAX_GLOSSARIES = 16
"""Stored glossaries that are kept in memory."""

MAX_TERMS = 32
"""The most glossary terms in one prompt."""

CONTEXT_SENTENCES = 2
CONTEXT_CHARACTERS = 300
"""The most source sentences before a segment, and their characters, that are given as its context."""


@dataclass(frozen=True, slots=True)
class TextJob:
    """One text with its languages. `segments` is an iterator: each is made when it is asked for; None: nothing yet."""

    index: int
    text: str
    source: str
    detected: bool
    request: TranslationRequest
    segments: Iterator[Segment | None]
    check_context: CheckContext
    glossary: Glossary | None = None
    undetermined: bool = False  # the language was to be detected and could not be
    confidence: float = 1.0  # of the detection
    forced_tokens: int | None = None  # output tokens of each segment, with dummy weights
    notes: tuple[
        WarningCode, ...
    ] = ()  # of the request: options that the model's profile has no prompt for, and the like


@dataclass(frozen=True, slots=True)
class Form:
    """How a segment is given to the model. The default is that of the first attempt."""

    words: bool = True  # words to keep are shown as they are; False: as marks
    context: bool = True  # with the sentences before it, where the profile can
    sampled: bool = False  # chosen at random, with a fixed seed: greedy decoding would give the same again


FIRST = Form()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A segment as one prompt gives it to the model: what the prompt is made from, and its output is read with."""

    segment: Segment
    form: Form
    shown: str  # the segment's text in this form
    options: PromptOptions


class Planner:
    """Makes jobs and sequences for one model whose prompt and output share `max_model_len` tokens."""

    def __init__(
        self, prompts: PromptEncoder, lengths: LengthTable, max_model_len: int, *, forced_lengths: bool = False
    ) -> None:
        self.served = tuple(prompts.profile.languages)
        self.max_model_len = max_model_len
        self.forced_lengths = forced_lengths  # dummy weights: no output ends by itself
        self._prompts = prompts
        self._lengths = lengths
        self.detector = Detector(self.served)
        self._numbers = count()
        self._glossaries: dict[tuple[object, str], Glossary] = {}  # stored ones, by their key and language
        self._honoured: dict[tuple[str, str, PromptOptions], bool] = {}
        self._sampled = replace(prompts.sampling, temperature=0.5, top_p=0.9, seed=1)

    # ---- jobs and segments

    async def glossary(self, request: TranslationRequest) -> Glossary | None:
        """The request's glossary, compiled; a large one in a thread, and a stored one once."""
        if not request.glossary:
            return None
        language = request.source or UNDETERMINED
        key = (request.glossary_key, language)
        if request.glossary_key is not None and key in self._glossaries:
            return self._glossaries[key]
        if len(request.glossary) <= SMALL_GLOSSARY:
            glossary = Glossary(request.glossary, language)
        else:
            glossary = await asyncio.to_thread(Glossary, request.glossary, language)
        if request.glossary_key is not None:
            while len(self._glossaries) >= MAX_GLOSSARIES:
                self._glossaries.pop(next(iter(self._glossaries)))
            self._glossaries[key] = glossary
        return glossary

    def jobs(self, request: TranslationRequest, glossary: Glossary | None = None) -> Iterator[TextJob]:
        """One job for each text, made when it is asked for. Raises `UnsupportedLanguage` or `InvalidRequest`."""
        target = self.served_tag(request.target, "target")
        source = self.served_tag(request.source, "source") if request.source else None
        # Two clients may send the same id, and an engine takes no two sequences of one: hence the number.
        unique_id = f"{request.request_id}-{next(self._numbers)}"
        request = replace(request, target=target, source=source, request_id=unique_id)
        for index, text in enumerate(request.texts):
            yield self._job(index, text, request, glossary)

    def served_tag(self, tag: str, param: str) -> str:
        """The model's own tag for a language that a caller named. Raises `UnsupportedLanguage`."""
        try:
            found = languages.match(languages.normalise(tag), self.served)
        except UnsupportedLanguage as error:
            raise UnsupportedLanguage(error.message, param=param) from None
        if found is None:
            raise UnsupportedLanguage(
                f"the model does not serve {tag!r}; it serves {', '.join(self.served)}", param=param
            )
        return found

    def _job(self, index: int, text: str, request: TranslationRequest, glossary: Glossary | None) -> TextJob:
        source = request.source
        detected = source is None
        undetermined, confidence = False, 1.0
        rules = TagRules(request.ignore_tags, request.splitting_tags, request.non_splitting_tags)
        pieces = document.pieces(text, request.format, request.keep, rules)
        if source is None:
            sample = text
            if request.format != "text":
                sample, parsed = _sample(pieces)
                pieces = chain(parsed, pieces)
            detection = self.detector.detect(sample)
            source, confidence = detection.language, detection.confidence
            undetermined = source is None and (detection.has_letters or has_letters(sample))
        job = TextJob(
            index,
            text,
            source or UNDETERMINED,
            detected,
            request,
            iter(()),
            CheckContext(source, request.target, self.detector),
            glossary,
            undetermined,
            confidence,
        )
        if source is None or source == request.target:
            return job
        if not self._prompts.profile.serves(source, request.target):
            raise UnsupportedLanguage(f"the model does not translate from {source} to {request.target}", param="target")
        budget = self._budget(job)
        if request.forced_output_tokens is not None:  # the caller's length, shared evenly among the segments
            split = tuple(self._segments(job, pieces, budget))
            number = sum(segment is not None and segment.translatable for segment in split)
            forced = max(round(request.forced_output_tokens[index] / max(number, 1)), 1)
            return replace(job, segments=iter(split), forced_tokens=forced)
        return replace(job, segments=self._segments(job, pieces, budget), notes=self._notes(job))

    def _notes(self, job: TextJob) -> tuple[WarningCode, ...]:
        request = job.request
        plural = request.format == "text" and "plural" in job.text
        missing = plural and icu_plural_categories_missing(job.text, request.target)
        notes: tuple[WarningCode, ...] = (checks.PLURAL_CATEGORIES,) if missing else ()
        asked: dict[str, WarningCode] = {}
        if request.context:
            asked["context"] = checks.CONTEXT_IGNORED
        if request.formality in ("more", "less"):
            asked["formality"] = checks.FORMALITY_IGNORED
        if request.instructions:
            asked["instructions"] = checks.INSTRUCTIONS_IGNORED
        if not asked:
            return notes
        honoured = self._prompts.profile.honours(job.source, request.target, _request_options(request))
        return (*notes, *(code for name, code in asked.items() if name not in honoured))

    def _honours(self, job: TextJob, options: PromptOptions) -> bool:
        """Whether the model's prompt for this direction can express all of the options."""
        key = (job.source, job.request.target, options)
        if key not in self._honoured:
            honoured = self._prompts.profile.honours(job.source, job.request.target, options)
            self._honoured[key] = honoured == options.given
        return self._honoured[key]

    def _segments(self, job: TextJob, pieces: Iterable[Piece | None], budget: int) -> Iterator[Segment | None]:
        """Literals and segments of a document, in order."""
        with_context = self._honours(job, ANY_CONTEXT)
        before = ""
        for piece in pieces:
            if piece is None:
                yield None
                continue
            if isinstance(piece, Verbatim):
                yield Segment(piece.text, False, structural=True)
                continue
            for segment in self._cut(job, piece, budget):
                if not with_context:
                    yield segment
                    continue
                yield replace(segment, before=before)
                before = _last_sentences(f"{before} {marks.plain(segment.text)}".strip(), job.source)

    def _cut(self, job: TextJob, block: Block, budget: int) -> Iterator[Segment]:
        """A block's segments, with the glossary's terms as marks where the model's prompt cannot have them.

        A term in a segment in capitals is a mark too, so that its translation stays in the glossary's case.
        """
        marked = job.glossary is not None and not self._honours(job, ANY_TERMS)
        whole = Segment(block.text, True, block.marks, block.writer)
        for part in cut(block.text, job.source, budget, self._prompts.tokenizer.count):
            segment = self._as_sentence(job, whole.part(part.text, translatable=part.translatable))
            in_capitals = segment.writer is not whole.writer
            yield self.with_terms_marked(job, segment) if marked or in_capitals else segment

    def _as_sentence(self, job: TextJob, segment: Segment) -> Segment:
        """The segment in sentence case, to be written in capitals, where it is in capitals and the profile says so."""
        if not (segment.translatable and self._prompts.profile.capitals_as_sentences):
            return segment
        text = capitals.as_sentence(segment.text, job.source)
        if text is None:
            return segment
        return replace(segment, text=text, writer=CapitalsWriter(job.request.target, segment.writer))

    def cut(self, job: TextJob, block: Block) -> tuple[Segment, ...]:
        """The segments of a block that is translated apart from the text around it, such as an attribute's value."""
        return tuple(self._cut(job, block, self._budget(job)))

    def _budget(self, job: TextJob) -> int:
        """Source tokens that fit a prompt together with the output they may need."""
        budget = int(self._window(job) / (1 + 2 * self._lengths.ratio(job.source, job.request.target)))
        if budget < MIN_SEGMENT_TOKENS:
            raise InvalidRequest(
                "context, instructions and glossary leave no space for the text in the model's window of "
                f"{self.max_model_len} tokens",
                param="context",
            )
        return min(budget, self._prompts.profile.max_source_tokens or budget)

    def _window(self, job: TextJob) -> int:
        """Tokens that source and output share, without the rest of the prompt and a margin."""
        request = job.request
        overhead = self._prompts.overhead(job.source, request.target, _request_options(request))
        context = CONTEXT_CHARACTERS // 2 if self._honours(job, ANY_CONTEXT) else 0
        return self.max_model_len - overhead - MARGIN_TOKENS - context

    def smaller(self, job: TextJob, segment: Segment) -> tuple[Segment, ...]:
        """A segment split into quarters, between sentences where there are any; a short sentence is one part."""
        count = self._prompts.tokenizer.count
        tokens = count(segment.text)
        if tokens <= SHORT_SEGMENT_TOKENS and len(sentences(segment.text, job.source)) == 1:
            return (segment,)
        found = cut(segment.text, job.source, max(tokens // 4, MIN_SEGMENT_TOKENS), count)
        return tuple(segment.part(part.text, translatable=part.translatable) for part in found)

    # ---- sequences

    def attempt(self, job: TextJob, segment: Segment, form: Form = FIRST) -> Attempt:
        """The segment in a form, with the options and the glossary's terms that its prompt has."""
        shown = segment.text
        if form.words and segment.marks:
            words = marks.with_words(segment.text, segment.marks)
            if self._fits(job, segment, words):
                shown = words
            else:
                form = replace(form, words=False)
        terms = job.glossary.occurring(segment.text)[:MAX_TERMS] if job.glossary else ()
        context = "\n".join(filter(None, (job.request.context, segment.before if form.context else "")))
        with_marks = bool(segment.marks) and "<" in shown
        options = _request_options(job.request)
        if context or terms or with_marks:
            options = replace(options, context=context or None, terms=terms, marks=with_marks)
        return Attempt(segment, form, shown, options)

    def _fits(self, job: TextJob, segment: Segment, shown: str) -> bool:
        """Whether a segment, which was cut with marks in it, fits the window with the words in their place."""
        if len(shown) - len(segment.text) <= MARGIN_TOKENS // 4:
            return True
        tokens = self._prompts.tokenizer.count(shown)
        return tokens * (1 + self._lengths.ratio(job.source, job.request.target)) <= self._window(job)

    def sequence(self, job: TextJob, part: str, attempt: Attempt, *, limit_factor: int = 1) -> EngineSequence:
        """The engine's work for one segment; `limit_factor` times the usual limit of its output."""
        request = job.request
        prompt = self._prompts.encode(attempt.shown, job.source, request.target, attempt.options)
        available = max(self.max_model_len - len(prompt.token_ids), 1)
        if self.forced_lengths:
            ratio = self._lengths.ratio(job.source, request.target)
            max_tokens = min(job.forced_tokens or max(round(prompt.source_tokens * ratio), 1), available)
        else:
            limit = self._lengths.max_tokens(job.source, request.target, prompt.source_tokens, available)
            max_tokens = min(limit * limit_factor, available)
        return EngineSequence(
            f"{request.request_id}.{job.index}.{part}",
            prompt.token_ids,
            max_tokens,
            self._sampled if attempt.form.sampled else self._prompts.sampling,
            forced=self.forced_lengths,
            source_tokens=prompt.source_tokens,
        )

    def with_twice_the_limit(self, sequence: EngineSequence) -> EngineSequence | None:
        """The same again, with an output of up to twice as many tokens; None where the window has no more."""
        available = self.max_model_len - len(sequence.prompt_token_ids)
        more = min(2 * sequence.max_tokens, available)
        if more <= sequence.max_tokens or sequence.forced:
            return None
        return replace(sequence, id=f"{sequence.id}.again", max_tokens=more)

    def canonical(self, job: TextJob, output: str, attempt: Attempt) -> str:
        """A model's output as a text with the segment's marks, whatever the form in which the model was given them."""
        segment = attempt.segment
        text = self._prompts.answer(output, attempt.shown, job.source, job.request.target, attempt.options)
        if segment.marks or "<" in text:
            text = marks.normalised(text)
            text = marks.from_words(text, segment.marks) if attempt.form.words else text
            text = marks.without_invented(segment.text, text)
        return text

    def with_terms_marked(self, job: TextJob, segment: Segment) -> Segment:
        """The segment with the glossary's terms as marks, which stand for their translations: no model can miss them.

        Translations that are far longer than the segment are not put in: a short text would become a very long one.
        """
        any_case = isinstance(segment.writer, CapitalsWriter)
        if job.glossary is None or not (found := job.glossary.spans(segment.text, any_case=any_case)):
            return segment
        if sum(len(translation) for _, _, translation in found) > 100 + MAX_TERMS_GROWTH * len(segment.text):
            return segment
        return _with_marks(segment, found)

    def with_numbers_marked(self, segment: Segment, numbers: Collection[str]) -> Segment:
        """The segment with these numbers as marks."""
        found: list[tuple[int, int, str]] = []
        at = 0
        for part, is_mark in marks.parts(segment.text):
            if not is_mark:
                found += ((at + a, at + b, part[a:b]) for a, b in comparisons.number_spans(part, numbers))
            at += len(part)
        return _with_marks(segment, found)


def _with_marks(segment: Segment, found: Iterable[tuple[int, int, str]]) -> Segment:
    """The segment with marks from start to stop of each of `found`, which stand for its third."""
    own = list(segment.marks)
    writer = segment.writer.notation if isinstance(segment.writer, CapitalsWriter) else segment.writer
    written: list[str] = []
    at = 0
    for start, stop, text in found:
        own.append(Mark(writer(text) if writer else text, word=True))
        written += [segment.text[at:start], f"<x{len(own)}/>"]
        at = stop
    text, renumbered = marks.local("".join([*written, segment.text[at:]]), own)
    return replace(segment, text=text, marks=renumbered)


def _request_options(request: TranslationRequest) -> PromptOptions:
    """What all prompts of a request have."""
    if not (request.context or request.instructions or request.formality != "default"):
        return NO_OPTIONS
    return PromptOptions(context=request.context, formality=request.formality, instructions=request.instructions)


def _sample(pieces: Iterable[Piece | None]) -> tuple[str, list[Piece | None]]:
    """The first characters of a document that are to be translated, and the pieces that were read for them."""
    found: list[str] = []
    parsed: list[Piece | None] = []
    length = 0
    for piece in pieces:
        parsed.append(piece)
        if isinstance(piece, Block):
            found.append(marks.plain(piece.text))
            length += len(piece.text)
        if length > SAMPLE_CHARACTERS:
            break
    return "\n".join(found), parsed


def _last_sentences(text: str, language: str) -> str:
    """The end of a text: whole sentences where they are short enough."""
    last = sentences(text[-CONTEXT_CHARACTERS:], language)[-CONTEXT_SENTENCES:]
    return "".join(last).strip()
