"""Encodes a segment as the token ids of a prompt, in which no text of a client can become a control token.

A profile's prompt for one direction is rendered first, with slots for the client's texts. If the profile has no wire format
of its own, the checkpoint's chat template renders it, with placeholders in the slots. Then the control tokens of the
template are found, before any text is in it, and each becomes its id. The parts between two control tokens, template words
together with text, are encoded by a tokenizer without control tokens. So the ids equal the vendor's own rendering for
ordinary text (to encode the text separately would break merges at its edges), and hostile text stays text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from dragoman.errors import ConfigError, EngineFailed, InvalidRequest
from dragoman.prompts.options import (
    SLOTS,
    escape_tags,
    fill,
    has_marks,
    instruction_block,
    instruction_lines,
    term_lines,
    unescape_tags,
)
from dragoman.prompts.profile import NO_OPTIONS, Profile, ProfileTemplate
from dragoman.prompts.tokenizer import TextTokenizer, most_tokens
from dragoman.prompts.vendor import Message
from dragoman.types import Example, PromptOption, PromptOptions, Role, Sampling

_PROBE = "Good morning."
_MAX_CHAT_PLANS = 64
_MAX_PLANS = 4_096
"""Plans that are kept in memory: one for each direction and template, and for each number of examples."""
_MAX_TEMPLATES = 512


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt for the engine. `source_tokens`: the number of ids of the text to translate."""

    token_ids: tuple[int, ...]
    source_tokens: int


@dataclass(frozen=True, slots=True)
class _Run:
    """A part of a prompt between two control tokens."""

    parts: tuple[Part, ...]
    prefix: bool  # the tokenizer puts a space before it
    strip_left: bool  # the control token before it absorbs white space
    strip_right: bool
    has_text: bool = False  # the text to translate is in it
    overhead: int = 0  # the number of its ids with empty slots

    def fill(self, values: Mapping[str, str]) -> str:
        filled = "".join(part if isinstance(part, str) else values[part.name] for part in self.parts)
        filled = filled.lstrip() if self.strip_left else filled
        return filled.rstrip() if self.strip_right else filled

    def fill_all(self, text: str) -> str:
        """Fill every slot with the same text."""
        return self.fill({part.name: text for part in self.parts if isinstance(part, Slot)})


@dataclass(frozen=True, slots=True)
class _Plan:
    """A prompt for one direction, encoded except for runs with slots. `overhead`: the number of ids with empty slots."""

    items: tuple[tuple[int, ...] | _Run, ...]
    overhead: int


class PromptEncoder:
    """Encodes the prompts of a profile with a tokenizer. Raises `ConfigError` if the two do not fit.

    `difference`: how the profile differs from the checkpoint's own chat template; empty: it does not.
    """

    def __init__(self, profile: Profile, tokenizer: TextTokenizer, difference: str = "") -> None:
        self.profile = profile
        self.difference = difference
        self.tokenizer = tokenizer
        self._opening = tokenizer.opening_ids if profile.bos == "tokenizer" else ()
        self._plan = lru_cache(_MAX_PLANS)(self._build_text_plan)
        self._templates: dict[tuple[str | None, str, bool, frozenset[PromptOption]], ProfileTemplate] = {}
        self._chat_plan = lru_cache(_MAX_CHAT_PLANS)(self._build_chat_plan)
        self.sampling = _with_stop_ids(profile, tokenizer)
        """The profile's sampling, with ids of the stop tokens."""
        self._check_wire()
        self.takes_examples = _takes_examples(profile, tokenizer)
        """Whether prompts have a place for examples, in the profile and in the checkpoint's chat template."""

    def encode(self, text: str, source: str | None, target: str, options: PromptOptions = NO_OPTIONS) -> Prompt:
        """Encode the prompt. Options for which the profile has no prompt in this direction are ignored.

        Raises `UnsupportedLanguage` for a direction that the model does not serve, `UntranslatableText` for a lone
        surrogate. Options have examples only where `takes_examples`.
        """
        template = self._template(source, target, options)
        values = slot_values(self.profile, template, text, target, options)
        if options.examples:
            turns = self._turns(source, target, options)
            plan = self._plan(template, source, target, tuple(turn for turn, _ in turns))
            values |= example_values(self.profile, turns, target, options.examples)
        else:
            plan = self._plan(template, source, target, ())
        ids: list[int] = []
        source_tokens = 0
        for item in plan.items:
            own = self._encode_run(item, item.fill(values)) if isinstance(item, _Run) else item
            ids.extend(own)
            if isinstance(item, _Run) and item.has_text:
                source_tokens += len(own) - item.overhead
        if not template.slots.isdisjoint(SLOTS):
            source_tokens = self.tokenizer.count(values["text"])
        return Prompt(tuple(ids), max(source_tokens, 1))

    @property
    def takes_chats(self) -> bool:
        """Whether the model can be given a chat as it is: it follows instructions, and has a chat template."""
        return self.profile.follows_instructions and self.tokenizer.has_chat_template

    def encode_chat(self, messages: Sequence[tuple[Role, str]]) -> Prompt:
        """Encode a chat by the checkpoint's own chat template, up to where the answer begins.

        The template sees no message, only where each of them stands. Raises `InvalidRequest` if it does not take these roles
        in this order, `UntranslatableText` for a lone surrogate.
        """
        plan = self._chat_plan(tuple(role for role, _ in messages))
        values = {_message_slot(number): text for number, (_, text) in enumerate(messages)}
        ids: list[int] = []
        for item in plan.items:
            ids.extend(self._encode_run(item, item.fill(values)) if isinstance(item, _Run) else item)
        return Prompt(tuple(ids), max(len(ids) - plan.overhead, 1))

    def overhead(self, source: str | None, target: str, options: PromptOptions = NO_OPTIONS) -> int:
        """Return the number of a prompt's ids that are not the text's, give or take one where text and template meet."""
        template = self._template(source, target, options)
        if template.slots.isdisjoint(SLOTS):
            return self._plan(template, source, target, ()).overhead
        return len(self.encode("", source, target, options).token_ids)

    def render(self, text: str, source: str | None, target: str, options: PromptOptions = NO_OPTIONS) -> str:
        """Render the prompt as the vendor does, for comparisons and for people. Never encode it: it has a client's text."""
        template = self._template(source, target, options)
        turns = self._turns(source, target, options)
        values = slot_values(self.profile, template, text, target, options)
        values |= example_values(self.profile, turns, target, options.examples)
        parts = render_parts(self.profile, self.tokenizer, template, source, target, [turn for turn, _ in turns])
        return "".join(part if isinstance(part, str) else values[part.name] for part in parts)

    def answer(
        self, output: str, text: str, source: str | None, target: str, options: PromptOptions = NO_OPTIONS
    ) -> str:
        """Extract the translation from an output: remove the format of the answer or the text, and write marks as in `text`."""
        template = self._template(source, target, options)
        before, _, after = template.answer.partition("{text}")
        if before or after or template.tags:
            output = output.strip().removeprefix(before).removesuffix(after)
            for tag in template.tags:  # some models write their answers as the text was written
                output = output.removeprefix(f"<{tag}>").removesuffix(f"</{tag}>")
            output = unescape_tags(output, text, template.tags)
        return self.profile.marks.read(output, text) if options.marks else output

    def example_tokens(
        self,
        examples: Sequence[Example],
        source: str | None,
        target: str,
        options: PromptOptions = NO_OPTIONS,
        *,
        at_most: bool = False,
    ) -> int:
        """Return the number of a prompt's ids that examples take, give or take some where they meet the template.

        `at_most`: a number that it does not exceed, for a small part of the time.
        """
        given = replace(options, examples=tuple(examples))
        turns = self._turns(source, target, given)
        template = self._template(source, target, options)
        around = self._plan(template, source, target, tuple(turn for turn, _ in turns)).overhead
        around -= self._plan(template, source, target, ()).overhead
        values = example_values(self.profile, turns, target, given.examples)
        count = most_tokens if at_most else self.tokenizer.count
        return around + sum(count(value) for value in values.values() if value)

    def _turns(
        self, source: str | None, target: str, options: PromptOptions
    ) -> Sequence[tuple[ProfileTemplate, PromptOptions]]:
        """The template and the options of each example's turns: what belongs to the text alone is not asked of them."""
        if not options.examples:
            return ()
        own = replace(options, context=None, terms=(), examples=(), marks=False)
        plain = self._template(source, target, own), own
        if not options.marks:
            return [plain] * len(options.examples)
        own = replace(own, marks=True)
        marked = self._template(source, target, own), own
        return [marked if has_marks(one.source) else plain for one in options.examples]

    def _template(self, source: str | None, target: str, options: PromptOptions) -> ProfileTemplate:
        key = (source, target, options.reworded, _NOTHING_GIVEN if options is NO_OPTIONS else options.given)
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = self.profile.template(source, target, options)
        return template

    def _encode_run(self, run: _Run, text: str) -> list[int]:
        ids = self.tokenizer.encode_text(text, prefix=run.prefix)
        if not self.tokenizer.added_ids.isdisjoint(ids):
            raise EngineFailed("a text was encoded as a control token and was therefore not sent to the model")
        return ids

    def _build_text_plan(
        self, template: ProfileTemplate, source: str | None, target: str, turns: tuple[ProfileTemplate, ...]
    ) -> _Plan:
        """`turns`: the templates of the examples' turns."""
        return self._build_plan(render_parts(self.profile, self.tokenizer, template, source, target, turns))

    def _build_chat_plan(self, roles: tuple[Role, ...]) -> _Plan:
        return self._build_plan(render_chat_parts(self.profile, self.tokenizer, roles))

    def _build_plan(self, parts: tuple[Part, ...]) -> _Plan:
        runs, controls = self._runs(parts)
        items: list[tuple[int, ...] | _Run] = []
        opening = self._opening
        if opening and controls and self.tokenizer.control_id(controls[0]) == opening[0] and not runs[0]:
            opening = ()  # the wire format begins with BOS itself
        items.append(opening)
        for place, run_parts in enumerate(runs):
            if place:
                items.append((self.tokenizer.control_id(controls[place - 1]),))
            if run_parts:
                run = self._run(run_parts, controls, place)
                empty = tuple(self._encode_run(run, run.fill_all("")))
                has_slots = any(isinstance(part, Slot) for part in run_parts)
                has_text = _TEXT in run_parts
                items.append(replace(run, has_text=has_text, overhead=len(empty)) if has_slots else empty)
        overhead = sum(item.overhead if isinstance(item, _Run) else len(item) for item in items)
        return _Plan(tuple(_merged(items)), overhead)

    def _runs(self, parts: tuple[Part, ...]) -> tuple[list[tuple[Part, ...]], list[str]]:
        """Split the parts into runs and the control tokens between them: one run more than tokens."""
        runs: list[list[Part]] = [[]]
        controls: list[str] = []
        for part in parts:
            if isinstance(part, Slot):
                runs[-1].append(part)
                continue
            for place, text in enumerate(self.tokenizer.split(part)):
                if place % 2:
                    controls.append(text)
                    runs.append([])
                elif text:
                    runs[-1].append(text)
        return [tuple(run) for run in runs], controls

    def _run(self, parts: tuple[Part, ...], controls: list[str], place: int) -> _Run:
        before = controls[place - 1] if place else ""
        after = controls[place] if place < len(controls) else ""
        strip_left = bool(before) and self.tokenizer.absorbs_space(before)[1]
        strip_right = bool(after) and self.tokenizer.absorbs_space(after)[0]
        run = _Run(parts, prefix=True, strip_left=strip_left, strip_right=strip_right)
        # Tokenizers differ in where they add a space: test the vendor's with this run.
        probe = run.fill_all(_PROBE)
        expected = self.tokenizer.encode_template(before + probe)[1 if before else 0 :]
        return replace(run, prefix=self.tokenizer.encode_text(probe, prefix=False) != expected)

    def _check_wire(self) -> None:
        """Raise `ConfigError` unless the tokenizer has every control token of the profile, for each language."""
        for token in self.profile.control_tokens:
            for tag in self.profile.languages if "{" in token else ("",):
                values = language_values(self.profile, self.profile.templates[0], tag, tag) if tag else {}
                self.tokenizer.control_id(fill(token, values))


def _with_stop_ids(profile: Profile, tokenizer: TextTokenizer) -> Sampling:
    stops = [tokenizer.control_id(token) for token in profile.stop_tokens]
    stops += [tokenizer.control_id(token) for token in profile.optional_stop_tokens if tokenizer.has(token)]
    ids = dict.fromkeys((*profile.sampling.stop_token_ids, *stops))
    return replace(profile.sampling, stop_token_ids=tuple(ids))


def _merged(items: list[tuple[int, ...] | _Run]) -> list[tuple[int, ...] | _Run]:
    """Join neighbouring ids into one tuple."""
    merged: list[tuple[int, ...] | _Run] = []
    for item in items:
        if merged and isinstance(item, tuple) and isinstance(merged[-1], tuple):
            merged[-1] = merged[-1] + item
        else:
            merged.append(item)
    return merged


# ---- rendering


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a client's text in a prompt."""

    name: str


Part = str | Slot
_NOTHING_GIVEN = NO_OPTIONS.given
_NAMES: tuple[str, ...] = ("text", "number", *SLOTS)
_TEXT = Slot("text")
_EMPTY: dict[str, str] = dict.fromkeys(_NAMES, "")
_AT_STAND_IN = re.compile(r"Dragoman([A-Z][a-z]+\d*)GoesHereQx7")
_AT_SLOT = re.compile(rf"\{{((?:{'|'.join(_NAMES)}|answer)\d*)\}}")


def _stand_in(name: str) -> str:
    """What stands for a slot in a rendering: letters and digits, which no template trims, escapes or changes."""
    return f"Dragoman{name.capitalize()}GoesHereQx7"


_STAND_INS = {name: _stand_in(name) for name in _NAMES}


def slot_values(
    profile: Profile, template: ProfileTemplate, text: str, target: str, options: PromptOptions
) -> dict[str, str]:
    """Return the values of a template's slots for the client's text and the call's options."""
    text = text.strip() if profile.trim_text else text
    if template.tags:
        text = escape_tags(text, template.tags)
    values = _EMPTY | {"text": profile.marks.write(text) if options.marks else text}
    used = template.slots
    if used.isdisjoint(SLOTS):
        return values
    values["context"] = options.context or ""
    values["terms"] = term_lines(template.term, options) if "terms" in used else ""
    values["formality"] = template.formality.of(options) if template.formality else ""
    if template.instruction:
        values["instructions"] = instruction_lines(template.instruction, options)
        values["number"] = str(len(options.instructions) + 1)
    elif template.has_block:
        name = profile.languages[target].name(template.names)
        values["instructions"] = instruction_block(options, profile.marks, name, template.needs)
    return values


def example_values(
    profile: Profile,
    turns: Sequence[tuple[ProfileTemplate, PromptOptions]],
    target: str,
    examples: Sequence[Example],
) -> dict[str, str]:
    """Return the values of the slots of all examples, whose names end with the number of the example, from 1 on.

    Both halves are written as the text is: with the escapes of tags, and with marks in the profile's form.
    """
    values: dict[str, str] = {}
    for number, ((template, own), example) in enumerate(zip(turns, examples, strict=True), 1):
        translation = example.translation.strip() if profile.trim_text else example.translation
        translation = escape_tags(translation, template.tags) if template.tags else translation
        halves = slot_values(profile, template, example.source, target, own)
        halves["answer"] = profile.marks.write(translation) if own.marks else translation
        values |= {f"{name}{number}": halves[name] for name in ("answer", *_slots_in(template.text))}
    return values


@lru_cache(_MAX_TEMPLATES)
def _slots_in(template: str) -> tuple[str, ...]:
    """The names of a template's slots for a client's texts."""
    return tuple(name for name in _NAMES if f"{{{name}}}" in template)


def language_values(profile: Profile, template: ProfileTemplate, source: str | None, target: str) -> dict[str, str]:
    """Return the values of a template's slots for languages."""
    into = profile.languages[target]
    values = {"target": into.name(template.names), "target_code": into.code}
    if source is not None:
        from_ = profile.languages[source]
        values |= {"source": from_.name(template.names), "source_code": from_.code}
    return values


def render_parts(
    profile: Profile,
    tokenizer: TextTokenizer,
    template: ProfileTemplate,
    source: str | None,
    target: str,
    turns: Sequence[ProfileTemplate] = (),
) -> tuple[Part, ...]:
    """Render the prompt with its slots, and those of examples by the templates `turns`. Raises `ConfigError` if the
    checkpoint's chat template cannot render it."""
    values = language_values(profile, template, source, target)
    system, user = fill(template.system, values), fill(template.text, values)
    if profile.wire is not None:
        examples = ""
        if turns and profile.examples is not None:
            written = example_turns(profile, turns, source, target, "{{{}}}".format)
            form = profile.examples.turn
            examples = "".join(fill(form, {"user": one, "answer": answer}) for one, answer in written)
        return _cut(fill(profile.wire, values | {"system": system, "user": user, "examples": examples}), _AT_SLOT)
    before = example_turns(profile, turns, source, target, _stand_in)
    system, user = fill(system, _STAND_INS), fill(user, _STAND_INS)
    parts = _cut(render_chat(profile, tokenizer, system, user, before), _AT_STAND_IN)
    _check_cut(parts, (system, *(half for turn in before for half in turn), user), tokenizer)
    return parts


def example_turns(
    profile: Profile,
    turns: Sequence[ProfileTemplate],
    source: str | None,
    target: str,
    written: Callable[[str], str],
) -> list[tuple[str, str]]:
    """Return the user's and the model's turn of each example, whose slots are numbered from 1 on; `written` writes a slot."""
    pairs: list[tuple[str, str]] = []
    for number, template in enumerate(turns, 1):
        values = language_values(profile, template, source, target)
        slots = {name: written(f"{name}{number}") for name in _NAMES}
        answer = fill(template.answer, {"text": written(f"answer{number}")})
        pairs.append((fill(template.text, values | slots), answer))
    return pairs


def render_chat(
    profile: Profile, tokenizer: TextTokenizer, system: str, user: str, before: Sequence[tuple[str, str]] = ()
) -> str:
    """Render a turn, after those of examples `before`, by the checkpoint's chat template. If it takes no system prompt, that
    begins the user's first turn."""
    turns = [*before, (user, "")]
    if not system:
        return tokenizer.render_chat(chat_messages("", turns), profile.chat_arguments)
    try:
        rendered = tokenizer.render_chat(chat_messages(system, turns), profile.chat_arguments)
    except ConfigError:  # such as Gemma's "System role not supported"
        rendered = ""
    if system.strip() in rendered:
        return rendered
    turns[0] = f"{system}\n\n{turns[0][0]}", turns[0][1]
    return tokenizer.render_chat(chat_messages("", turns), profile.chat_arguments)


def render_chat_parts(profile: Profile, tokenizer: TextTokenizer, roles: Sequence[Role]) -> tuple[Part, ...]:
    """Render a chat with a slot for each message, by the checkpoint's chat template.

    If it takes no system message there, these begin the first user turn. Raises `InvalidRequest` if it takes none of both.
    """
    turns: list[tuple[Role, str]] = [(role, _stand_in(_message_slot(number))) for number, role in enumerate(roles)]
    for messages in (turns, _without_system(turns)):
        try:
            rendered = tokenizer.render_chat(
                [{"role": role, "content": text} for role, text in messages], profile.chat_arguments
            )
        except ConfigError:  # such as Gemma's "System role not supported"
            continue
        parts = _cut(rendered, _AT_STAND_IN)
        if Counter(_slot_names(parts)) == Counter(map(_message_slot, range(len(turns)))):
            return parts
    raise InvalidRequest(
        f"the chat template of this model does not take messages in this order: {', '.join(roles)[:200]}",
        param="messages",
    )


def _message_slot(number: int) -> str:
    return f"message{number}"


def _without_system(turns: Sequence[tuple[Role, str]]) -> list[tuple[Role, str]]:
    """The turns with all system messages at the beginning of the first user turn."""
    system = [text for role, text in turns if role == "system"]
    rest: list[tuple[Role, str]] = [(role, text) for role, text in turns if role != "system"]
    first = next((place for place, (role, _) in enumerate(rest) if role == "user"), None)
    if first is not None:
        rest[first] = ("user", "\n\n".join((*system, rest[first][1])))
    return rest


def chat_messages(system: str, turns: Sequence[tuple[str, str]]) -> list[Message]:
    """The messages of turns, of which the last has no answer."""
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for user, answer in turns:
        messages += [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
    return messages[:-1]


def _takes_examples(profile: Profile, tokenizer: TextTokenizer) -> bool:
    """Whether prompts have a place for examples: the checkpoint's chat template may take no earlier turns."""
    if not profile.takes_examples:
        return False
    simple = ProfileTemplate("{text}", system="Translate." if any(one.system for one in profile.templates) else "")
    try:
        render_parts(profile, tokenizer, simple, None, next(iter(profile.languages)), (simple, simple))
    except ConfigError:
        return False
    return True


def _cut(rendered: str, at: re.Pattern[str]) -> tuple[Part, ...]:
    parts: list[Part] = []
    place = 0
    for mark in at.finditer(rendered):
        parts += [rendered[place : mark.start()], Slot(mark[1].lower())]
        place = mark.end()
    return tuple(part for part in [*parts, rendered[place:]] if part != "")


def _slot_names(parts: Sequence[Part]) -> list[str]:
    return [part.name for part in parts if isinstance(part, Slot)]


def _texts(names: Sequence[str]) -> list[str]:
    """Of slots' names, those of examples and of the text."""
    return [name for name in names if name == "text" or name[-1].isdigit()]


def _check_cut(parts: tuple[Part, ...], messages: Sequence[str], tokenizer: TextTokenizer) -> None:
    """Raise `ConfigError` unless each slot of the messages is there once, and the text after all examples in their order."""
    found, expected = _slot_names(parts), _slot_names(_cut("".join(messages), _AT_STAND_IN))
    if sorted(found) != sorted(expected) or _texts(found) != _texts(expected):
        raise ConfigError(
            f"the chat template of {tokenizer.name} loses or repeats the text to translate;"
            " name a profile made for this model with --profile"
        )
    answer = "".join(part for part in parts[parts.index(_TEXT) :] if isinstance(part, str))
    if answer.count("<think>") > answer.count("</think>"):
        raise ConfigError(f"{tokenizer.name} always reasons before it answers: use its instruct (non-thinking) version")
