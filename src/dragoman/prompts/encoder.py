"""A segment and its languages become the ids of a prompt, in which no text of the user's can be a control token.

The template's control tokens are found in the template, before any text is put in it. Each becomes its id; what stands
between two of them, template words and the user's text together, is encoded in one go by an encoder that has no control
tokens. So ids equal the vendor's own rendering for ordinary text (encoding the user's text by itself would break merges
where it meets the template's words), and hostile text stays text. Knows no engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dragoman.errors import EngineFailed
from dragoman.prompts.profile import Profile, fill
from dragoman.prompts.rendering import Part, Slot, language_values, render_parts
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.types import Sampling

_PROBE = "Good morning."


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the engine is given. `source_tokens`: how many of the ids the text to translate added."""

    token_ids: tuple[int, ...]
    source_tokens: int


@dataclass(frozen=True, slots=True)
class _Run:
    """What stands between two control tokens and holds text of the user's."""

    parts: tuple[Part, ...]
    prefix: bool  # the tokenizer's own space comes before it
    strip_left: bool  # the control token before it takes in white space
    strip_right: bool

    def fill(self, text: str, context: str) -> str:
        values = {"text": text, "context": context}
        filled = "".join(part if isinstance(part, str) else values[part.name] for part in self.parts)
        filled = filled.lstrip() if self.strip_left else filled
        return filled.rstrip() if self.strip_right else filled


@dataclass(frozen=True, slots=True)
class _Plan:
    """A prompt for one direction, encoded but for the runs that hold text. `overhead`: ids of the prompt without text."""

    pieces: tuple[tuple[int, ...] | _Run, ...]
    overhead: int


class PromptEncoder:
    """Prompts of one profile for one tokenizer. Raises `ConfigError` when the two do not belong together."""

    def __init__(self, profile: Profile, tokenizer: TextTokenizer) -> None:
        self.profile = profile
        self.tokenizer = tokenizer
        self._opening = tokenizer.opening_ids if profile.bos == "tokenizer" else ()
        self._plans: dict[tuple[str | None, str, bool], _Plan] = {}  # at most one a direction the profile serves
        self.sampling = _resolved(profile, tokenizer)
        """The profile's sampling, its stop tokens as ids."""
        self._check_wire()

    def encode(self, text: str, source: str | None, target: str, context: str | None = None) -> Prompt:
        """Raises `UnsupportedLanguage` for a direction the model does not serve. Context it has no prompt for is left out."""
        plan = self._plan(source, target, with_context=bool(context))
        ids: list[int] = []
        for piece in plan.pieces:
            ids.extend(self._encode_run(piece, text, context or "") if isinstance(piece, _Run) else piece)
        added = len(ids) - plan.overhead
        if context and any(Slot("context") in piece.parts for piece in plan.pieces if isinstance(piece, _Run)):
            added -= self.tokenizer.count(context)
        return Prompt(tuple(ids), max(added, 1))

    def overhead(self, source: str | None, target: str, context: str | None = None) -> int:
        """How many ids of a prompt are not the text's; a token more or less where text and template meet."""
        plan = self._plan(source, target, with_context=bool(context))
        if not context:
            return plan.overhead
        return len(self.encode("", source, target, context).token_ids)

    def render(self, text: str, source: str | None, target: str, context: str | None = None) -> str:
        """The prompt as the vendor would write it, for comparing and for reading. Never encode it: it holds user text."""
        values = {"text": self._trimmed(text), "context": context or ""}
        parts = self._parts(source, target, with_context=bool(context))
        return "".join(part if isinstance(part, str) else values[part.name] for part in parts)

    def _trimmed(self, text: str) -> str:
        return text.strip() if self.profile.trim_text else text

    def _encode_run(self, run: _Run, text: str, context: str) -> list[int]:
        ids = self.tokenizer.encode_text(run.fill(self._trimmed(text), context), prefix=run.prefix)
        if not self.tokenizer.added_ids.isdisjoint(ids):
            raise EngineFailed("a text was encoded as a control token; it was not sent to the model")
        return ids

    def _parts(self, source: str | None, target: str, *, with_context: bool) -> tuple[Part, ...]:
        template = self.profile.template(source, target, with_context=with_context)
        return render_parts(self.profile, self.tokenizer, template, source, target)

    def _plan(self, source: str | None, target: str, *, with_context: bool) -> _Plan:
        key = (source, target, with_context)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._build_plan(source, target, with_context=with_context)
        return plan

    def _build_plan(self, source: str | None, target: str, *, with_context: bool) -> _Plan:
        parts = self._parts(source, target, with_context=with_context)
        runs, controls = self._runs(parts)
        pieces: list[tuple[int, ...] | _Run] = []
        opening = self._opening
        if opening and controls and self.tokenizer.control_id(controls[0]) == opening[0] and not runs[0]:
            opening = ()  # the wire begins with BOS itself
        pieces.append(opening)
        for place, run_parts in enumerate(runs):
            if place:
                pieces.append((self.tokenizer.control_id(controls[place - 1]),))
            if run_parts:
                pieces.append(self._settled(self._run(run_parts, controls, place)))
        overhead = sum(len(self._encode_run(one, "", "") if isinstance(one, _Run) else one) for one in pieces)
        return _Plan(tuple(_joined(pieces)), overhead)

    def _runs(self, parts: tuple[Part, ...]) -> tuple[list[tuple[Part, ...]], list[str]]:
        """Runs and the control tokens between them: one run more than there are tokens."""
        runs: list[list[Part]] = [[]]
        controls: list[str] = []
        for part in parts:
            if isinstance(part, Slot):
                runs[-1].append(part)
                continue
            for place, piece in enumerate(self.tokenizer.split(part)):
                if place % 2:
                    controls.append(piece)
                    runs.append([])
                elif piece:
                    runs[-1].append(piece)
        return [tuple(run) for run in runs], controls

    def _run(self, parts: tuple[Part, ...], controls: list[str], place: int) -> _Run:
        before = controls[place - 1] if place else ""
        after = controls[place] if place < len(controls) else ""
        strip_left = bool(before) and self.tokenizer.swallows(before)[1]
        strip_right = bool(after) and self.tokenizer.swallows(after)[0]
        run = _Run(parts, prefix=True, strip_left=strip_left, strip_right=strip_right)
        return replace(run, prefix=self._takes_prefix(run, before))

    def _takes_prefix(self, run: _Run, before: str) -> bool:
        """Whether the vendor's tokenizer puts its space before this run. Tokenizers differ, so it is asked, not guessed."""
        probe = run.fill(_PROBE, _PROBE)
        expected = self.tokenizer.encode_template(before + probe)[1 if before else 0 :]
        return self.tokenizer.encode_text(probe, prefix=False) != expected

    def _settled(self, run: _Run) -> tuple[int, ...] | _Run:
        """A run without text is encoded now, once."""
        if any(isinstance(part, Slot) for part in run.parts):
            return run
        return tuple(self._encode_run(run, "", ""))

    def _check_wire(self) -> None:
        """Every control token of the profile is one to the tokenizer, in each language that a token may name."""
        for token in self.profile.control_tokens:
            for tag in self.profile.languages if "{" in token else ("",):
                values = language_values(self.profile, self.profile.templates[0], tag, tag) if tag else {}
                self.tokenizer.control_id(fill(token, values))


def _resolved(profile: Profile, tokenizer: TextTokenizer) -> Sampling:
    stops = [tokenizer.control_id(token) for token in profile.stop_tokens]
    stops += [tokenizer.control_id(token) for token in profile.optional_stop_tokens if tokenizer.has(token)]
    ids = dict.fromkeys((*profile.sampling.stop_token_ids, *stops))
    return replace(profile.sampling, stop_token_ids=tuple(ids))


def _joined(pieces: list[tuple[int, ...] | _Run]) -> list[tuple[int, ...] | _Run]:
    """Neighbouring ids in one piece."""
    joined: list[tuple[int, ...] | _Run] = []
    for piece in pieces:
        if joined and isinstance(piece, tuple) and isinstance(joined[-1], tuple):
            joined[-1] = joined[-1] + piece
        else:
            joined.append(piece)
    return joined
