"""What a model must be told, and how, for it to translate: the nouns of a profile.

A profile is data. It holds the prompt templates a model was trained on, the language names those templates use, the wire
form around a turn, how tokens are chosen and when to stop. Knows no tokenizer, no engine and no file: `reading` makes
profiles from TOML, `catalog` has those that ship, `encode` turns one and a text into token ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from dragoman.errors import ConfigError, UnsupportedLanguage
from dragoman.types import Sampling

Mode = Literal["chat", "structured", "raw"]
"""`chat`: one user turn, perhaps a system turn. `structured`: a user turn whose message carries language codes
(TranslateGemma). `raw`: plain completion, no turns."""

NameLanguage = Literal["en", "zh"]

TEMPLATE_SLOTS = frozenset({"text", "context", "source", "target", "source_code", "target_code"})
WIRE_SLOTS = frozenset({"user", "system"})
_SLOT = re.compile(r"\{(\w+)\}")


def slots_of(template: str) -> frozenset[str]:
    """The names in braces: `{text}` and the like. Every other brace is literal."""
    return frozenset(_SLOT.findall(template))


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put `values` in their slots, in one pass: a value's own braces are never slots. Slots without a value stay."""
    return _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), template)


@dataclass(frozen=True, slots=True)
class Language:
    """One served language as the model's prompts name it. `zh` is empty where no template uses Chinese names."""

    en: str
    code: str
    zh: str = ""

    def name(self, which: NameLanguage) -> str:
        return self.zh if which == "zh" else self.en


@dataclass(frozen=True, slots=True)
class Template:
    """One trained prompt. Its slots say what it needs: `{source}` a known source, `{context}` a context."""

    text: str
    system: str = ""
    names: NameLanguage = "en"
    chinese: bool = False  # only where the source or the target is Chinese

    @property
    def needs_source(self) -> bool:
        return bool({"source", "source_code"} & (slots_of(self.text) | slots_of(self.system)))

    @property
    def needs_context(self) -> bool:
        return "context" in slots_of(self.text) | slots_of(self.system)

    def fits(self, source: str | None, target: str, *, with_context: bool) -> bool:
        if self.needs_source and source is None:
            return False
        if self.needs_context and not with_context:
            return False
        return not self.chinese or _is_chinese(source) or _is_chinese(target)


@dataclass(frozen=True, slots=True)
class Match:
    """How a checkpoint is recognised. `names` are regular expressions searched for in its name; the rest is config.json."""

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
    """Everything the prompts of one model family need. `wire` None: the checkpoint's own chat template is the wire."""

    name: str
    title: str
    mode: Mode
    templates: tuple[Template, ...]  # the first that fits is used
    languages: Mapping[str, Language]  # by tag
    wire: str | None = None
    control_tokens: tuple[str, ...] = ()  # of wire and templates; a tokenizer that lacks one is the wrong tokenizer
    bos: Literal["template", "tokenizer"] = "template"  # tokenizer: put first what it puts before any text
    chat_arguments: Mapping[str, object] = field(
        default_factory=dict[str, object]
    )  # for the checkpoint's chat template
    trim_text: bool = False  # the vendor's template strips white space around the text
    sampling: Sampling = field(default_factory=Sampling)
    stop_tokens: tuple[str, ...] = ()
    optional_stop_tokens: tuple[str, ...] = ()  # stops where the tokenizer has them
    max_source_tokens: int | None = None  # the model's own limit on one text; longer ones are cut into segments
    pivots: tuple[str, ...] = ()  # one side must be one of these; empty: every direction
    match: Match = field(default_factory=Match)
    models: tuple[ModelSize, ...] = ()
    licence: str = ""
    territory: str = ""  # where the licence does not let it be used
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
    def takes_context(self) -> bool:
        return any(template.needs_context for template in self.templates)

    def serves(self, source: str | None, target: str) -> bool:
        """Whether the model was made for this direction. `source` None: the language is not known."""
        if target not in self.languages or (source is not None and source not in self.languages):
            return False
        if source is None:
            return not self.needs_source
        return not self.pivots or source in self.pivots or target in self.pivots

    def template(self, source: str | None, target: str, *, with_context: bool) -> Template:
        """The first template that fits. Raises `UnsupportedLanguage` for a direction the model does not serve."""
        if not self.serves(source, target):
            raise self._unsupported(source, target)
        fitting = (item for item in self.templates if item.fits(source, target, with_context=with_context))
        found = next(fitting, None)
        if found is None:
            raise self._unsupported(source, target)
        return found

    def _unsupported(self, source: str | None, target: str) -> UnsupportedLanguage:
        if target not in self.languages:
            return UnsupportedLanguage(f"{self.title} does not translate into {target!r}", param="target")
        if source is None:
            return UnsupportedLanguage(f"{self.title} must be told the source language", param="source")
        if source not in self.languages:
            return UnsupportedLanguage(f"{self.title} does not translate from {source!r}", param="source")
        pivots = " or ".join(self.pivots)
        return UnsupportedLanguage(
            f"{self.title} translates only from or into {pivots}, not {source!r} to {target!r}", param="target"
        )


def _is_chinese(tag: str | None) -> bool:
    return tag is not None and tag.partition("-")[0] == "zh"


def _faults(profile: Profile) -> list[str]:
    """What is inconsistent, in words. Empty when nothing is."""
    faults = [fault for template in profile.templates for fault in _template_faults(template, profile)]
    if not profile.templates:
        faults.append("has no templates")
    if not profile.languages:
        faults.append("has no languages")
    if profile.wire is None:
        if profile.mode != "chat":
            faults.append(f"mode {profile.mode!r} needs a wire")
        return faults
    faults += [f"wire has an unknown slot {{{slot}}}" for slot in sorted(slots_of(profile.wire) - WIRE_SLOTS)]
    if profile.wire.count("{user}") != 1:
        faults.append("wire must have the slot {user} once")
    ours = "".join((profile.wire, *(template.text for template in profile.templates)))
    faults += [f"control token {token!r} is in no template" for token in profile.control_tokens if token not in ours]
    return faults


def _template_faults(template: Template, profile: Profile) -> list[str]:
    used = slots_of(template.text) | slots_of(template.system)
    faults = [f"template has an unknown slot {{{slot}}}" for slot in sorted(used - TEMPLATE_SLOTS)]
    if template.text.count("{text}") != 1 or "{text}" in template.system:
        faults.append("a template must have the slot {text} once")
    if (template.text + template.system).count("{context}") > 1:
        faults.append("a template may have the slot {context} once")
    if template.system and profile.wire is not None and "{system}" not in profile.wire:
        faults.append("a template has a system prompt but the wire has no slot {system}")
    if template.names == "zh":
        faults += [f"language {tag!r} lacks its Chinese name" for tag, one in profile.languages.items() if not one.zh]
    return faults
