"""The way of a call: charged to its account, admitted, recorded, translated.

It knows no HTTP and no storage of documents; `service.service` builds it, and documents stand on it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from functools import partial

from dragoman.errors import Starting
from dragoman.service.accounts import Accounts
from dragoman.service.admission import Admission
from dragoman.service.alternatives import Alternatives
from dragoman.service.dispatcher import LoopTurns, TimeSlices
from dragoman.service.translator import Translator
from dragoman.telemetry import requests
from dragoman.telemetry.requests import CallRegistry
from dragoman.types import Detection, Event, Planned, TextDone, Translation, TranslationRequest

MOST_SHOWN_CHARACTERS = 4_096
"""Of the examples in one prompt, for admission: prompts have at most so many tokens of examples that these are in the mean."""
_LATELY = 1 / 32
"""The weight of the last text in what an account's texts had lately."""


class SimilarShares:
    """How many characters of similar entries of memories the prompts of each account's texts had lately, for a character of its
    texts. What those of a call will have is known only when its texts are looked up, after it was admitted.
    """

    def __init__(self) -> None:
        self._lately: dict[
            str, tuple[float, float]
        ] = {}  # characters of texts, and of entries, of accounts that had any

    def loads(self, request: TranslationRequest, shown: int) -> list[int]:
        """Return the characters that each text of a call is expected to cost: its own, those `shown` before it, and those of
        similar entries."""
        lately, options = self._lately.get(request.account.id), request.options
        if lately is None or options.memories == () or options.memory_examples == 0:
            return [len(text) + shown for text in request.texts]
        share = lately[1] / lately[0]
        expected = (min(round(share * len(text)), MOST_SHOWN_CHARACTERS) for text in request.texts)
        return [
            len(text) + shown + (0 if request.sample(index) else similar)
            for index, (text, similar) in enumerate(zip(request.texts, expected, strict=True))
        ]

    def note(self, request: TranslationRequest, index: int, similar: int) -> None:
        """Count a text that is done, whose prompts had so many characters of similar entries."""
        account_id = request.account.id
        if request.sample(index) or not (similar or account_id in self._lately):
            return
        texts, entries = self._lately.get(account_id, (0.0, 0.0))
        texts += _LATELY * (max(len(request.texts[index]), 1) - texts)
        entries += _LATELY * (similar - entries)
        self._lately[account_id] = texts, entries
        if entries < _LATELY * texts:
            del self._lately[account_id]


class Calls:
    """Translates calls, once a translator is there."""

    def __init__(self, accounts: Accounts, admission: Admission, registry: CallRegistry, turns: LoopTurns) -> None:
        self.accounts = accounts
        self.admission = admission
        self.registry = registry
        self.turns = turns
        self.pace = partial(TimeSlices, turns)  # of the event loop, for the work that an API does for a call
        self._similar = SimilarShares()
        self._translator: Translator | None = None

    @property
    def translator(self) -> Translator:
        """What translates. Raises `Starting` before the first is set."""
        if self._translator is None:
            raise Starting("the engine is starting; see /readyz")
        return self._translator

    @translator.setter
    def translator(self, translator: Translator) -> None:
        self._translator = translator

    @property
    def refused(self) -> int:
        """Calls that were refused because of what others have in flight."""
        of_deadlines = self._translator.refused if self._translator is not None else 0
        return self.admission.refused + of_deadlines

    def detect(self, text: str) -> Detection:
        """Detect the language of a text, which may be one that the model does not serve. Raises `Starting`."""
        return self.translator.planner.detector.detect(text)

    async def translate(self, request: TranslationRequest) -> list[Translation]:
        """Translate all texts of a call. Raises the one error that the call ends with."""
        translations: dict[int, Translation] = {}
        async with aclosing(self.events(request)) as events:
            async for event in events:
                if isinstance(event, TextDone):
                    translations[event.index] = event.translation
        return [translations[index] for index in range(len(request.texts))]

    async def events(self, request: TranslationRequest, *, streamed: bool = False) -> AsyncGenerator[Event]:
        """Yield the call's events as they come (`Translator.events`). Closing the iterator aborts its sequences.

        A text with alternatives is done when these are; such a call is not `streamed`.

        Raises the one error that the call ends with; a refusal before the first event.
        """
        alternatives = Alternatives(request) if request.alternatives else None
        work = alternatives.request if alternatives is not None else request
        characters = sum(map(len, request.texts))
        shown = self._shown(request) if request.options.examples else 0  # to the model, with each text
        loads = self._similar.loads(work, shown)
        async with self.registry.call(work, streamed=streamed) as call:
            call.shown_characters = shown
            async with AsyncExitStack() as stack:
                charge = await stack.enter_async_context(self.accounts.charging(request, characters))
                with requests.span("admission"):
                    permit = stack.enter_context(self.admission.permit(sum(loads), work.priority, work.account.id))
                async with aclosing(self.translator.events(work, streamed=streamed)) as events:
                    async for event in events:
                        if isinstance(event, TextDone):
                            permit.release(loads[event.index])
                            self._similar.note(work, event.index, call.done(event.index, event.translation))
                            if event.translation.finish_reason == "unchanged" and event.translation.is_free:
                                charge.free(event.index)
                            if alternatives is not None and (event := alternatives.take(event)) is None:
                                continue
                        if streamed and not isinstance(event, Planned):
                            charge.begun(event.index)
                        yield event
                trace = requests.current.get()
                if not streamed and not (trace is not None and trace.is_abandoned):
                    charge.all()
                    charge.characters += alternatives.characters if alternatives is not None else 0

    def _shown(self, request: TranslationRequest) -> int:
        """The characters of the call's examples that the prompt of each text has, at most; 0 before an engine is there."""
        if self._translator is None or not self._translator.planner.prompts.takes_examples:
            return 0
        characters = sum(len(one.source) + len(one.translation) for one in request.options.examples)
        return min(characters, MOST_SHOWN_CHARACTERS)
