"""The domain's types: what a caller asks for, what an engine is given and returns, and what comes back.

Free of any wire format and of any engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from dragoman.errors import InvalidRequest
from wholetext.markup import PublicFormat as PublicFormat
from wholetext.markup import TextFormat as TextFormat
from wholetext.markup.html import TagRules


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. The defaults are greedy decoding."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0: all
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None


Formality = Literal["default", "more", "less", "prefer_more", "prefer_less"]
"""How formal a translation is to be, with the values of DeepL's API. `prefer_`: where the model can."""

PromptOption = Literal["terms", "marks", "context", "formality", "instructions"]
"""What a prompt may say besides the text, the most important first."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text and its translation that a prompt shows before the text to translate."""

    source: str  # with marks, like a segment's text
    translation: str
    similarity: float = 0.0  # of the source to the text, 0 to 100 (rapidfuzz's `fuzz.ratio`); 0: the caller gave it


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """What a caller wants of one segment's prompt. A profile says which of it its prompts can express."""

    context: str | None = None  # informs the translation, is not translated
    terms: tuple[tuple[str, str], ...] = ()  # terms of the source with their translations
    formality: Formality = "default"
    instructions: tuple[str, ...] = ()
    marks: bool = False  # the text has marks, `<g1>…</g1>` and `<x2/>`, which the translation must keep
    examples: tuple[
        Example, ...
    ] = ()  # in the prompt's order, the last next to the text; with its marks or without any
    reworded: bool = (
        False  # in the profile's second form, if it has one: the first was taken for a question or an order
    )

    @property
    def given(self) -> frozenset[PromptOption]:
        """Those that are set. Examples are not among them: a prompt has them as it has the text."""
        given: dict[PromptOption, bool] = {
            "terms": bool(self.terms),
            "marks": self.marks,
            "context": bool(self.context),
            "formality": self.formality != "default",
            "instructions": bool(self.instructions),
        }
        return frozenset(name for name, is_given in given.items() if is_given)


MAX_CONTEXT_CHARACTERS = 20_000
MAX_TERMS, MAX_TERM_CHARACTERS = 10_000, 1_000
MAX_INSTRUCTIONS, MAX_INSTRUCTION_CHARACTERS = 10, 300
MAX_TAGS, MAX_TAG_CHARACTERS = 100, 100
MAX_MEMORY_EXAMPLES = 10
"""The most similar entries of translation memories in one prompt."""
MAX_EXAMPLES, MAX_EXAMPLE_CHARACTERS = 32, 1_000


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller wants of translations, whatever their texts and languages are."""

    context: str | None = None  # said around the text; informs the translation, is not translated
    keep: tuple[str, ...] = ()  # terms that are not to be translated
    glossary: Mapping[str, str] = field(default_factory=dict[str, str])  # terms and their translations
    glossary_key: tuple[object, ...] | None = None  # of a stored glossary: equal keys have equal entries
    memories: tuple[str, ...] | None = None  # ids of the account's memories to look into; None: all of them
    memory_examples: int | None = None  # the most similar entries of them in a prompt; None: as the server is set
    memory_similarity: float | None = None  # the least of these entries, 0 to 100; None: as the server is set
    formality: Formality = "default"
    instructions: tuple[str, ...] = ()  # to the model, where its profile can give them
    tags: TagRules = field(default_factory=TagRules)  # of html and xml
    examples: tuple[Example, ...] = ()  # texts with their translations, for all texts; prompts keep their order

    def check(self) -> None:
        """Raise `InvalidRequest` for what is beyond the limits."""
        if self.context is not None and len(self.context) > MAX_CONTEXT_CHARACTERS:
            message = f"context has {len(self.context)} characters; this server accepts {MAX_CONTEXT_CHARACTERS}"
            raise InvalidRequest(message, param="context")
        own_terms: Collection[str] = self.glossary if self.glossary_key is None else ()
        for name, entries, most, characters in (
            ("glossary", own_terms, MAX_TERMS, MAX_TERM_CHARACTERS),
            ("glossary", self.glossary.values() if own_terms else (), MAX_TERMS, MAX_TERM_CHARACTERS),
            ("keep", self.keep, MAX_TERMS, MAX_TERM_CHARACTERS),
            ("instructions", self.instructions, MAX_INSTRUCTIONS, MAX_INSTRUCTION_CHARACTERS),
            ("ignore_tags", self.tags.ignore, MAX_TAGS, MAX_TAG_CHARACTERS),
            ("splitting_tags", self.tags.splitting, MAX_TAGS, MAX_TAG_CHARACTERS),
            ("non_splitting_tags", self.tags.non_splitting, MAX_TAGS, MAX_TAG_CHARACTERS),
        ):
            if len(entries) > most:
                raise InvalidRequest(f"{name}: {len(entries)} entries; this server accepts {most}", param=name)
            if entries and max(map(len, entries)) > characters:
                raise InvalidRequest(f"{name}: an entry has over {characters} characters", param=name)
        if own_terms:
            _check_terms(self.glossary)
        if self.examples:
            _check_examples(self.examples)


def _check_terms(terms: Mapping[str, str]) -> None:
    """Raise `InvalidRequest` for a term or a translation that is empty, or has a character that is none of a text."""
    for term, translation in terms.items():
        for text, name in ((term, "term"), (translation, "translation")):
            if not text.strip():
                raise InvalidRequest(f"glossary: the {name} of the entry {term[:40]!r} is empty", param="glossary")
            if "\x00" in text:
                raise InvalidRequest(f"glossary: the {name} of the entry {term[:40]!r} has U+0000", param="glossary")


def _check_examples(examples: tuple[Example, ...]) -> None:
    """Raise `InvalidRequest` for too many examples, and for a half that is empty, too long, or no text."""
    if len(examples) > MAX_EXAMPLES:
        raise InvalidRequest(f"examples: {len(examples)} entries; this server accepts {MAX_EXAMPLES}", param="examples")
    for number, example in enumerate(examples, 1):
        for text, name in ((example.source, "source"), (example.translation, "translation")):
            if not text.strip():
                raise InvalidRequest(f"examples: the {name} of number {number} is empty", param="examples")
            if len(text) > MAX_EXAMPLE_CHARACTERS:
                raise InvalidRequest(
                    f"examples: the {name} of number {number} has over {MAX_EXAMPLE_CHARACTERS} characters",
                    param="examples",
                )
            if "\x00" in text:
                raise InvalidRequest(f"examples: the {name} of number {number} has U+0000", param="examples")


CompletionReason = Literal["stop", "length", "repetition"]


@dataclass(frozen=True, slots=True)
class EngineSequence:
    """One prompt for the engine. `max_tokens` bounds the output; `forced` makes it exactly that long, ignoring EOS."""

    id: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    forced: bool = False
    source_tokens: int = 0  # of the prompt, those that are the user's text; the engine does not look
    owner: str = ""  # the account's id; the engine does not look


@dataclass(frozen=True, slots=True)
class Timings:
    """How the engine spent its time on one sequence, in seconds of the engine's clock. None: the engine does not report it."""

    queue_s: float  # from submission to the first step that it took part in
    prefill_s: float | None = None  # from there to its first token
    decode_s: float | None = None  # from the first token to the last


@dataclass(frozen=True, slots=True)
class Delta:
    """The next piece of a streamed sequence's text."""

    text: str


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural logarithms of the probabilities that the model gave the tokens it chose, before sampling changed them."""

    mean: float
    least: float


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished sequence. `text` is the whole output, streamed or not."""

    text: str
    reason: CompletionReason
    prompt_tokens: int
    completion_tokens: int
    timings: Timings | None = field(default=None, compare=False)  # two equal answers may take different times
    # Nothing was generated for this caller: from the cache, or shared with an equal sequence that was in flight.
    cached: bool = field(default=False, compare=False)
    logprobs: TokenLogprobs | None = field(default=None, compare=False)  # None: the engine does not report them


FinishReason = Literal["stop", "length", "repetition", "unchanged"]
"""Why a translation ended. `stop`: the model said it was done. `length`, `repetition`: it did not, and the text may be
incomplete. `unchanged`: there was nothing to translate (no letters, or the target is the source's language)."""


Priority = Literal["interactive", "bulk"]
"""`interactive`: a person waits for the answer. `bulk`: it may take until interactive calls leave the engine free."""


KeyRole = Literal["translate", "operator"]
"""What a key is for. `operator`: also the server's metrics, statistics and keys."""

ApiName = Literal[
    "native",
    "deepl",
    "libretranslate",
    "google",
    "microsoft",
    "openai",
    "ollama",
    "deeplx",
    "immersive",
    "kiss",
    "xunity",
    "mcp",
]
"""The APIs that a call can come by: a label of metrics."""


@dataclass(frozen=True, slots=True)
class Account:
    """On whose behalf a call is made: a key's identity and limits, never the key itself."""

    id: str
    name: str
    role: KeyRole = "translate"
    characters_per_month: int | None = None  # None: no limit
    requests_per_s: float | None = None  # None: no limit
    languages: frozenset[str] = frozenset()  # targets that it may ask for, as tags; empty: all
    priority: Priority = "interactive"  # what its calls get where they say nothing; `bulk` cannot be raised by a call


ANONYMOUS = Account("anonymous", "anonymous", role="operator")
"""The one caller of a server that needs no keys."""


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """What an account has used of its month: a calendar month in UTC."""

    characters: int  # of the sources of completed requests
    characters_per_month: int | None  # the limit; None: none
    period_start: datetime
    period_end: datetime  # the first moment of the next month


Role = Literal["system", "user", "assistant"]
"""Who writes a message of a chat."""


@dataclass(frozen=True, slots=True)
class Chat:
    """Messages that the model is given as they are, to answer them."""

    messages: tuple[tuple[Role, str], ...]
    max_tokens: int | None = None  # of the answer, as the client limits it
    is_json: bool = False  # the answer is to be a JSON object


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """One call: texts that share a target and options. Languages are normalised tags (`dragoman.languages`)."""

    texts: tuple[str, ...]
    target: str
    source: str | None = None  # None: detected for each text
    # `source` was detected over all texts together: one that is certainly in a language not served is left nevertheless.
    is_source_detected: bool = False
    format: TextFormat = "text"
    options: Options = field(default_factory=Options)
    follows: tuple[bool, ...] = ()  # for each text, whether it follows the one before it, which is context; empty: none
    contexts: tuple[str, ...] = ()  # for each text, what is said around it alone; empty: nothing
    alternatives: int = 0  # how many other translations of each text are wanted (`dragoman.service.alternatives`)
    sampled_from: int | None = None  # texts from this place on have outputs that are chosen at random, each other ones
    # Instead of a translation: the messages, joined, are the one text, whose characters are counted. The target is `und`.
    chat: Chat | None = None
    strict: bool = False  # a text that fails a check is an error instead of a translation with a warning
    forced_output_tokens: tuple[int, ...] | None = (
        None  # one per text; only for dummy weights, whose lengths mean nothing
    )
    request_id: str = ""
    priority: Priority = "interactive"
    is_document: bool = False  # its texts are the segments of a file
    account: Account = ANONYMOUS
    api: ApiName = "native"
    deadline_s: float | None = None  # seconds from now after which the answer is of no use; 0: it has passed already

    def sample(self, index: int) -> int:
        """The number, from 1 on, of text `index` among the samples of the same text; 0: it is no sample."""
        return index // self.sampled_from if self.sampled_from else 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a translation cost. Characters are those of the source."""

    characters: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    source_tokens: int = 0  # of the prompt tokens, those of the text itself
    cached_prompt_tokens: int = 0  # that what came from the cache, or from an equal sequence in flight, would have cost
    cached_completion_tokens: int = 0

    @classmethod
    def of(cls, completion: Completion, source_tokens: int, characters: int = 0) -> Usage:
        """What a completion cost, or would have cost where it was cached."""
        tokens = completion.prompt_tokens, completion.completion_tokens
        if completion.cached:
            return cls(characters, cached_prompt_tokens=tokens[0], cached_completion_tokens=tokens[1])
        return cls(characters, *tokens, source_tokens)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.characters + other.characters,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.source_tokens + other.source_tokens,
            self.cached_prompt_tokens + other.cached_prompt_tokens,
            self.cached_completion_tokens + other.cached_completion_tokens,
        )


WarningCode = Literal[
    "empty_output",
    "refusal",
    "answered",
    "repetition",
    "wrong_language",
    "source_copied",
    "copied_example",
    "length_limit",
    "sentences_dropped",
    "length_out_of_bounds",
    "commentary",
    "placeholders_lost",
    "marks_moved",
    "numbers_changed",
    "terms_missing",
    "line_breaks_lost",
    "plural_categories",
    "formality_ignored",
    "context_ignored",
    "instructions_ignored",
    "examples_ignored",
    "language_undetermined",
    "language_not_served",
    "language_doubtful",
    "low_confidence",
]
"""Stable codes of warnings, and of the reasons for which a segment is retried. `dragoman.text.checks` says what they mean."""


RetryReason = WarningCode | Literal["cut_around", "aligned"]
"""Why or how a segment was translated again. `cut_around`: the text between its marks alone; `aligned`: without marks,
which were put at aligned positions."""


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A part of a translation, from `start` to before `end`, in code points; and of its source, None where that is unknown."""

    start: int
    end: int
    source_start: int | None = None
    source_end: int | None = None


@dataclass(frozen=True, slots=True)
class TranslationWarning:
    """What may be wrong with a translation: a stable code for programs, and a sentence for people."""

    code: WarningCode
    message: str
    missing: tuple[str, ...] = ()  # what the translation lacks, in the source's order
    places: tuple[TextPlace, ...] = ()  # sentences or segments of which it is said; nothing: of the text as a whole


@dataclass(frozen=True, slots=True)
class Features:
    """What the confidence in one segment's translation is computed from (`dragoman.text.confidence`)."""

    mean_logprob: float
    least_logprob: float
    length_deviation: float  # absolute logarithm of target to source characters, over the direction's usual ratio
    source_unmatched: float = 0.0  # how far its words lack a translation in the output, 0 to 1; 0 without a lexicon
    output_unmatched: float = 0.0  # and those of the output in the source
    source_characters: int = 0
    target_characters: int = 0
    copied: float = 0.0  # share of the output's letters that are in words of the source, 0 to 1
    has_findings: bool = False  # a check of the output has failed
    retried: bool = False
    cut_around: bool = False  # the text between its marks was translated alone, or they are at aligned positions


ConfidenceKind = Literal["calibrated", "rank"]
"""What a confidence is. `calibrated`: the share of translations with this number that are right, of a model that was measured.
`rank`: the share of the model's recent translations of the pair that are less likely to be right."""


MemoryUse = Literal["whole", "part"]
"""How much of a translation is from a translation memory."""


@dataclass(frozen=True, slots=True)
class Translation:
    """One text's result. `warnings` are for the caller's user: each says what may be wrong with `text`."""

    text: str
    source: str
    detected: bool
    finish_reason: FinishReason
    warnings: tuple[TranslationWarning, ...] = ()
    usage: Usage = field(default_factory=Usage)
    retries: tuple[RetryReason, ...] = ()  # why or how segments were retried, one for each retry
    cached: int = 0  # segments for which nothing was generated: from the cache, or shared with an equal one in flight
    remembered: int = 0  # segments whose translation is a person's, from a translation memory
    memory: MemoryUse | None = None  # None: nothing is from a translation memory
    examples: tuple[
        Example, ...
    ] = ()  # that prompts had, in whose outputs the text is; the most similar of a segment last
    failed: bool = False  # under `strict`: a check failed, and `text` is not to be used
    detection_confidence: float = 1.0  # 0 to 1
    confidence: float | None = None  # that the translation is right, 0 to 1; None: unknown, or nothing was translated
    confidence_kind: ConfidenceKind | None = None  # of `confidence`
    # One for each segment that the engine translated, where it reports probabilities.
    features: tuple[Features, ...] = field(default=(), compare=False)
    # One for each segment that the engine translated, where it reports them.
    timings: tuple[Timings, ...] = field(default=(), compare=False)
    alternatives: tuple[
        Translation, ...
    ] = ()  # as many as were wanted, or fewer; none of them is worse by its warnings

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing, because the text's language is not served."""
        return self.finish_reason == "unchanged" and any(one.code == "language_not_served" for one in self.warnings)


@dataclass(frozen=True, slots=True)
class Detection:
    """`language`: one of the served tags, or, where that is certain, the tag of a language that is not; None when the text has
    no letters, or is in a script that tells no language.

    `confidence` (0-1) weighs the language against all others. `has_letters`: whether there was anything to detect.
    `is_served`: whether the language is one of the served ones. `doubt`: a language that is not served, in which the text may
    be instead.
    """

    language: str | None
    confidence: float
    has_letters: bool = True
    is_served: bool = True
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text `index`'s translation, in order; the pieces' concatenation is the translation's text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class TextDone:
    """Text `index` is whole."""

    index: int
    translation: Translation


@dataclass(frozen=True, slots=True)
class Planned:
    """The languages and limits of all texts of a call are settled: what fails later is the engine's, or the deadline."""


Event: TypeAlias = Planned | TextDelta | TextDone
"""What a call yields while it is translated: `Planned` once, then deltas of streamed texts, and each text when it is done."""
