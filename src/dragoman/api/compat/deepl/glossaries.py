"""DeepL's glossaries on the stored ones: version 2 with one pair of languages, version 3 with several dictionaries.

Both see the same glossaries; version 2 sees those that have exactly one dictionary. Entries are parsed and written in
threads: a glossary may have 100,000 of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import Response

from dragoman import languages
from dragoman.api.compat.deepl import schemas
from dragoman.api.compat.deepl.parameters import (
    Call,
    Parameters,
    answer,
    no_content,
    responses,
    trace_header,
    unsupported,
)
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
    from dragoman.storage.glossaries import DictionaryInfo, Pair, StoredGlossary

router = APIRouter(tags=["DeepL"])

_PAIR_QUERY = {
    "parameters": [
        {"name": name, "in": "query", "required": True, "schema": {"type": "string"}}
        for name in ("source_lang", "target_lang")
    ]
}


class _FormatNotOffered(DragomanError):
    """The format of entries that `Accept` names is not one that the API has."""

    status = 415
    code = "invalid_request"


# ---- version 2


@router.post(
    "/v2/glossaries",
    summary="DeepL: store a glossary",
    status_code=201,
    responses=responses(ok=schemas.DeepLGlossary, created=True),
    openapi_extra=schemas.body_of(schemas.CREATE, *schemas.CREATE),
    response_class=Response,
)
async def create(call: Call) -> Response:
    """Entries of one pair of languages, as TSV or CSV."""
    name = call.parameters.required("name")
    pair, entries = await _dictionary(call.parameters)
    stored = await _stored(call, name, {pair: entries})
    return answer(_of_version_2(stored, stored.dictionaries[0]), 201)


@router.get(
    "/v2/glossaries",
    summary="DeepL: the stored glossaries",
    responses=responses(404, ok=schemas.DeepLGlossaries),
    response_class=Response,
)
async def list_all(call: Call) -> Response:
    """Those with one pair of languages, without their entries."""
    stored = await call.service.glossaries.list()
    return answer(
        {"glossaries": [_of_version_2(one, *one.dictionaries) for one in stored if len(one.dictionaries) == 1]}
    )


@router.get(
    "/v2/glossaries/{glossary_id}",
    summary="DeepL: one glossary",
    responses=responses(404, ok=schemas.DeepLGlossary),
    response_class=Response,
)
async def get(glossary_id: str, call: Call) -> Response:
    """A glossary without its entries."""
    return answer(_of_version_2(*await _with_one_pair(call, glossary_id)))


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    summary="DeepL: a glossary's entries",
    responses={200: {"content": {TSV: {"schema": {"type": "string"}}}}, **responses(404, 415)},
    response_class=Response,
)
async def entries_as_tsv(glossary_id: str, call: Call) -> Response:
    """TSV."""
    accepted = {one.partition(";")[0].strip().lower() for one in call.http.headers.get("accept", "*/*").split(",")}
    if not accepted & {TSV, "*/*", "text/*"}:
        raise _FormatNotOffered(f"entries come as {TSV}", param="accept")
    stored, only = await _with_one_pair(call, glossary_id)
    return Response(await _written(call, stored.id, (only.source, only.target)), 200, trace_header(), TSV)


@router.delete(
    "/v2/glossaries/{glossary_id}",
    summary="DeepL: delete a glossary",
    status_code=204,
    responses=responses(404),
    response_class=Response,
)
@router.delete(
    "/v3/glossaries/{glossary_id}",
    summary="DeepL: delete a glossary",
    status_code=204,
    responses=responses(404),
    response_class=Response,
)
async def delete(glossary_id: str, call: Call) -> Response:
    """With all its entries."""
    await call.service.glossaries.delete(glossary_id)
    return no_content()


# ---- version 3


@router.post(
    "/v3/glossaries",
    summary="DeepL: store a glossary of several dictionaries",
    status_code=201,
    responses=responses(ok=schemas.DeepLMultilingualGlossary, created=True),
    openapi_extra=schemas.body_of(schemas.CREATE_MULTILINGUAL, *schemas.CREATE_MULTILINGUAL),
    response_class=Response,
)
async def create_multilingual(call: Call) -> Response:
    """One dictionary for each pair of languages."""
    name = call.parameters.required("name")
    given = [await _dictionary(one) for one in call.parameters.objects("dictionaries")]
    if not given:
        raise InvalidRequest("Parameter 'dictionaries' not specified", param="dictionaries")
    if len(dict(given)) < len(given):
        raise InvalidRequest("two dictionaries are of one pair of languages", param="dictionaries")
    return answer(_of_version_3(await _stored(call, name, dict(given))), 201)


@router.get(
    "/v3/glossaries",
    summary="DeepL: the stored glossaries with their dictionaries",
    responses=responses(404, ok=schemas.DeepLMultilingualGlossaries),
    response_class=Response,
)
async def list_multilingual(call: Call) -> Response:
    """All glossaries, without their entries."""
    return answer({"glossaries": [_of_version_3(one) for one in await call.service.glossaries.list()]})


@router.get(
    "/v3/glossaries/{glossary_id}",
    summary="DeepL: one glossary with its dictionaries",
    responses=responses(404, ok=schemas.DeepLMultilingualGlossary),
    response_class=Response,
)
async def get_multilingual(glossary_id: str, call: Call) -> Response:
    """A glossary without its entries."""
    return answer(_of_version_3(await call.service.glossaries.get(glossary_id)))


@router.patch(
    "/v3/glossaries/{glossary_id}",
    summary="DeepL: rename a glossary, add entries to a dictionary",
    responses=responses(404, ok=schemas.DeepLMultilingualGlossary),
    openapi_extra=schemas.body_of(schemas.CREATE_MULTILINGUAL),
    response_class=Response,
)
async def change(glossary_id: str, call: Call) -> Response:
    """A new name, entries for one dictionary, or both. Entries that are there stay, or get the new translation."""
    name = call.parameters.text("name")
    given = [await _dictionary(one) for one in call.parameters.objects("dictionaries")]
    if len(given) > 1:
        raise unsupported("dictionaries", "one at a time")
    stored = await call.service.glossaries.get(glossary_id)
    for (source, target), entries in given:
        stored = await call.service.glossaries.merge(stored.id, source, target, entries)
    if name is not None:
        stored = await call.service.glossaries.rename(stored.id, name)
    return answer(_of_version_3(stored))


@router.get(
    "/v3/glossaries/{glossary_id}/entries",
    summary="DeepL: a dictionary's entries",
    responses=responses(404, ok=schemas.DeepLEntriesAnswer),
    openapi_extra=_PAIR_QUERY,
    response_class=Response,
)
async def entries_of_dictionary(glossary_id: str, call: Call) -> Response:
    """TSV within JSON."""
    stored, info = await _existing(call, glossary_id)
    entries = await _written(call, stored.id, (info.source, info.target))
    return answer({"dictionaries": [{**_pair_out(info), "entries": entries, "entries_format": "tsv"}]})


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="DeepL: replace a dictionary",
    responses=responses(404, ok=schemas.DeepLDictionary),
    openapi_extra=schemas.body_of(schemas.REPLACE, *schemas.REPLACE),
    response_class=Response,
)
async def replace_dictionary(glossary_id: str, call: Call) -> Response:
    """Its entries become the only ones of the pair."""
    pair, entries = await _dictionary(call.parameters)
    stored = await call.service.glossaries.replace(glossary_id, *pair, entries)
    return answer(_dictionary_out(_of_pair(stored, pair)))


@router.delete(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="DeepL: delete a dictionary",
    status_code=204,
    responses=responses(404),
    openapi_extra=_PAIR_QUERY,
    response_class=Response,
)
async def delete_dictionary(glossary_id: str, call: Call) -> Response:
    """All entries of one pair of languages; the glossary stays."""
    stored, info = await _existing(call, glossary_id)
    await call.service.glossaries.delete_dictionary(stored.id, info.source, info.target)
    return no_content()


# ---- parameters


def _pair(parameters: Parameters) -> Pair:
    """The two languages, which must be known; the model need not serve them."""
    found: list[str] = []
    for name in ("source_lang", "target_lang"):
        try:
            found.append(languages.normalise(parameters.required(name)))
        except UnsupportedLanguage as error:
            raise unsupported(name, error.message) from None
    return found[0], found[1]


async def _dictionary(parameters: Parameters) -> tuple[Pair, dict[str, str]]:
    pair = _pair(parameters)
    text = parameters.required("entries", most=None)
    kind = parameters.choice("entries_format", "tsv", "csv", default="tsv")
    entries = await asyncio.to_thread(parse_tsv if kind == "tsv" else _parse_csv, text)
    if not entries:
        raise InvalidGlossary("a dictionary has at least one entry", param="entries")
    return pair, entries


def _parse_csv(text: str) -> dict[str, str]:
    return parse_csv(text, with_languages=True)


# ---- stored glossaries


async def _stored(call: Call, name: str, dictionaries: dict[Pair, dict[str, str]]) -> StoredGlossary:
    """A new glossary; or the one of this name if it has these entries, because a client's request came twice."""
    glossaries = call.service.glossaries
    try:
        return await glossaries.create(name, dictionaries)
    except GlossaryExists:
        found = await glossaries.get(name.strip())
        if {(one.source, one.target) for one in found.dictionaries} != set(dictionaries):
            raise
        for pair, entries in dictionaries.items():
            if (await glossaries.dictionary(found.id, *pair)).entries != entries:
                raise
        return found


async def _with_one_pair(call: Call, glossary_id: str) -> tuple[StoredGlossary, DictionaryInfo]:
    stored = await call.service.glossaries.get(glossary_id)
    if len(stored.dictionaries) != 1:
        raise UnknownGlossary(f"{stored.id} has {len(stored.dictionaries)} dictionaries: use /v3/glossaries")
    return stored, stored.dictionaries[0]


async def _existing(call: Call, glossary_id: str) -> tuple[StoredGlossary, DictionaryInfo]:
    pair = _pair(call.parameters)
    stored = await call.service.glossaries.get(glossary_id)
    return stored, _of_pair(stored, pair)


def _of_pair(stored: StoredGlossary, pair: Pair) -> DictionaryInfo:
    for one in stored.dictionaries:
        if (one.source, one.target) == pair:
            return one
    raise UnknownGlossary(f"{stored.id} has no dictionary for {pair[0]} to {pair[1]}")


async def _written(call: Call, glossary_id: str, pair: Pair) -> str:
    stored = await call.service.glossaries.dictionary(glossary_id, *pair)
    return (await asyncio.to_thread(write_tsv, stored.entries)).removesuffix("\n")


# ---- JSON


def _created(stored: StoredGlossary) -> str:
    """With a fraction of a second, which DeepL's Python client requires."""
    return stored.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _pair_out(info: DictionaryInfo) -> dict[str, object]:
    return {"source_lang": info.source.lower(), "target_lang": info.target.lower()}


def _dictionary_out(info: DictionaryInfo) -> dict[str, object]:
    return {**_pair_out(info), "entry_count": info.entry_count}


def _of_version_2(stored: StoredGlossary, only: DictionaryInfo) -> dict[str, object]:
    head = {"glossary_id": stored.id, "name": stored.name, "ready": True}
    return {**head, **_dictionary_out(only), "creation_time": _created(stored)}


def _of_version_3(stored: StoredGlossary) -> dict[str, object]:
    head = {"glossary_id": stored.id, "name": stored.name}
    return {**head, "dictionaries": [*map(_dictionary_out, stored.dictionaries)], "creation_time": _created(stored)}
