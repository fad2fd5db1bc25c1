"""Other translations of a text, made in the text's own call.

A call that wants alternatives translates its texts several times: once as always, and as samples, whose outputs are chosen at
random. So a sample is cut, checked, retried, admitted and recorded like every text, runs at the same time, and is a whole text,
however many segments it has. A sample that says the same as the translation or as another sample is left out, and so is one
with a warning that the translation does not have. So there may be fewer alternatives than were wanted.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace

from dragoman.types import TextDone, Translation, TranslationRequest

MAX_ALTERNATIVES = 4
"""The most that a caller may want of a text."""
SPARE_SAMPLES = 2
SHORT_CHARACTERS = 200
"""A call whose texts have no more gets `SPARE_SAMPLES` more samples than it wants: those of short texts are often equal."""


def canonical_form(text: str) -> str:
    """What two translations have in common that differ in nothing but case, punctuation, white space or width."""
    normalised = unicodedata.normalize("NFKC", text).casefold()
    return "".join(one for one in normalised if unicodedata.category(one)[0] not in "PZC")


class Alternatives:
    """The alternatives of one call. `request` is what is to be translated for it: `copies` of its texts, whose first are the
    texts themselves."""

    def __init__(self, request: TranslationRequest) -> None:
        self._wanted = request.alternatives
        self._texts = len(request.texts)
        is_short = max(map(len, request.texts)) <= SHORT_CHARACTERS
        self.copies = 1 + self._wanted + SPARE_SAMPLES * is_short
        self._done: dict[int, dict[int, Translation]] = {}  # by text and number of the sample
        self.characters = 0  # of the sources of all alternatives that were found: what they cost
        self.request = replace(
            request,
            texts=request.texts * self.copies,
            follows=request.follows * self.copies,
            contexts=request.contexts * self.copies,
            forced_output_tokens=request.forced_output_tokens and request.forced_output_tokens * self.copies,
            sampled_from=self._texts,
        )

    def take(self, done: TextDone) -> TextDone | None:
        """Take a text or a sample that is done. Return the text with its alternatives once it and all its samples are."""
        sample, index = divmod(done.index, self._texts)
        translations = self._done.setdefault(index, {})
        translations[sample] = done.translation
        if len(translations) < self.copies:
            return None
        del self._done[index]
        first, *samples = (translations[number] for number in range(self.copies))
        found = distinct(first, samples)[: self._wanted]
        characters = sum(one.usage.characters for one in found)
        self.characters += characters
        usage = sum((one.usage for one in samples), first.usage)  # tokens were generated for all of them
        usage = replace(usage, characters=first.usage.characters + characters)
        return TextDone(index, replace(first, alternatives=tuple(found), usage=usage))


def distinct(first: Translation, samples: list[Translation]) -> list[Translation]:
    """The samples that differ from `first` and from each other, without those that are worse by their warnings."""
    accepted = {warning.code for warning in first.warnings}
    known, found = {canonical_form(first.text)}, list[Translation]()
    for one in samples:
        form = canonical_form(one.text)
        if form in known or one.failed or not accepted.issuperset(warning.code for warning in one.warnings):
            continue
        known.add(form)
        found.append(one)
    return found
