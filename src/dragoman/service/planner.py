"""Before the model: a call's texts become jobs, and a job's pieces become sequences.

Languages are settled, long texts cut, prompts encoded, output lengths bounded; nothing runs here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from dragoman import languages
from dragoman.errors import InvalidRequest, UnsupportedLanguage
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable
from dragoman.text.detect import Detector
from dragoman.text.segments import Segment, cut
from dragoman.text.spans import has_letters
from dragoman.types import Sequence, TranslationRequest

MARGIN_TOKENS = 64  # room that a short text's output may need beyond its ratio
SHORTEST_PIECE_TOKENS = 16
UNDETERMINED = "und"  # BCP-47's tag for a language that is not known


@dataclass(frozen=True, slots=True)
class Job:
    """One text, ready for the model. `unsure`: its language was to be detected and could not be."""

    index: int
    text: str
    source: str
    detected: bool
    request: TranslationRequest
    pieces: tuple[Segment, ...]
    unsure: bool = False

    @property
    def wanted(self) -> list[str]:
        """The pieces that the model has to translate."""
        return [piece.text for piece in self.pieces if piece.translatable]


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

    def jobs(self, request: TranslationRequest) -> list[Job]:
        """One job a text. Raises `UnsupportedLanguage` or `InvalidRequest` before any work is done."""
        target = self.served_tag(request.target, "target")
        source = self.served_tag(request.source, "source") if request.source else None
        # Two clients may send the same id, and an engine takes no two sequences of one: hence the number.
        unique_id = f"{request.request_id}-{next(self._numbers)}"
        request = replace(request, target=target, source=source, request_id=unique_id)
        return [self._job(index, text, request) for index, text in enumerate(request.texts)]

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

    def _job(self, index: int, text: str, request: TranslationRequest) -> Job:
        source = request.source
        detected = source is None
        if source is None:
            source = self._detector.detect(text).language
        if source is None:
            return Job(index, text, UNDETERMINED, detected, request, (), unsure=has_letters(text))
        if source == request.target:
            return Job(index, text, source, detected, request, ())
        if not self._prompts.profile.serves(source, request.target):
            raise UnsupportedLanguage(f"the model does not translate from {source} to {request.target}", param="target")
        pieces = tuple(cut(text, source, self._budget(source, request), self._prompts.tokenizer.count))
        return Job(index, text, source, detected, request, pieces)

    def _budget(self, source: str, request: TranslationRequest) -> int:
        """Source tokens that fit a prompt together with the output they may need."""
        overhead = self._prompts.overhead(source, request.target, request.context)
        window = self.max_model_len - overhead - MARGIN_TOKENS
        budget = int(window / (1 + 2 * self._lengths.ratio(source, request.target)))
        if budget < SHORTEST_PIECE_TOKENS:
            raise InvalidRequest(
                f"the context leaves no room for the text in the model's window of {self.max_model_len} tokens",
                param="context",
            )
        return min(budget, self._prompts.profile.max_source_tokens or budget)

    def smaller(self, job: Job, text: str) -> tuple[Segment, ...]:
        """A piece cut into quarters, between sentences where there are any."""
        count = self._prompts.tokenizer.count
        return tuple(cut(text, job.source, max(count(text) // 4, SHORTEST_PIECE_TOKENS), count))

    def sequence(self, job: Job, part: str, text: str, *, room_factor: int = 1) -> Sequence:
        """The engine's work for one piece; `room_factor` times the usual bound on its output."""
        request = job.request
        prompt = self._prompts.encode(text, job.source, request.target, request.context)
        room = max(self.max_model_len - len(prompt.token_ids), 1)
        if self.forced_lengths:
            max_tokens = min(self._forced(job, prompt.source_tokens), room)
        else:
            bound = self._lengths.max_tokens(job.source, request.target, prompt.source_tokens, room)
            max_tokens = min(bound * room_factor, room)
        return Sequence(
            f"{request.request_id}.{job.index}.{part}",
            prompt.token_ids,
            max_tokens,
            self._prompts.sampling,
            forced=self.forced_lengths,
            source_tokens=prompt.source_tokens,
        )

    def with_twice_the_room(self, sequence: Sequence) -> Sequence | None:
        """The same again, its output bounded at twice as many tokens; None where the window has no more."""
        room = self.max_model_len - len(sequence.prompt_token_ids)
        more = min(2 * sequence.max_tokens, room)
        if more <= sequence.max_tokens or sequence.forced:
            return None
        return replace(sequence, id=f"{sequence.id}.again", max_tokens=more)

    def _forced(self, job: Job, source_tokens: int) -> int:
        """The caller's length, shared among a text's pieces; without one, what the language pair would take."""
        if job.request.forced_output_tokens is None:
            return max(round(source_tokens * self._lengths.ratio(job.source, job.request.target)), 1)
        return max(round(job.request.forced_output_tokens[job.index] / len(job.wanted)), 1)
