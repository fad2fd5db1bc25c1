"""A profile's prompt for one direction, as trusted text with places left for the user's: still text, not yet ids.

Where a profile has no wire of its own, the checkpoint's chat template gives it: a turn with marks in place of the user's
texts is rendered, then cut at the marks. Knows no encoding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import ConfigError
from dragoman.prompts.profile import Profile, Template, fill
from dragoman.prompts.tokenizer import Message, TextTokenizer


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for text that is not ours."""

    name: Literal["text", "context"]


Part = str | Slot
_TEXT, _CONTEXT = Slot("text"), Slot("context")

# Plain letters: what a template may trim, escape or change must not touch them.
_MARKS = {"text": "DragomanTextGoesHereQx7", "context": "DragomanContextGoesHereQx7"}
_AT_MARK = re.compile("|".join(_MARKS.values()))
_AT_SLOT = re.compile(r"\{text\}|\{context\}")
_TEXT_MARKS = {_MARKS["text"], "{text}"}


def language_values(profile: Profile, template: Template, source: str | None, target: str) -> dict[str, str]:
    """The languages' values for a template's slots."""
    into = profile.languages[target]
    values = {"target": into.name(template.names), "target_code": into.code}
    if source is not None:
        from_ = profile.languages[source]
        values |= {"source": from_.name(template.names), "source_code": from_.code}
    return values


def render_parts(
    profile: Profile, tokenizer: TextTokenizer, template: Template, source: str | None, target: str
) -> tuple[Part, ...]:
    """The whole prompt. Raises `ConfigError` when the checkpoint's chat template cannot carry it."""
    values = language_values(profile, template, source, target)
    system, user = fill(template.system, values), fill(template.text, values)
    if profile.wire is not None:
        return _cut(fill(profile.wire, values | {"system": system, "user": user}), _AT_SLOT)
    rendered = render_chat(profile, tokenizer, fill(system, _MARKS), fill(user, _MARKS))
    parts = _cut(rendered, _AT_MARK)
    _check_cut(parts, template, tokenizer)
    return parts


def render_chat(profile: Profile, tokenizer: TextTokenizer, system: str, user: str) -> str:
    """One translation turn through the checkpoint's chat template; a system prompt it has no place for opens the turn."""
    if not system:
        return tokenizer.render_chat(_messages("", user), profile.chat_arguments)
    try:
        rendered = tokenizer.render_chat(_messages(system, user), profile.chat_arguments)
    except ConfigError:  # such as Gemma's "System role not supported"
        rendered = ""
    if system.strip() in rendered:
        return rendered
    return tokenizer.render_chat(_messages("", f"{system}\n\n{user}"), profile.chat_arguments)


def _messages(system: str, user: str) -> list[Message]:
    turn: list[Message] = [{"role": "user", "content": user}]
    return [{"role": "system", "content": system}, *turn] if system else turn


def _cut(rendered: str, at: re.Pattern[str]) -> tuple[Part, ...]:
    parts: list[Part] = []
    place = 0
    for mark in at.finditer(rendered):
        parts += [rendered[place : mark.start()], _TEXT if mark[0] in _TEXT_MARKS else _CONTEXT]
        place = mark.end()
    return tuple(part for part in [*parts, rendered[place:]] if part != "")


def _check_cut(parts: tuple[Part, ...], template: Template, tokenizer: TextTokenizer) -> None:
    if parts.count(_TEXT) != 1 or parts.count(_CONTEXT) != template.needs_context:
        raise ConfigError(
            f"the chat template of {tokenizer.name} loses or repeats what a user says: name a profile made for this model"
        )
    answer = "".join(part for part in parts[parts.index(_TEXT) :] if isinstance(part, str))
    if answer.count("<think>") > answer.count("</think>"):
        raise ConfigError(f"{tokenizer.name} always thinks before it answers: use its instruct (non-thinking) sibling")
