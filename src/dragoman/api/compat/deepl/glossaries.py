"""DeepL's glossaries on the stored ones: version 2 with one pair of languages, version 3 with several dictionaries.

Both see the key's own glossaries and those that the server shares; version 2 sees those that have exactly one dictionary.
Entries are parsed and written in threads: a glossary may have 100,000 of them.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, cast

from fastapi import APIRouter
from fastapi.responses import Response

from dragoman import languages
from dragoman.api.collections import changeable, deletable
from dragoman.api.compat.deepl.calls import MISSING, DeepLCall, answer, no_content, time_of, trace_header
from dragoman.api.compat.exchange import Fields, unsupported
from dragoman.api.glossaries import TSV, parse_csv, parse_tsv, write_tsv
from dragoman.errors import (
    DragomanError,
    GlossaryExists,
    InvalidGlossary,
    InvalidRequest,
    UnknownGlossary,
    UnsupportedLanguage,
)

if TYPE_CHECKING:
    from dragoman.storage.collections import Pair, PairCount, StoredCollection

router = APIRouter()

_NUMBERED = re.compile(r"(\w+)\[(\d+)\][.\[](\w+)\]?").fullmatch  # dictionaries[0].source_lang


class _FormatNotOffered(DragomanError):
    """The format of entries that `Accept` names is not one that the API has."""

    status = 415
    code = "invalid_request"


# ---- version 2


@router.post("/v2/glossaries")
async def create(call: DeepLCall) -> Response:
    """Store a glossary: entries of one pair of languages, as TSV or CSV."""
    name = call.fields.required("name")
    pair, entries = await _dictionary(call.fields)
    stored = await _stored(call, name, {pair: entries})
    return answer(_of_version_2(stored, stored.pairs[0]), 201)


@router.get("/v2/glossaries")
async def list_all(call: DeepLCall) -> Response:
    """The glossaries with one pair of languages, without their entries."""
    stored = await call.service.glossaries.list(call.account.id)
    return answer({"glossaries": [_of_version_2(one, *one.pairs) for one in stored if len(one.pairs) == 1]})


@router.get("/v2/glossaries/{glossary_id}")
async def get(glossary_id: str, call: DeepLCall) -> Response:
    """A glossary without its entries."""
    return answer(_of_version_2(*await _with_one_pair(call, glossary_id)))


@router.get("/v2/glossaries/{glossary_id}/entries")
async def entries_as_tsv(glossary_id: str, call: DeepLCall) -> Response:
    """A glossary's entries as TSV."""
    accepted = {one.partition(";")[0].strip().lower() for one in call.http.headers.get("accept", "*/*").split(",")}
    if not accepted & {TSV, "*/*", "text/*"}:
        raise _FormatNotOffered(f"entries come as {TSV}", param="accept")
    stored, only = await _with_one_pair(call, glossary_id)
    return Response(await _written(call, stored.id, (only.source, only.target)), 200, trace_header(), TSV)


@router.delete("/v2/glossaries/{glossary_id}")
@router.delete("/v3/glossaries/{glossary_id}")
async def delete(glossary_id: str, call: DeepLCall) -> Response:
    """Delete a glossary with all its entries."""
    stored = await deletable(call.service.glossaries, call.account, glossary_id)
    await call.service.glossaries.delete(stored.account_id, stored.id)
    return no_content()


# ---- version 3


@router.post("/v3/glossaries")
async def create_multilingual(call: DeepLCall) -> Response:
    """Store a glossary with one dictionary for each pair of languages."""
    name = call.fields.required("name")
    given = [await _dictionary(one) for one in _dictionaries(call.fields)]
    if not given:
        raise call.fields.absent("dictionaries")
    if len(dict(given)) < len(given):
        raise InvalidRequest("two dictionaries are of one pair of languages", param="dictionaries")
    return answer(_of_version_3(await _stored(call, name, dict(given))), 201)


@router.get("/v3/glossaries")
async def list_multilingual(call: DeepLCall) -> Response:
    """The key's own and those that the server shares, without their entries."""
    stored = await call.service.glossaries.list(call.account.id)
    return answer({"glossaries": [*map(_of_version_3, stored)]})


@router.get("/v3/glossaries/{glossary_id}")
async def get_multilingual(glossary_id: str, call: DeepLCall) -> Response:
    """A glossary without its entries."""
    return answer(_of_version_3(await call.service.glossaries.get(call.account.id, glossary_id)))


@router.patch("/v3/glossaries/{glossary_id}")
async def change(glossary_id: str, call: DeepLCall) -> Response:
    """A new name, entries for one dictionary, or both. Entries that are there stay, or get the new translation."""
    name = call.fields.text("name")
    given = [await _dictionary(one) for one in _dictionaries(call.fields)]
    if len(given) > 1:
        raise unsupported("dictionaries", "one at a time")
    stored = await _changeable(call, glossary_id)
    for pair, entries in given:
        stored = await call.service.glossaries.merge(stored.account_id, stored.id, *pair, entries)
    if name:
        stored = await call.service.glossaries.rename(stored.account_id, stored.id, name)
    return answer(_of_version_3(stored))


@router.get("/v3/glossaries/{glossary_id}/entries")
async def entries_of_dictionary(glossary_id: str, call: DeepLCall) -> Response:
    """A dictionary's entries: TSV within JSON."""
    stored, info = await _existing(call, glossary_id)
    entries = await _written(call, stored.id, (info.source, info.target))
    return answer({"dictionaries": [{**_pair_out(info), "entries": entries, "entries_format": "tsv"}]})


@router.put("/v3/glossaries/{glossary_id}/dictionaries")
async def replace_dictionary(glossary_id: str, call: DeepLCall) -> Response:
    """Replace a dictionary: its entries become the only ones of the pair."""
    pair, entries = await _dictionary(call.fields)
    stored = await _changeable(call, glossary_id)
    stored = await call.service.glossaries.replace(stored.account_id, stored.id, *pair, entries)
    return answer(_dictionary_out(_of_pair(stored, pair)))


@router.delete("/v3/glossaries/{glossary_id}/dictionaries")
async def delete_dictionary(glossary_id: str, call: DeepLCall) -> Response:
    """Delete all entries of one pair of languages; the glossary stays."""
    stored, info = await _existing(call, glossary_id)
    stored = await _changeable(call, stored.id)
    await call.service.glossaries.delete_dictionary(stored.account_id, stored.id, info.source, info.target)
    return no_content()


# ---- parameters


def _pair(fields: Fields) -> Pair:
    """The two languages, which must be known; the model need not serve them."""
    found: list[str] = []
    for name in ("source_lang", "target_lang"):
        try:
            found.append(languages.normalise(fields.required(name)))
        except UnsupportedLanguage as error:
            raise unsupported(name, error.message) from None
    return found[0], found[1]


def _dictionaries(fields: Fields) -> list[Fields]:
    """The objects of a list: of JSON, or of a form's `dictionaries[0].field`."""
    found = fields.values.get("dictionaries")
    if found is None:
        numbered: dict[int, dict[str, object]] = {}
        for key, value in fields.values.items():
            if len(key) < 200 and (match := _NUMBERED(key)) and match[1] == "dictionaries":
                numbered.setdefault(int(match[2][:9]), {})[match[3]] = value
        found = [numbered[number] for number in sorted(numbered)]
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in cast(list[object], found)):
        raise unsupported("dictionaries", "it must be a list of objects")
    return [Fields(one, MISSING) for one in cast(list[dict[str, object]], found)]


async def _dictionary(fields: Fields) -> tuple[Pair, dict[str, str]]:
    pair = _pair(fields)
    text = fields.required("entries", most=None)
    kind = fields.choice("entries_format", "tsv", "csv", default="tsv")
    entries = await asyncio.to_thread(parse_tsv if kind == "tsv" else parse_csv, text)
    if not entries:
        raise InvalidGlossary("a dictionary has at least one entry", param="entries")
    return pair, entries


# ---- stored glossaries


async def _stored(call: DeepLCall, name: str, dictionaries: dict[Pair, dict[str, str]]) -> StoredCollection:
    """A new glossary; or the one of this name if it has these entries, because a client's request came twice."""
    glossaries, owner = call.service.glossaries, call.account.id
    try:
        return await glossaries.create(owner, name, dictionaries)
    except GlossaryExists:
        found = await glossaries.get(owner, name.strip())
        if {(one.source, one.target) for one in found.pairs} != set(dictionaries):
            raise
        for pair, entries in dictionaries.items():
            if (await glossaries.dictionary(owner, found.id, *pair)).entries != entries:
                raise
        return found


async def _changeable(call: DeepLCall, glossary_id: str) -> StoredCollection:
    return await changeable(call.service.glossaries, call.account, glossary_id)


async def _with_one_pair(call: DeepLCall, glossary_id: str) -> tuple[StoredCollection, PairCount]:
    stored = await call.service.glossaries.get(call.account.id, glossary_id)
    if len(stored.pairs) != 1:
        raise UnknownGlossary(f"{stored.id} has {len(stored.pairs)} dictionaries: use /v3/glossaries")
    return stored, stored.pairs[0]


async def _existing(call: DeepLCall, glossary_id: str) -> tuple[StoredCollection, PairCount]:
    pair = _pair(call.fields)
    stored = await call.service.glossaries.get(call.account.id, glossary_id)
    return stored, _of_pair(stored, pair)


def _of_pair(stored: StoredCollection, pair: Pair) -> PairCount:
    for one in stored.pairs:
        if (one.source, one.target) == pair:
            return one
    raise UnknownGlossary(f"{stored.id} has no dictionary for {pair[0]} to {pair[1]}")


async def _written(call: DeepLCall, glossary_id: str, pair: Pair) -> str:
    stored = await call.service.glossaries.dictionary(call.account.id, glossary_id, *pair)
    return (await asyncio.to_thread(write_tsv, stored.entries)).removesuffix("\n")


# ---- JSON


def _pair_out(info: PairCount) -> dict[str, object]:
    return {"source_lang": info.source.lower(), "target_lang": info.target.lower()}


def _dictionary_out(info: PairCount) -> dict[str, object]:
    return {**_pair_out(info), "entry_count": info.entry_count}


def _of_version_2(stored: StoredCollection, only: PairCount) -> dict[str, object]:
    head = {"glossary_id": stored.id, "name": stored.name, "ready": True}
    return {**head, **_dictionary_out(only), "creation_time": time_of(stored.created_at)}


def _of_version_3(stored: StoredCollection) -> dict[str, object]:
    head = {"glossary_id": stored.id, "name": stored.name}
    return {**head, "dictionaries": [*map(_dictionary_out, stored.pairs)], "creation_time": time_of(stored.created_at)}
