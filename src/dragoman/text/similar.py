"""Finds, of many texts with their translations, those that are most like a text.

How alike two texts are is rapidfuzz's `fuzz.ratio` of their words, without marks. Of a few texts it is computed for each
(`most_like`), of those of an index for candidates alone: those that share the most trigrams with the text. Of each text in an
index only the rarest trigrams have a posting, since what is in many texts tells little and costs the most time. An index is
never changed: texts that come later are in another one, and which of its texts are left out is said where it is asked.

Texts come with their folded form (`storage.folding`), in which trigrams are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from wholetext.markup import marks

RARE_SHARE, RARE_SHARE_OF_FEW, FEW = 0.4, 0.6, 50_000
"""Of a text's trigrams, those that have a posting: the rarest. More in an index of few texts, where they cost little."""
FEWEST_POSTINGS = 6
"""Of a text's trigrams that have a posting; a shorter text has them all."""
CANDIDATES = 128
"""Texts that are compared with a text: those with the most trigrams of it."""
MOST_POSTINGS = 40_000
"""That are looked at for one text, about."""
CANDIDATE_CHARACTERS = 60_000
"""The most characters that are compared with a text."""
MOST_CHARACTERS = 2_000
"""A longer text, or one whose translation is longer, is in no index, and none is looked for."""

_BEFORE = "  "
"""Before each text, and after the last one: each three characters that follow each other are of one text."""
_CHUNK = 200_000
"""Trigrams that one call of numpy takes, in a few milliseconds."""

_LAST_BITS = np.uint32((1 << 20) - 1)

Hashes = NDArray[np.uint32]


def most_like(text: str, sources: Iterable[str], most: int, least: float = 0.0) -> list[tuple[float, int]]:
    """Return up to `most` of the texts that are at least `least` similar to a text, 0 to 100, by their similarity and their
    place: the most similar first, of equally similar ones the first."""
    words = marks.plain(text)
    scored = (
        (fuzz.ratio(words, marks.plain(source), score_cutoff=least), -place) for place, source in enumerate(sources)
    )
    return [(score, -place) for score, place in nlargest(most, (one for one in scored if one[0] >= least))]


class TextEntry(NamedTuple):
    """A text with its translation, and the beginning of its digest."""

    digest: int
    folded: str
    text: str
    translation: str


class SimilarMatch(NamedTuple):
    """A text that is like another one. `similarity`: from 0 to 100."""

    similarity: float
    source: str
    translation: str


def _hashes(joined: str) -> Hashes:
    """A hash of each three characters that follow each other."""
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
    found = points[:-2] * np.uint32(0x9E3779B1)
    found ^= found >> np.uint32(15)
    found += points[1:-1]
    found *= np.uint32(0x85EBCA6B)
    found ^= found >> np.uint32(13)
    found += points[2:]
    found *= np.uint32(0xC2B2AE35)
    found ^= found >> np.uint32(16)
    return found


def _trigrams(folded: Sequence[str]) -> tuple[Hashes, NDArray[np.uint64]]:
    """The hashes of all texts' trigrams, and the place of the text that each is of."""
    places = np.repeat(np.arange(len(folded), dtype=np.uint64), [len(text) + len(_BEFORE) for text in folded])
    return _hashes(_BEFORE + _BEFORE.join(folded) + _BEFORE), places


@dataclass(frozen=True, slots=True)
class _Texts:
    """Many texts as one array of bytes in UTF-8."""

    joined: bytes
    ends: NDArray[np.uint32]  # after a 0

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Texts:
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        return cls(b"".join(parts), np.cumsum([0, *map(len, parts)]).astype(np.uint32))

    @classmethod
    def joining(cls, some: Sequence[_Texts]) -> _Texts:
        begins = np.cumsum([0, *(len(one.joined) for one in some)]).astype(np.uint32)
        ends = [one.ends[1:] + begin for one, begin in zip(some, begins[:-1], strict=True)]
        return cls(b"".join([one.joined for one in some]), np.concatenate([begins[:1], *ends]))

    def at(self, places: NDArray[Any]) -> list[str]:
        bounds = zip(self.ends[places].tolist(), self.ends[places + 1].tolist(), strict=True)
        return [self.joined[begin:end].decode("utf-8", "surrogatepass") for begin, end in bounds]

    @property
    def nbytes(self) -> int:
        return len(self.joined) + self.ends.nbytes


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some entries of an index that is being built."""

    digests: NDArray[np.uint64]
    texts: _Texts
    translations: _Texts
    hashes: Hashes  # of the trigrams of each text after the other, each once in a text
    counts: NDArray[np.uint32]  # of each text's trigrams

    @classmethod
    def of(cls, entries: Sequence[TextEntry]) -> _Chunk:
        hashes, places = _trigrams([marks.plain(one.folded) for one in entries])
        of_texts = np.unique(places << np.uint64(32) | hashes)
        counts = np.bincount((of_texts >> np.uint64(32)).astype(np.int64), minlength=len(entries))
        return cls(
            np.array([one.digest for one in entries], np.uint64),
            _Texts.of(one.text for one in entries),
            _Texts.of(one.translation for one in entries),
            of_texts.astype(np.uint32),
            counts.astype(np.uint32),
        )

    def posting_counts(self, share: float) -> NDArray[np.uint32]:
        """How many postings each text has, which are this share of its trigrams."""
        fewest = np.minimum(self.counts, FEWEST_POSTINGS)
        return np.maximum(np.ceil(self.counts * share), fewest).astype(np.uint32)

    def postings(self, sizes: NDArray[np.uint32], of_all: NDArray[np.uint32]) -> tuple[Hashes, NDArray[np.uint32]]:
        """The hashes of each text's rarest trigrams, and its place in the chunk. `of_all`: in how many texts a trigram is."""
        places = np.repeat(np.arange(len(self.counts), dtype=np.uint32), self.counts)
        order = np.argsort(places.astype(np.uint64) << np.uint64(32) | of_all[self.hashes & _LAST_BITS])
        begins = np.cumsum(self.counts) - self.counts
        rank = np.arange(len(order)) - np.repeat(begins, self.counts)
        is_kept = rank < np.repeat(sizes, self.counts)
        return self.hashes[order[is_kept]], places[is_kept]


@dataclass(slots=True)
class Builder:
    """Collects the entries of an index."""

    nbytes: int = 0
    """Of the index, about: rather too many."""
    _chunks: list[_Chunk] = field(default_factory=list[_Chunk])

    def add(self, entries: Iterable[TextEntry]) -> None:
        """Add entries. Those that are too long are there, and never found."""
        some, characters = list[TextEntry](), 0
        for one in entries:
            is_long = max(len(one.text), len(one.translation)) > MOST_CHARACTERS
            some.append(TextEntry(one.digest, "", "", "") if is_long else one)
            characters += len(some[-1].folded) + len(_BEFORE)
            if characters > _CHUNK:
                self._add(some)
                some, characters = [], 0
        if some:
            self._add(some)

    def _add(self, entries: Sequence[TextEntry]) -> None:
        one = _Chunk.of(entries)
        self._chunks.append(one)
        self.nbytes += one.digests.nbytes + one.texts.nbytes + one.translations.nbytes + 2 * len(entries)
        self.nbytes += 4 * int(one.posting_counts(RARE_SHARE_OF_FEW).sum())

    @property
    def digests(self) -> NDArray[np.uint64]:
        """Of all entries."""
        return np.concatenate([np.zeros(0, np.uint64), *(one.digests for one in self._chunks)])

    def done(self) -> SimilarTexts:
        """Return the index of the entries."""
        of_all = np.zeros(1 << 20, np.uint32)  # by the last bits of a hash: rarely of two trigrams
        for one in self._chunks:
            of_all += np.bincount(one.hashes & _LAST_BITS, minlength=len(of_all)).astype(np.uint32)
        share = RARE_SHARE if sum(len(one.counts) for one in self._chunks) > FEW else RARE_SHARE_OF_FEW
        sizes = [one.posting_counts(share) for one in self._chunks]
        kept, places, first = [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)], 0
        for one, of_one in zip(self._chunks, sizes, strict=True):
            hashes, of_chunk = one.postings(of_one, of_all)
            kept.append(hashes)
            places.append(of_chunk + np.uint32(first))
            first += len(one.counts)
        hashes = np.concatenate(kept)
        order = np.argsort(hashes, kind="stable")
        keys, begins = np.unique(hashes[order], return_index=True)
        return SimilarTexts(
            self.digests,
            _Texts.joining([one.texts for one in self._chunks]),
            _Texts.joining([one.translations for one in self._chunks]),
            keys,
            np.append(begins, len(hashes)).astype(np.uint32),
            np.concatenate(places)[order],
            np.concatenate([np.zeros(0, np.uint16), *(of_one.astype(np.uint16) for of_one in sizes)]),
        )


@dataclass(frozen=True, slots=True)
class SimilarTexts:
    """An index of texts of one direction. All arrays that are not of `keys` are by the texts' places."""

    digests: NDArray[np.uint64]
    _texts: _Texts
    _translations: _Texts
    _keys: Hashes  # of the trigrams that have postings, sorted
    _begins: NDArray[np.uint32]  # of each key's postings, and the end of the last one's
    _postings: NDArray[np.uint32]  # places of texts
    _sizes: NDArray[np.uint16]  # how many postings each text has

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def nbytes(self) -> int:
        arrays = (self.digests, self._keys, self._begins, self._postings, self._sizes)
        return sum(one.nbytes for one in arrays) + self._texts.nbytes + self._translations.nbytes

    def entries(self, places: NDArray[Any]) -> list[tuple[int, str, str]]:
        """Return the digests, texts and translations of these places."""
        return [*zip(self.digests[places].tolist(), self._texts.at(places), self._translations.at(places), strict=True)]

    def find(self, query: Query, most: int, least: float, left_out: NDArray[np.bool_]) -> list[SimilarMatch]:
        """Return up to `most` texts whose similarity is at least `least`, the most similar first.

        `left_out`: for each text, whether it is not looked at.
        """
        candidates = min(CANDIDATES, 1 + CANDIDATE_CHARACTERS // (len(query.words) + 1))
        places = self._best(self._found(query), candidates, left_out)
        texts = self._texts.at(places)
        words = [marks.plain(text) for text in texts]
        scored = process.extract(query.words, words, scorer=fuzz.ratio, limit=most, score_cutoff=least)
        translations = self._translations.at(places[[n for *_, n in scored]])
        return [SimilarMatch(score, texts[n], one) for (_, score, n), one in zip(scored, translations, strict=True)]

    def _found(self, query: Query) -> NDArray[np.uint32]:
        """The postings of a text's trigrams: of the rarest ones where they have many."""
        at = np.searchsorted(self._keys, query.trigrams)
        at = at[self._keys.take(at, mode="clip") == query.trigrams]
        begins, ends = self._begins[at], self._begins[at + 1]
        order = np.argsort(ends - begins)
        enough = int(np.searchsorted(np.cumsum((ends - begins)[order]), MOST_POSTINGS)) + 1
        order = order[:enough]
        parts = zip(begins[order].tolist(), ends[order].tolist(), strict=True)
        return np.concatenate([self._postings[:0], *(self._postings[begin:end] for begin, end in parts)])

    def _best(self, found: NDArray[np.uint32], most: int, left_out: NDArray[np.bool_]) -> NDArray[Any]:
        """The places of the texts that have the most of the postings that were found, in proportion to all that they have."""
        if not len(found):
            return found
        counts = np.bincount(found)  # by text
        shared = counts[found]  # by posting: how many its text has
        postings = np.bincount(shared)[:0:-1]  # of the texts that have the most, one less, …
        from_above = np.cumsum(postings // np.arange(len(postings), 0, -1))
        least = max(len(from_above) - int(np.searchsorted(from_above, 4 * most)), 1)
        places = np.flatnonzero(counts >= least)
        shared = counts[places]
        is_there = ~left_out[places]
        places, shared = places[is_there], shared[is_there]
        if len(places) > most:
            share = shared / (self._sizes[places] + 4.0)
            places = places[np.argpartition(share, -most)[-most:]]
        return places


class Query:
    """A text that similar ones are looked for. `folded`: its folded form."""

    __slots__ = ("trigrams", "words")

    def __init__(self, text: str, folded: str) -> None:
        self.words = marks.plain(text)
        self.trigrams = np.unique(_trigrams([marks.plain(folded)])[0])
