"""Before the model: languages are resolved, texts split into segments, segments encoded as prompts with a bounded output.

Everything here is done piece by piece, when it is asked for: between two jobs and between two segments the work is
bounded, however long the text is, so that a caller can give control back to the event loop. Nothing runs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from dragoman import languages
from dragoman.errors import InvalidRequest, UnsupportedLanguage
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable
from dragoman.text.detect import Detector
from dragoman.text.segments import Segment, cut
from dragoman.text.spans import has_letters
from dragoman.types import PromptOptions, Sequence, TranslationRequest

MARGIN_TOKENS = 64  # that a short text's output may need beyond its ratio
MIN_SEGMENT_TOKENS = 16
UNDETERMINED = "und"  # BCP-47's tag for an unknown language


@dataclass(frozen=True, slots=True)
class TextJob:
    """One text with its languages. `segments` is an iterator: each is made when it is asked for."""

    index: int
    text: str
    source: str
    detected: bool
    request: TranslationRequest
    segments: Iterator[Segment]
    undetermined: bool = False  # the language was to be detected and could not be
    forced_tokens: int | None = None  # output tokens of each segment, with dummy weights


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
        self._detector = Detector(self.served)
        self._numbers = count()

    def jobs(self, request: TranslationRequest) -> Iterator[TextJob]:
        """One job for each text, made when it is asked for. Raises `UnsupportedLanguage` or `InvalidRequest`."""
        target = self.served_tag(request.target, "target")
        source = self.served_tag(request.source, "source") if request.source else None
        # Two clients may send the same id, and an engine takes no two sequences of one: hence the number.
        unique_id = f"{request.request_id}-{next(self._numbers)}"
        request = replace(request, target=target, source=source, request_id=unique_id)
        for index, text in enumerate(request.texts):
            yield self._job(index, text, request)

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

    def _job(self, index: int, text: str, request: TranslationRequest) -> TextJob:
        source = request.source
        detected = source is None
        if source is None:
            source = self._detector.detect(text).language
        if source is None:
            return TextJob(index, text, UNDETERMINED, detected, request, iter(()), undetermined=has_letters(text))
        if source == request.target:
            return TextJob(index, text, source, detected, request, iter(()))
        if not self._prompts.profile.serves(source, request.target):
            raise UnsupportedLanguage(f"the model does not translate from {source} to {request.target}", param="target")
        segments = iter(cut(text, source, self._budget(source, request), self._prompts.tokenizer.count))
        forced = None
        if request.forced_output_tokens is not None:  # the caller's length, shared evenly among the segments
            split = tuple(segments)
            segments, number = iter(split), sum(segment.translatable for segment in split)
            forced = max(round(request.forced_output_tokens[index] / max(number, 1)), 1)
        return TextJob(index, text, source, detected, request, segments, forced_tokens=forced)

    def _budget(self, source: str, request: TranslationRequest) -> int:
        """Source tokens that fit a prompt together with the output they may need."""
        overhead = self._prompts.overhead(source, request.target, PromptOptions(context=request.context))
        window = self.max_model_len - overhead - MARGIN_TOKENS
        budget = int(window / (1 + 2 * self._lengths.ratio(source, request.target)))
        if budget < MIN_SEGMENT_TOKENS:
            raise InvalidRequest(
                f"the context leaves no space for the text in the model's window of {self.max_model_len} tokens",
                param="context",
            )
        return min(budget, self._prompts.profile.max_source_tokens or budget)

    def smaller(self, job: TextJob, text: str) -> tuple[Segment, ...]:
        """A segment split into quarters, between sentences where there are any."""
        count = self._prompts.tokenizer.count
        return tuple(cut(text, job.source, max(count(text) // 4, MIN_SEGMENT_TOKENS), count))

    def sequence(self, job: TextJob, part: str, text: str, *, limit_factor: int = 1) -> Sequence:
        """The engine's work for one segment; `limit_factor` times the usual limit of its output."""
        request = job.request
        prompt = self._prompts.encode(text, job.source, request.target, PromptOptions(context=request.context))
        available = max(self.max_model_len - len(prompt.token_ids), 1)
        if self.forced_lengths:
            ratio = self._lengths.ratio(job.source, request.target)
            max_tokens = min(job.forced_tokens or max(round(prompt.source_tokens * ratio), 1), available)
        else:
            limit = self._lengths.max_tokens(job.source, request.target, prompt.source_tokens, available)
            max_tokens = min(limit * limit_factor, available)
        return Sequence(
            f"{request.request_id}.{job.index}.{part}",
            prompt.token_ids,
            max_tokens,
            self._prompts.sampling,
            forced=self.forced_lengths,
            source_tokens=prompt.source_tokens,
        )

    def with_twice_the_limit(self, sequence: Sequence) -> Sequence | None:
        """The same again, with an output of up to twice as many tokens; None where the window has no more."""
        available = self.max_model_len - len(sequence.prompt_token_ids)
        more = min(2 * sequence.max_tokens, available)
        if more <= sequence.max_tokens or sequence.forced:
            return None
        return replace(sequence, id=f"{sequence.id}.again", max_tokens=more)
