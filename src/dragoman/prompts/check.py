"""Compares a profile with its checkpoint at startup: both render and encode an ordinary text.

They differ if a vendor has changed a chat template, if a copy of a model has another one, or if a profile is wrong. Each
of these lowers the quality without any other sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Literal

from dragoman.errors import ConfigError
from dragoman.prompts.encoder import PromptEncoder, chat_messages, language_values, render_chat, slot_values
from dragoman.prompts.options import fill
from dragoman.prompts.profile import Profile, ProfileTemplate
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.prompts.vendor import Message
from dragoman.types import Example, PromptOptions

_TEXT = "Good morning!\nThe train leaves at 6:30, so we should hurry."
_OPTIONS = PromptOptions(
    context="Two friends on their way to the station.",
    terms=(("train", "Zug"), ("morning", "Morgen")),
    formality="more",
    instructions=("Be brief.",),
    marks=True,
)
_EXAMPLES = (Example("Good night!", "Gute Nacht!"), Example("We should wait.", "Wir sollten warten."))
_COMMON_TAGS = ("en", "de", "zh", "ja")


@dataclass(frozen=True, slots=True)
class TemplateDifference:
    """A difference of profile and checkpoint. `at`: its first place, in characters of the rendering or in tokens."""

    profile: str
    what: Literal["rendering", "tokens"]
    ours: str
    theirs: str
    at: int

    def __str__(self) -> str:
        return (
            f"profile {self.profile!r} and the checkpoint differ in {self.what} at {self.at}:\n"
            f"  profile:    {self.ours!r}\n  checkpoint: {self.theirs!r}"
        )


def compare(profile: Profile, tokenizer: TextTokenizer) -> TemplateDifference | None:
    """Return the first difference over all templates of the profile, or None."""
    encoder = PromptEncoder(profile, tokenizer)
    for template, source, target in _samples(profile):
        own = _options_of(template)
        for options in (own, replace(own, examples=_EXAMPLES))[: 1 + encoder.takes_examples]:
            ours = encoder.render(_TEXT, source, target, options)
            difference = _rendering(profile, tokenizer, template, source, target, options, ours)
            difference = difference or _tokens(encoder, source, target, options, ours)
            if difference is not None:
                return difference
    return None


def _samples(profile: Profile) -> Iterator[tuple[ProfileTemplate, str | None, str]]:
    """Return for each template a direction that uses it, if there is one."""
    served = [tag for tag in _COMMON_TAGS if tag in profile.languages] + list(profile.languages)[:4]
    pairs: list[tuple[str | None, str]] = [*permutations(dict.fromkeys(served), 2), *((None, tag) for tag in served)]
    for template in profile.templates:
        for source, target in pairs:
            if not profile.serves(source, target):
                continue
            if profile.template(source, target, _options_of(template)) is template:
                yield template, source, target
                break


def _options_of(template: ProfileTemplate) -> PromptOptions:
    """Return options for all slots of the template, and no others."""
    wanted = template.needs or (_OPTIONS.given if "instructions" in template.slots else frozenset[str]())
    return PromptOptions(
        context=_OPTIONS.context if "context" in wanted else None,
        terms=_OPTIONS.terms if "terms" in wanted else (),
        formality=_OPTIONS.formality if "formality" in wanted else "default",
        instructions=_OPTIONS.instructions if "instructions" in wanted else (),
        marks="marks" in wanted,
    )


def _rendering(
    profile: Profile,
    tokenizer: TextTokenizer,
    template: ProfileTemplate,
    source: str | None,
    target: str,
    options: PromptOptions,
    ours: str,
) -> TemplateDifference | None:
    if profile.mode == "raw" or not tokenizer.has_chat_template:
        return None
    values = language_values(profile, template, source, target)
    values |= slot_values(profile, template, _TEXT, target, options)
    system, user = fill(template.system, values), fill(template.text, values)
    before = _turns_before(profile, source, target, options)
    theirs: list[str] = []
    try:
        if profile.mode == "structured":
            theirs = [_structured(profile, tokenizer, values, opened) for opened in (True, False)]
        elif profile.wire is None:
            theirs = [render_chat(profile, tokenizer, system, user, before)]
        else:
            turns = [*before, (user, "")]
            theirs = [_turns(profile, tokenizer, system, turns, opened) for opened in (True, False)]
    except ConfigError as fault:
        return TemplateDifference(profile.name, "rendering", ours, fault.message, 0)
    return None if ours in theirs else _difference(profile, "rendering", ours, theirs[0])


def _turns_before(profile: Profile, source: str | None, target: str, options: PromptOptions) -> list[tuple[str, str]]:
    """The turns of the examples, as a chat has them."""
    own = replace(options, context=None, terms=(), examples=(), marks=False)
    template = profile.template(source, target, own)
    found: list[tuple[str, str]] = []
    for example in options.examples:
        values = language_values(profile, template, source, target)
        values |= slot_values(profile, template, example.source, target, own)
        found.append((fill(template.text, values), fill(template.answer, {"text": example.translation})))
    return found


def _turns(
    profile: Profile, tokenizer: TextTokenizer, system: str, turns: Sequence[tuple[str, str]], opened: bool
) -> str:
    messages = chat_messages(system, turns)
    return tokenizer.render_chat(messages, profile.chat_arguments, generation_prompt=opened)


def _structured(profile: Profile, tokenizer: TextTokenizer, values: dict[str, str], opened: bool) -> str:
    item = {
        "type": "text",
        "source_lang_code": values["source_code"],
        "target_lang_code": values["target_code"],
        "text": values["text"],
    }
    messages: list[Message] = [{"role": "user", "content": [item]}]
    return tokenizer.render_chat(messages, profile.chat_arguments, generation_prompt=opened)


def _tokens(
    encoder: PromptEncoder, source: str | None, target: str, options: PromptOptions, rendered: str
) -> TemplateDifference | None:
    ours = list(encoder.encode(_TEXT, source, target, options).token_ids)
    theirs = encoder.tokenizer.encode_template(rendered)
    opening = list(encoder.tokenizer.opening_ids) if encoder.profile.bos == "tokenizer" else []
    if opening and theirs[: len(opening)] != opening:
        theirs = opening + theirs
    return None if ours == theirs else _difference(encoder.profile, "tokens", ours, theirs)


def _difference(
    profile: Profile, what: Literal["rendering", "tokens"], ours: Sequence[Any], theirs: Sequence[Any]
) -> TemplateDifference:
    pairs = enumerate(zip(ours, theirs, strict=False))
    at = next((place for place, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
    return TemplateDifference(profile.name, what, str(ours), str(theirs), at)
