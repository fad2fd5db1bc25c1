"""Defines profiles, which describe the prompts of a model family, and reads them from TOML.

A profile has the prompt templates on which a model was trained, the language names in these templates, the format around a
turn, the sampling parameters and the stop tokens. With `extends = "<name>"` a TOML file inherits every top-level key that it
does not set from that profile.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from pydantic import TypeAdapter, ValidationError

from dragoman.errors import ConfigError, UnsupportedLanguage
from dragoman.prompts.options import SLOTS, FormalityWords, MarkForm, slots_of, tags_around_text
from dragoman.types import PromptOption, PromptOptions, Sampling

Mode = Literal["chat", "structured", "raw"]
"""`chat`: one user turn, perhaps a system turn. `structured`: a user turn whose message carries language codes
(TranslateGemma). `raw`: plain completion, no turns."""

NameLanguage = Literal["en", "zh"]

TEMPLATE_SLOTS = frozenset({"text", "source", "target", "source_code", "target_code", "number", *SLOTS})
WIRE_SLOTS = frozenset({"user", "system", "examples"})
NO_OPTIONS = PromptOptions()
_ORDER: tuple[PromptOption, ...] = get_args(PromptOption)


@dataclass(frozen=True, slots=True)
class Language:
    """The names of a served language in the model's prompts. `zh` is empty if no template uses Chinese names."""

    en: str
    code: str
    zh: str = ""

    def name(self, which: NameLanguage) -> str:
        return self.zh if which == "zh" else self.en


@dataclass(frozen=True)
class ProfileTemplate:
    """A prompt on which the model was trained. It requires values for its slots, such as `{source}` or `{context}`.

    `{instructions}` is the block of `prompts.options.instruction_block` with every option that has no slot. If `instruction`
    is set, it is only the caller's instructions, and `{number}` is the number after the last one.
    """

    text: str
    system: str = ""
    names: NameLanguage = "en"
    chinese: bool = False  # only where the source or the target is Chinese
    marks: bool = False  # made for texts with marks
    term: str = ""  # a line of `{terms}`, with the slots `{term}` and `{translation}`
    instruction: str = ""  # a line of `{instructions}`, with the slots `{number}` and `{instruction}`
    formality: FormalityWords | None = None  # the values of `{formality}`
    answer: str = "{text}"  # how the model writes its answer

    @cached_property
    def slots(self) -> frozenset[str]:
        """Names of the slots of both turns."""
        return slots_of(self.text) | slots_of(self.system)

    @cached_property
    def tags(self) -> frozenset[str]:
        """Names of the tags around the text and around the answer, which a text must not contain as they are."""
        return tags_around_text(self.text) | tags_around_text(self.answer)

    @property
    def has_block(self) -> bool:
        """Whether the prompt expresses every option in sentences."""
        return "instructions" in self.slots and not self.instruction

    @property
    def needs_source(self) -> bool:
        return bool({"source", "source_code"} & self.slots)

    def fits(self, source: str | None, target: str, given: frozenset[PromptOption]) -> bool:
        """Whether the call has everything that the prompt requires."""
        if self.needs_source and source is None:
            return False
        if (self.needs - given) or (self.has_block and not given):
            return False
        return not self.chinese or _is_chinese(source) or _is_chinese(target)

    @property
    def needs(self) -> frozenset[PromptOption]:
        """The options that have a slot of their own."""
        slots = self.slots - {"instructions"} if self.has_block else self.slots
        return frozenset(name for name in _ORDER if name in slots or (name == "marks" and self.marks))

    def covers(self, given: frozenset[PromptOption]) -> frozenset[PromptOption]:
        """Return the given options that the prompt expresses."""
        return given if self.has_block else given & self.needs


@dataclass(frozen=True, slots=True)
class ExampleForm:
    """How prompts show texts with their translations before the text to translate: as earlier turns of the chat.

    The user's turn of an example is that of the template which a call would get that wants nothing else for this text alone
    (terms, context); the model's is the template's answer. The checkpoint's chat template writes them; where the profile has
    a wire, `turn` does, and all of them stand in its slot `{examples}`.
    """

    turn: str = ""  # both turns of an example, with the slots `{user}` and `{answer}`


@dataclass(frozen=True, slots=True)
class RewordedForm:
    """The second form of every prompt, for a text that the model took for a question or an order in the first one.

    `text` is the user's turn, with the slots of templates for it and for languages; `system` is added to the system prompt.
    Where the profile takes examples, a question, an instruction and a statement with their translations stand before it
    (`prompts.catalog.reworded_examples`).
    """

    text: str
    system: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """How a checkpoint is recognised: regular expressions searched for in its name, and values of its config.json."""

    names: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    vocab_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSize:
    """A published checkpoint. `parameters_b`: billions of parameters, all experts counted."""

    id: str
    parameters_b: float

    @property
    def bf16_gib(self) -> float:
        """Memory of the weights alone, two bytes a parameter."""
        return self.parameters_b * 2e9 / 2**30


@dataclass(frozen=True, slots=True)
class Profile:
    """The prompts, languages and sampling of a model family. `wire` None: use the checkpoint's own chat template.

    Raises `ConfigError` if values contradict each other.
    """

    name: str
    title: str
    mode: Mode
    templates: tuple[ProfileTemplate, ...]  # of those that fit, the one that covers most is used; of equals, the first
    languages: Mapping[str, Language]  # by tag
    wire: str | None = None
    examples: ExampleForm | None = None  # None: its prompts have no place for examples
    reworded: RewordedForm | None = None  # None: its prompts have one form
    control_tokens: tuple[str, ...] = ()  # of wire and templates; the tokenizer must have all of them
    bos: Literal["template", "tokenizer"] = "template"  # tokenizer: first comes what it puts before every text
    chat_arguments: Mapping[str, object] = field(
        default_factory=dict[str, object]
    )  # for the checkpoint's chat template
    marks: MarkForm = field(default_factory=MarkForm)
    trim_text: bool = False  # the vendor's template strips white space around the text
    sampling: Sampling = field(default_factory=Sampling)
    stop_tokens: tuple[str, ...] = ()
    optional_stop_tokens: tuple[str, ...] = ()  # stops where the tokenizer has them
    max_source_tokens: int | None = None  # the model's own limit on one text; longer ones are cut into segments
    follows_instructions: bool = False  # of whatever kind, in chats of several turns: `openai.unknown_prompts`
    capitals_as_sentences: bool = False  # a segment in capitals is given as a sentence, its translation set in capitals
    pivots: tuple[str, ...] = ()  # one side must be one of these; empty: every direction
    match: Match = field(default_factory=Match)
    models: tuple[ModelSize, ...] = ()
    licence: str = ""
    territory: str = ""  # where the licence does not allow its use
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "languages", MappingProxyType(dict(self.languages)))
        object.__setattr__(self, "chat_arguments", MappingProxyType(dict(self.chat_arguments)))
        for fault in _faults(self):
            raise ConfigError(f"profile {self.name!r}: {fault}")

    @property
    def needs_source(self) -> bool:
        return all(template.needs_source for template in self.templates)

    @property
    def takes_formality(self) -> bool:
        """Whether a template says how people are addressed."""
        return any(template.formality is not None for template in self.templates)

    @property
    def takes_examples(self) -> bool:
        """Whether its prompts have a place for examples; a checkpoint's own chat template may have none."""
        return self.examples is not None and (self.wire is None or "{examples}" in self.wire)

    def serves(self, source: str | None, target: str) -> bool:
        """Whether the model supports this direction. `source` None: the language is not known."""
        if target not in self.languages or (source is not None and source not in self.languages):
            return False
        if source is None:
            return not self.needs_source
        return not self.pivots or source in self.pivots or target in self.pivots

    def template(self, source: str | None, target: str, options: PromptOptions = NO_OPTIONS) -> ProfileTemplate:
        """Select, of the templates that fit, the one that covers most options; terms count most, instructions least.

        Raises `UnsupportedLanguage` for a direction the model does not serve.
        """
        if not self.serves(source, target):
            raise self._unsupported(source, target)
        given = options.given
        fitting = [item for item in self.templates if item.fits(source, target, given)]
        if not fitting:
            raise self._unsupported(source, target)
        best = max(fitting, key=lambda item: [name in item.covers(given) for name in _ORDER])
        if not options.reworded or self.reworded is None:
            return best
        return replace(
            best, text=self.reworded.text, system="\n\n".join(filter(None, (best.system, self.reworded.system)))
        )

    def honours(self, source: str | None, target: str, options: PromptOptions) -> frozenset[PromptOption]:
        """Return the given options that the prompt for this direction expresses. Raises `UnsupportedLanguage`."""
        return self.template(source, target, options).covers(options.given)

    def _unsupported(self, source: str | None, target: str) -> UnsupportedLanguage:
        if target not in self.languages:
            return UnsupportedLanguage(f"{self.title} does not translate into {target!r}", param="target")
        if source is None:
            return UnsupportedLanguage(f"{self.title} needs the source language", param="source")
        if source not in self.languages:
            return UnsupportedLanguage(f"{self.title} does not translate from {source!r}", param="source")
        pivots = " or ".join(self.pivots)
        return UnsupportedLanguage(
            f"{self.title} translates only from or into {pivots}, not {source!r} to {target!r}", param="target"
        )


def _is_chinese(tag: str | None) -> bool:
    return tag is not None and tag.partition("-")[0] == "zh"


def _faults(profile: Profile) -> list[str]:
    """Return a message for each contradiction."""
    templates = list(profile.templates)
    if profile.reworded is not None:
        templates.append(ProfileTemplate(profile.reworded.text, profile.reworded.system))
    faults = [fault for template in templates for fault in _template_faults(template, profile)]
    if not profile.templates:
        faults.append("has no templates")
    if not profile.languages:
        faults.append("has no languages")
    if profile.follows_instructions and profile.mode != "chat":
        faults.append(f"follows_instructions needs mode 'chat', not {profile.mode!r}")
    if profile.wire is None:
        if profile.mode != "chat":
            faults.append(f"mode {profile.mode!r} needs a wire")
        return faults
    faults += [f"wire has an unknown slot {{{slot}}}" for slot in sorted(slots_of(profile.wire) - WIRE_SLOTS)]
    if profile.wire.count("{user}") != 1:
        faults.append("wire must have the slot {user} once")
    turn = profile.examples.turn if profile.examples else ""
    if "{examples}" in profile.wire and not (turn.count("{user}") == turn.count("{answer}") == 1):
        faults.append("a wire with the slot {examples} needs examples with a turn that has {user} and {answer} once")
    text = "".join((profile.wire, turn, *(template.text for template in profile.templates)))
    faults += [f"control token {token!r} is in no template" for token in profile.control_tokens if token not in text]
    return faults


def _template_faults(template: ProfileTemplate, profile: Profile) -> list[str]:
    used = template.slots
    faults = [f"template has an unknown slot {{{slot}}}" for slot in sorted(used - TEMPLATE_SLOTS)]
    if template.text.count("{text}") != 1 or "{text}" in template.system:
        faults.append("a template must have the slot {text} once")
    both = template.text + template.system
    faults += [f"a template may have the slot {{{slot}}} once" for slot in SLOTS if both.count(f"{{{slot}}}") > 1]
    if ("terms" in used) != ({"term", "translation"} <= slots_of(template.term)):
        faults.append(
            "a template with the slot {terms} must have a term with {term} and {translation}, and no other one"
        )
    if template.instruction and ("instructions" not in used or "instruction" not in slots_of(template.instruction)):
        faults.append("an instruction must have the slot {instruction}, and its template {instructions}")
    if ("formality" in used) != (template.formality is not None):
        faults.append("a template with the slot {formality} must have its words, and no other one")
    if template.answer.count("{text}") != 1:
        faults.append("an answer must have the slot {text} once")
    if template.system and profile.wire is not None and "{system}" not in profile.wire:
        faults.append("a template has a system prompt but the wire has no slot {system}")
    if template.names == "zh":
        faults += [f"language {tag!r} lacks its Chinese name" for tag, one in profile.languages.items() if not one.zh]
    return faults


# ---- reading

Tables = Mapping[str, Any]
Base = Callable[[str], Tables]


def read_profile(path: Path, base: Base) -> Profile:
    """Read a profile from a TOML file. `base` returns the tables of an extended profile. Raises `ConfigError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"profile {path}: cannot be read: {fault}") from fault
    return parse_profile(parse_tables(text, str(path)), str(path), base)


def parse_tables(text: str, where: str) -> Tables:
    """Parse a profile's TOML. `where` names the file in errors. Raises `ConfigError`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"profile {where}: not TOML: {fault}") from fault


def parse_profile(tables: Tables, where: str, base: Base) -> Profile:
    """Build a profile from a file's tables. Raises `ConfigError` for an unknown or missing key, or a wrong type."""
    merged = dict(_extended(tables, where, base))
    merged["languages"] = _languages(merged.get("languages"))
    for key, known, at in _keys(merged):
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
            raise ConfigError(f"profile {where}: unknown key {key!r}; {hint}{at}")
    try:
        # As JSON: a list is then accepted for a tuple, while every other type must match exactly.
        return _adapter().validate_json(json.dumps(merged, default=str), strict=True)
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        path = ".".join(str(step) for step in first["loc"])
        raise ConfigError(f"profile {where}: {path}: {first['msg']}") from fault


@cache
def _adapter() -> TypeAdapter[Profile]:
    return TypeAdapter(Profile)


def _extended(tables: Tables, where: str, base: Base) -> Tables:
    if "extends" not in tables:
        return tables
    name = tables["extends"]
    if not isinstance(name, str):
        raise ConfigError(f"profile {where}: extends: must be the name of a profile")
    own = {key: value for key, value in tables.items() if key != "extends"}
    return {**_extended(base(name), name, base), **own}


def _languages(value: Any) -> Any:
    """`de = "German"` is short for `de = { en = "German", code = "de" }`."""
    if not isinstance(value, dict):
        return value
    named = ((tag, {"en": one} if isinstance(one, str) else one) for tag, one in cast("dict[str, Any]", value).items())
    return {tag: {"code": tag, **cast("Tables", one)} if isinstance(one, dict) else one for tag, one in named}


def _keys(tables: Tables) -> Iterator[tuple[str, frozenset[str], str]]:
    """Yield each key that must be a field, the allowed fields, and the key's table."""
    nested: tuple[tuple[str, type, list[Any]], ...] = (
        ("", Profile, [tables]),
        ("templates", ProfileTemplate, _items(tables.get("templates"))),
        ("models", ModelSize, _items(tables.get("models"))),
        ("languages", Language, _items(tables.get("languages"))),
        (
            "formality",
            FormalityWords,
            [one.get("formality") for one in _items(tables.get("templates")) if isinstance(one, dict)],
        ),
        ("examples", ExampleForm, [tables.get("examples")]),
        ("reworded", RewordedForm, [tables.get("reworded")]),
        ("marks", MarkForm, [tables.get("marks")]),
        ("match", Match, [tables.get("match")]),
        ("sampling", Sampling, [tables.get("sampling")]),
    )
    for table_name, made, found in nested:
        known = frozenset(one.name for one in fields(made))
        for table in found:
            for key in cast("Tables", table) if isinstance(table, dict) else ():
                yield key, known, f" (in {table_name})" if table_name else ""


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("Tables", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []
