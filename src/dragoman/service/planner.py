"""Before the model: languages are resolved, documents taken apart into segments, segments encoded as prompts.

Everything here is done piece by piece: between two texts and between two segments the work is bounded, however long the
text is, so that control goes back to the event loop. What happens after the model is in `service.outputs`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, count
from typing import TYPE_CHECKING

from dragoman import languages
from dragoman.errors import InvalidRequest, UnsupportedLanguage
from dragoman.prompts.catalog import reworded_examples
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable, max_output_tokens
from dragoman.prompts.profile import NO_OPTIONS
from dragoman.prompts.tokenizer import most_tokens
from dragoman.service.dispatcher import TimeSlices
from dragoman.text import capitals, checks
from dragoman.text.capitals import CapitalsWriter
from dragoman.text.comparisons import CheckContext
from dragoman.text.detect import Detector
from dragoman.text.glossary import Glossary
from dragoman.text.similar import most_like
from dragoman.types import (
    Chat,
    EngineSequence,
    Example,
    PromptOptions,
    TranslationRequest,
    TranslationWarning,
    WarningCode,
)
from wholetext.markup import document, marks
from wholetext.markup.marks import Block, Mark, Piece, Verbatim
from wholetext.markup.plain import icu_plural_categories_missing
from wholetext.markup.segments import Segment, cut, sentences
from wholetext.markup.spans import has_letters

if TYPE_CHECKING:
    from dragoman.service.memories import CallMemory

MARGIN_TOKENS = 64  # that a short text's output may need beyond its ratio
MIN_SEGMENT_TOKENS = 16
UNDETERMINED = "und"  # BCP-47's tag for an unknown language
SAMPLE_CHARACTERS = 2000
"""Of a document with markup, the text in which its language is detected."""

ANY_TERMS, ANY_CONTEXT = PromptOptions(terms=(("term", "translation"),)), PromptOptions(context="context")
MAX_TERMS_GROWTH = 20
"""How many times as long as a segment the translations of its terms may be."""
SMALL_GLOSSARY = 200
"""Terms that are compiled on the event loop, in some milliseconds."""

MAX_DIRECTIONS = 256
"""Directions with their options (contexts among them) that are kept in memory."""

MAX_GLOSSARIES = 16
"""Stored glossaries that are kept in memory."""

MAX_TERMS = 32
"""The most glossary terms in one prompt."""

MOST_EXAMPLES = 10
"""The most examples in one prompt."""
MOST_EXAMPLE_TOKENS = 1_024
"""The most tokens of all examples in one prompt, and never more than a quarter of the window."""
TOKENS_OF_A_JOINT = 4
"""By which a prompt with one more example may be longer than the example and its turns are alone."""

ALTERNATIVES_TEMPERATURE = 0.8
"""Of sampling another translation than the most probable one."""
RETRY_SEEDS = 1_000
"""What the seed of a sample that is translated again is larger by."""

CHAT_CHARACTERS_OF_A_TOKEN = 20
"""More than a token of a chat has in the mean: longer chats are refused before they are encoded."""
LEAST_CHAT_TOKENS = 512
"""The answer to a chat may always have so many, however short the chat is."""
SMALL_CHAT_CHARACTERS = 20_000
"""Of a chat that is encoded on the event loop, in some milliseconds."""

CONTEXT_SENTENCES = 2
CONTEXT_CHARACTERS = 300
"""The most source sentences before a segment, and their characters, that are given as its context."""
MIN_WORDS_WITH_CONTEXT = 3
"""A segment of fewer words is given no sentences before it: a model may translate these instead."""


@dataclass(frozen=True, slots=True)
class Direction:
    """What a source and a target language, with a request's options, mean for prompts of this model."""

    ratio: float  # output tokens per source token
    window_tokens: int  # that source and output share, without the rest of the prompt and a margin
    budget_tokens: int  # of a segment's source
    takes_context: bool  # the prompt can have the sentences before a segment
    takes_terms: bool  # and a glossary's terms


UNTRANSLATED = Direction(1.0, 0, 0, takes_context=False, takes_terms=False)
"""Of a text whose language is unknown or the target's: it has no segments."""


@dataclass(frozen=True, slots=True)
class SourceLanguage:
    """A text's language, given or detected; None: it could not be detected, or there are no letters."""

    tag: str | None
    confidence: float = 1.0  # of the detection
    unchanged: TranslationWarning | None = None  # why the text is returned as it is
    notes: tuple[TranslationWarning, ...] = ()  # that it is in doubt


@dataclass(frozen=True, slots=True)
class TextJob:
    """One text with its languages. `segments` is an iterator: each is made when it is asked for; None: nothing yet."""

    index: int
    text: str
    source: str
    request: TranslationRequest
    options: PromptOptions  # of all prompts of the request
    direction: Direction
    segments: Iterator[Segment | None]
    check_context: CheckContext
    glossary: Glossary | None = None
    memory: CallMemory | None = None
    takes_examples: bool = False  # the model does, and there may be some: the caller's, or similar entries of memories
    detected: bool = False
    # Why the text is returned as it is: its language was to be detected, and could not be, or is not served.
    unchanged: TranslationWarning | None = None
    confidence: float = 1.0  # of the detection
    forced_tokens: int | None = None  # output tokens of each segment, with dummy weights
    # Of the request: options for which the model's profile has no prompt, and the like; a language that is in doubt.
    notes: tuple[TranslationWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """How a segment is given to the model. The default is that of the first attempt."""

    words: bool = True  # words to keep are shown as they are; False: as marks
    context: bool = True  # with the sentences before it, where the profile can
    sampled: bool = False  # chosen at random, with a fixed seed: greedy decoding would give the same again
    examples: bool = True  # after those that there are for the text
    reworded: bool = False  # by the profile's second form of prompt


FIRST = Form()
ALONE = Form(examples=False)


@dataclass(slots=True)
class Passage:
    """Texts that follow each other, as they are cut into segments, in their order."""

    before: str = ""  # the end of what was cut so far

    def in_context(
        self, segments: Iterable[Segment | None], language: str, note: str = "", *, is_repeated: bool = False
    ) -> Iterator[Segment | None]:
        """Yield a text's segments, each with the note and the sentences before it, which are those of the texts before, too.

        A text that is repeated in the call is given none of these, so that it is translated equally each time. A segment of
        few words is given the note alone.
        """
        note = note[: CONTEXT_CHARACTERS // 2]
        before = "" if is_repeated else self.before
        separator = "\n"
        for segment in segments:
            if segment is None or segment.structural:
                yield segment
                continue
            text = marks.plain(segment.text)
            context = note
            if before and not _is_short(text, language):
                end = _last_sentences(before, language, CONTEXT_CHARACTERS - len(note)) if note else before
                context = f"{note}\n{end}" if note else end
            yield replace(segment, before=context)
            before = _last_sentences(f"{before}{separator}{text}".strip(), language)
            separator = " "
        self.before = _last_sentences(f"{self.before}\n{before}", language) if is_repeated else before


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
        self.max_model_len = max_model_len
        self.forced_lengths = forced_lengths  # dummy weights: no output ends by itself
        self.prompts = prompts
        self.served = tuple(prompts.profile.languages)
        self._lengths = lengths
        self.detector = Detector(self.served)
        self._numbers = count()
        self._glossaries: dict[tuple[object, str], Glossary] = {}  # stored ones, by their key and language
        self._sampled = replace(prompts.sampling, temperature=0.5, top_p=0.9, seed=1)
        self._direction = lru_cache(MAX_DIRECTIONS)(self._make_direction)
        self._example_tokens = min(MOST_EXAMPLE_TOKENS, max_model_len // 4) if prompts.takes_examples else 0

    def _make_direction(self, source: str, target: str, options: PromptOptions, has_examples: bool) -> Direction:
        """Raises `UnsupportedLanguage`, and `InvalidRequest` where the options leave no space for a text.

        A segment leaves space for the examples of a request that `has_examples`. Similar entries of memories, which long
        segments seldom have, get what a segment does not need.
        """
        profile = self.prompts.profile
        if not profile.serves(source, target):
            raise UnsupportedLanguage(f"the model does not translate from {source} to {target}", param="target")
        takes_context = profile.honours(source, target, ANY_CONTEXT) == ANY_CONTEXT.given
        overhead = self.prompts.overhead(source, target, options)
        context_tokens = CONTEXT_CHARACTERS // 2 if takes_context else 0
        window = self.max_model_len - overhead - MARGIN_TOKENS - context_tokens
        ratio = self._lengths.ratio(source, target)
        budget = int(window / (1 + 2 * ratio))  # so that the output may be twice as long as usual
        if budget < MIN_SEGMENT_TOKENS:
            raise InvalidRequest(
                "context, instructions and glossary leave no space for the text in the model's window of "
                f"{self.max_model_len} tokens",
                param="context",
            )
        if has_examples:
            left = int((window - self._example_tokens) / (1 + 2 * ratio))
            budget = max(left, MIN_SEGMENT_TOKENS)
        return Direction(
            ratio,
            window,
            min(budget, profile.max_source_tokens or budget),
            takes_context,
            profile.honours(source, target, ANY_TERMS) == ANY_TERMS.given,
        )

    # ---- texts and their segments

    async def plan(
        self, request: TranslationRequest, pace: TimeSlices, memory: CallMemory | None = None
    ) -> list[TextJob]:
        """Settle the languages and limits of all texts. Raises `UnsupportedLanguage` and `InvalidRequest`."""
        glossary = await self._glossary(request) if request.options.glossary else None
        target = languages.served(request.target, self.served, "target")
        source = languages.served(request.source, self.served, "source") if request.source else None
        # Two clients may send the same id, and an engine takes no two sequences of one: hence the number.
        unique_id = f"{request.request_id}-{next(self._numbers)}"
        request = replace(request, target=target, source=source, request_id=unique_id)
        if request.options.examples and request.format not in ("text", "marks"):
            plain = _without_markup(request)
            request = replace(request, options=replace(request.options, examples=plain))
        given, options = request.options, NO_OPTIONS
        if given.context or given.instructions or given.formality != "default":
            options = PromptOptions(context=given.context, formality=given.formality, instructions=given.instructions)
        jobs, passage = list[TextJob](), Passage()
        times = Counter(request.texts[: request.sampled_from] if request.follows else ())
        for index, text in enumerate(request.texts):
            if not (request.follows and request.follows[index]):
                passage = Passage()
            known = None if request.sample(index) else memory  # which has one translation of a text
            job = self._job(index, text, request, options, glossary, known, passage, is_repeated=times[text] > 1)
            jobs.append(job)
            await pace.pause()
        return jobs

    async def _glossary(self, request: TranslationRequest) -> Glossary:
        """Compile the request's glossary; a large one in a thread, and a stored one once."""
        language = request.source or UNDETERMINED
        key = (request.options.glossary_key, language)
        if request.options.glossary_key is not None and key in self._glossaries:
            return self._glossaries[key]
        if len(request.options.glossary) <= SMALL_GLOSSARY:
            glossary = Glossary(request.options.glossary, language)
        else:
            glossary = await asyncio.to_thread(Glossary, request.options.glossary, language)
        if request.options.glossary_key is not None:
            while len(self._glossaries) >= MAX_GLOSSARIES:
                self._glossaries.pop(next(iter(self._glossaries)))
            self._glossaries[key] = glossary
        return glossary

    def _job(
        self,
        index: int,
        text: str,
        request: TranslationRequest,
        options: PromptOptions,
        glossary: Glossary | None,
        memory: CallMemory | None,
        passage: Passage,
        *,
        is_repeated: bool,
    ) -> TextJob:
        wanted = request.options
        pieces = document.pieces(text, request.format, wanted.keep, wanted.tags)
        found = SourceLanguage(request.source)
        if request.source is None or request.is_source_detected:
            found, pieces = self._detected(text, pieces, request)
        source = found.tag
        direction, notes, forced_tokens = UNTRANSLATED, tuple[TranslationWarning, ...](), None
        segments: Iterator[Segment | None] = iter(())
        if source is not None and source != request.target and found.unchanged is None:
            direction = self._direction(source, request.target, options, bool(wanted.examples))
            note = request.contexts[index] if request.contexts else ""
            segments = self.segments(pieces, source, request, direction, glossary, memory)
            if direction.takes_context:
                segments = passage.in_context(segments, source, note, is_repeated=is_repeated)
            if options is not NO_OPTIONS or "plural" in text or wanted.examples:
                notes = tuple(map(checks.warning, self._notes(text, source, request, options)))
            notes += found.notes
            if request.forced_output_tokens is not None:  # the caller's length, shared evenly among the segments
                made = tuple(segments)
                number = sum(segment is not None and segment.translatable for segment in made)
                forced_tokens = max(round(request.forced_output_tokens[index] / max(number, 1)), 1)
                segments = iter(made)
        return TextJob(
            index,
            text,
            source or UNDETERMINED,
            request,
            options,
            direction,
            segments,
            CheckContext(source, request.target, self.detector),
            glossary,
            memory,
            takes_examples=self.prompts.takes_examples and (memory is not None or bool(wanted.examples)),
            detected=request.source is None or request.is_source_detected,
            unchanged=found.unchanged,
            confidence=found.confidence,
            forced_tokens=forced_tokens,
            notes=notes,
        )

    def _detected(
        self, text: str, pieces: Iterator[Piece | None], request: TranslationRequest
    ) -> tuple[SourceLanguage, Iterator[Piece | None]]:
        """Detect a text's language; return it, and the pieces again. That of the request stays unless another is certain."""
        sample = text
        if request.format != "text":
            sample, parsed = _sample(pieces)
            pieces = chain(parsed, pieces)
        detection = self.detector.detect(sample)
        tag, confidence = detection.language, detection.confidence
        if tag is not None and not detection.is_served:
            return SourceLanguage(tag, confidence, checks.language_not_served(tag, self.served)), pieces
        if request.source is not None:
            return SourceLanguage(request.source), pieces
        if tag is None and (detection.has_letters or has_letters(sample)):
            return SourceLanguage(None, confidence, checks.warning(checks.LANGUAGE_UNDETERMINED)), pieces
        notes = (checks.language_doubtful(detection.doubt, tag),) if detection.doubt and tag else ()
        return SourceLanguage(tag, confidence, None, notes), pieces

    def _notes(
        self, text: str, source: str, request: TranslationRequest, options: PromptOptions
    ) -> tuple[WarningCode, ...]:
        """What of the request the model cannot honour, or the text lacks."""
        plural = request.format == "text" and "plural" in text
        missing = plural and icu_plural_categories_missing(text, request.target)
        notes: tuple[WarningCode, ...] = (checks.PLURAL_CATEGORIES,) if missing else ()
        if request.options.examples and not self.prompts.takes_examples:
            notes = (*notes, checks.EXAMPLES_IGNORED)
        asked: dict[str, WarningCode] = {}
        if request.options.context:
            asked["context"] = checks.CONTEXT_IGNORED
        if request.options.formality in ("more", "less"):
            asked["formality"] = checks.FORMALITY_IGNORED
        if request.options.instructions:
            asked["instructions"] = checks.INSTRUCTIONS_IGNORED
        if not asked:
            return notes
        honoured = self.prompts.profile.honours(source, request.target, options)
        return (*notes, *(code for name, code in asked.items() if name not in honoured))

    def segments(
        self,
        pieces: Iterable[Piece | None],
        source: str,
        request: TranslationRequest,
        direction: Direction,
        glossary: Glossary | None,
        memory: CallMemory | None = None,
    ) -> Iterator[Segment | None]:
        """Yield the segments of a document in order, what is not translated among them; None: nothing yet.

        A block that seems to be in the memory is one segment, as it stands; so is a segment of another block. The glossary's
        terms are marks where the model's prompt cannot have them; in a segment in capitals always, so that a term's
        translation stays in the glossary's case.
        """
        marked = glossary is not None and not direction.takes_terms
        for piece in pieces:
            if piece is None:
                yield None
                continue
            if isinstance(piece, Verbatim):
                yield Segment(piece.text, False, structural=True)
                continue
            block = Segment(piece.text, True, piece.marks, piece.writer)
            if memory is not None and memory.has(source, block.text, block.marks):
                yield replace(block, known=True)
                continue
            for cut_off in cut(piece.text, source, direction.budget_tokens, self.prompts.tokenizer.count):
                segment = block.part(cut_off.text, translatable=cut_off.translatable)
                if (
                    memory is not None
                    and segment.translatable
                    and len(segment.text) < len(block.text)
                    and memory.has(source, segment.text, segment.marks)
                ):
                    yield replace(segment, known=True)
                    continue
                if segment.translatable and self.prompts.profile.capitals_as_sentences:
                    sentence = capitals.as_sentence(segment.text, source)
                    if sentence is not None:
                        writer = CapitalsWriter(request.target, segment.writer)
                        segment = replace(segment, text=sentence, writer=writer)
                if glossary is not None and (marked or segment.writer is not block.writer):
                    segment = with_terms_marked(segment, glossary)
                yield segment

    def segments_of_block(self, job: TextJob, block: Block) -> tuple[Segment, ...]:
        """Cut a block that the model translates apart from the text around it, such as an attribute's value."""
        segments = self.segments((block,), job.source, job.request, job.direction, job.glossary)
        if job.direction.takes_context:
            segments = Passage().in_context(segments, job.source)
        return tuple(segment for segment in segments if segment is not None)

    # ---- sequences

    def attempt(self, job: TextJob, segment: Segment, form: Form = FIRST, similar: Sequence[Example] = ()) -> Attempt:
        """Put the segment into a form, with the options, the glossary's terms and the examples that its prompt has.

        `similar`: entries of memories, the most similar first.
        """
        shown = segment.text
        if form.words and segment.marks:
            words = marks.with_words(segment.text, segment.marks)
            if self._fits(job, segment, words):
                shown = words
            else:
                form = replace(form, words=False)
        terms = job.glossary.occurring(segment.text)[:MAX_TERMS] if job.glossary else ()
        context = "\n".join(filter(None, (job.request.options.context, segment.before if form.context else "")))
        with_marks = bool(segment.marks) and "<" in shown
        options = job.options
        if context or terms or with_marks or form.reworded:
            options = replace(options, context=context or None, terms=terms, marks=with_marks, reworded=form.reworded)
        if job.takes_examples and form.examples and (examples := self._examples(job, shown, options, similar)):
            options = replace(options, examples=examples)
        if form.reworded and (examples := self._reworded_examples(job, shown, options)):
            options = replace(options, examples=examples)
        return Attempt(segment, form, shown, options)

    def _reworded_examples(self, job: TextJob, shown: str, options: PromptOptions) -> tuple[Example, ...]:
        """Return the examples of the second form of prompt, if all of them fit beside the text."""
        source, target = job.source, job.request.target
        if not self.prompts.takes_examples:
            return ()
        examples = reworded_examples(source, target)
        needed = self.prompts.example_tokens(examples, source, target, options) + TOKENS_OF_A_JOINT * len(examples)
        return examples if needed <= self._left_for_examples(job, shown, options) else ()

    def _left_for_examples(self, job: TextJob, shown: str, options: PromptOptions) -> int:
        """How many tokens the examples of a prompt may have beside its text.

        The text's own are counted only where its characters do not tell that all examples fit.
        """
        needed = MARGIN_TOKENS + self.prompts.overhead(job.source, job.request.target, options)
        for counting in (most_tokens, self.prompts.tokenizer.count):
            left = int(self.max_model_len - needed - counting(shown) * (1 + 2 * job.direction.ratio))
            if left >= self._example_tokens:
                return self._example_tokens
        return left

    def _examples(
        self, job: TextJob, shown: str, options: PromptOptions, similar: Sequence[Example]
    ) -> tuple[Example, ...]:
        """Return the caller's examples in their order, then the similar ones, of which the most similar comes last.

        So calls with equal examples have prompts with an equal beginning. Where they do not all fit, those that would stand
        next to the text are kept; of very many that the caller gave, those most similar to the text.
        """
        source, target = job.source, job.request.target
        left = self._left_for_examples(job, shown, options)
        ordered = [*_most_similar(job.request.options.examples, shown), *reversed(similar)]
        given: dict[tuple[str, str], Example] = {}
        for one in map(_example_for(shown), reversed(ordered)):
            given.setdefault((one.source, one.translation), one)
        nearest = [*given.values()]
        tokens = partial(self.prompts.example_tokens, source=source, target=target, options=options)
        if tokens(nearest[:MOST_EXAMPLES], at_most=True) + TOKENS_OF_A_JOINT * MOST_EXAMPLES <= left:
            return tuple(reversed(nearest[:MOST_EXAMPLES]))
        chosen: list[Example] = []
        for example in nearest:
            taken = tokens([example]) + TOKENS_OF_A_JOINT
            if taken <= left and len(chosen) < MOST_EXAMPLES:
                chosen.append(example)
                left -= taken
        return tuple(reversed(chosen))

    def _fits(self, job: TextJob, segment: Segment, shown: str) -> bool:
        """Whether a segment, which was cut with marks in it, fits the window with the words in their place."""
        if len(shown) - len(segment.text) <= MARGIN_TOKENS // 4:
            return True
        return self.prompts.tokenizer.count(shown) * (1 + job.direction.ratio) <= job.direction.window_tokens

    def sequence(self, job: TextJob, suffix: str, attempt: Attempt, *, limit_factor: int = 1) -> EngineSequence:
        """Encode an attempt as the engine's work, with `limit_factor` times the usual limit of its output.

        `suffix` tells the sequences of one text apart.
        """
        request = job.request
        prompt = self.prompts.encode(attempt.shown, job.source, request.target, attempt.options)
        available = max(self.max_model_len - len(prompt.token_ids), 1)
        ratio = job.direction.ratio
        if self.forced_lengths:
            max_tokens = min(job.forced_tokens or max(round(prompt.source_tokens * ratio), 1), available)
        else:
            limit = max_output_tokens(ratio, prompt.source_tokens, available)
            max_tokens = min(limit * limit_factor, available)
        sampling = self._sampled if attempt.form.sampled else self.prompts.sampling
        if sample := job.request.sample(job.index):
            seed = sample + RETRY_SEEDS * attempt.form.sampled
            sampling = replace(self._sampled, temperature=ALTERNATIVES_TEMPERATURE, seed=seed)
        return EngineSequence(
            f"{request.request_id}.{job.index}.{suffix}",
            prompt.token_ids,
            max_tokens,
            sampling,
            forced=self.forced_lengths,
            source_tokens=prompt.source_tokens,
            owner=request.account.id,
        )

    async def chat_sequence(self, request: TranslationRequest, chat: Chat) -> EngineSequence:
        """Encode a chat that the model is given as it is. Its answer is limited by the chat's length, like a translation's.

        Raises `InvalidRequest` for a chat that the window has no space for, or that the model's chat template does not take.
        """
        window, characters = self.max_model_len, sum(map(len, request.texts))
        if len(chat.messages) > window or characters > window * CHAT_CHARACTERS_OF_A_TOKEN:
            raise _too_long(f"{len(chat.messages)} messages with {characters} characters", window)
        if characters > SMALL_CHAT_CHARACTERS:
            prompt = await asyncio.to_thread(self.prompts.encode_chat, chat.messages)
        else:
            prompt = self.prompts.encode_chat(chat.messages)
        available = window - len(prompt.token_ids)
        if available < 1:
            raise _too_long(f"{len(prompt.token_ids)} tokens", window)
        limit = max_output_tokens(self._lengths.ratio(None, None), prompt.source_tokens, available)
        max_tokens = min(max(limit, LEAST_CHAT_TOKENS), available)
        return EngineSequence(
            f"{request.request_id}-{next(self._numbers)}.0.0",
            prompt.token_ids,
            min(max_tokens, chat.max_tokens or max_tokens),
            self.prompts.sampling,
            forced=self.forced_lengths,
            source_tokens=prompt.source_tokens,
            owner=request.account.id,
        )


def _too_long(given: str, window: int) -> InvalidRequest:
    return InvalidRequest(
        f"the messages have {given}, which leave no space for an answer in the model's window of {window} tokens",
        param="messages",
    )


def _most_similar(examples: tuple[Example, ...], text: str) -> tuple[Example, ...]:
    """As many examples as a prompt may have, in their order: those whose sources are most similar to the text."""
    if len(examples) <= MOST_EXAMPLES:
        return examples
    nearest = most_like(text, (one.source for one in examples), MOST_EXAMPLES)
    return tuple(examples[place] for place in sorted(place for _, place in nearest))


def _without_markup(request: TranslationRequest) -> tuple[Example, ...]:
    """The examples of a request for texts with markup: their words alone, as the marks of a text cannot be found in them."""

    def words(half: str) -> str:
        pieces = document.pieces(half, request.format, request.options.keep, request.options.tags)
        texts = (marks.plain(marks.with_words(one.text, one.marks)) for one in pieces if isinstance(one, Block))
        return " ".join(filter(None, map(str.strip, texts)))

    halves = ((words(one.source), words(one.translation)) for one in request.options.examples)
    return tuple(Example(source, translation) for source, translation in halves if source and translation)


def _example_for(shown: str) -> Callable[[Example], Example]:
    """Return a function that gives an example the marks of a text, if both have the same ones, else none."""
    form = marks.canonical(shown) if "<" in shown else None

    def fitted(example: Example) -> Example:
        source, translation = example.source.strip(), example.translation.strip()
        if "<" not in source and "<" not in translation:
            return replace(example, source=source, translation=translation)
        if form is not None and not (marks.lost(shown, source) or marks.lost(source, translation)):
            return replace(example, source=source, translation=translation)  # it has the text's numbers already
        own = marks.canonical(source)
        has_same = form is not None and own is not None and own[0] == source and not marks.lost(form[0], source)
        if form is None or not has_same or marks.lost(source, translation):
            return replace(example, source=marks.plain(source), translation=marks.plain(translation))
        source, translation = (marks.renumber(half, form[1]) for half in (source, translation))
        return replace(example, source=source, translation=translation)

    return fitted


def with_terms_marked(segment: Segment, glossary: Glossary) -> Segment:
    """Return the segment with the glossary's terms as marks, which stand for their translations: no model can miss them.

    Translations that are far longer than the segment are not put in: a short text would become a very long one.
    """
    spans = glossary.spans(segment.text, any_case=isinstance(segment.writer, CapitalsWriter))
    if not spans or sum(len(term) for _, _, term in spans) > 100 + MAX_TERMS_GROWTH * len(segment.text):
        return segment
    return with_marks(segment, spans)


def with_marks(segment: Segment, spans: Iterable[tuple[int, int, str]]) -> Segment:
    """Return the segment with a mark from start to stop of each of `spans`, which stands for its third."""
    own = list(segment.marks)
    writer = segment.writer.notation if isinstance(segment.writer, CapitalsWriter) else segment.writer
    written: list[str] = []
    at = 0
    for start, stop, text in spans:
        own.append(Mark(writer(text) if writer else text, word=True))
        written += [segment.text[at:start], f"<x{len(own)}/>"]
        at = stop
    text, renumbered = marks.local("".join([*written, segment.text[at:]]), own)
    return replace(segment, text=text, marks=renumbered)


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


def _last_sentences(text: str, language: str, characters: int = CONTEXT_CHARACTERS) -> str:
    """The end of a text: whole sentences where they are short enough."""
    last = sentences(text[-characters:], language)[-CONTEXT_SENTENCES:]
    return "".join(last).strip()


def _is_short(text: str, language: str) -> bool:
    """Whether a text has few words; in a script without spaces, two characters count as a word."""
    words = len(text.split()) if languages.uses_spaces(language) else len(text) // 2
    return words < MIN_WORDS_WITH_CONTEXT
