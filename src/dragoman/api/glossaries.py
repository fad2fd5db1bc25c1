"""Stored glossaries: `/v1/glossaries`, and the entries of each pair of languages as JSON, TSV or CSV.

Bodies are parsed and answers written in threads: a glossary may have 100,000 entries.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, cast

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from dragoman.api import schemas
from dragoman.api.collections import ChangeBody, CollectionOut, PairOut, change, changeable, deletable, errors
from dragoman.api.input import NEEDS_KEY, Caller, KeyFirstRoute, Service, parse_json, worked
from dragoman.errors import BodyTooLarge, InvalidGlossary
from dragoman.storage.glossaries import MAX_ENTRIES, MAX_TERM_CHARACTERS

Body = TypeVar("Body", bound=BaseModel)
Given = TypeVar("Given")

router = APIRouter(prefix="/v1/glossaries", tags=["glossaries"], route_class=KeyFirstRoute, dependencies=[NEEDS_KEY])

JSON, TSV, CSV = "application/json", "text/tab-separated-values", "text/csv"

# ---- wire format

_EXAMPLE_ENTRIES: Any = {"server": "Server", "queue": "Warteschlange"}
_EXAMPLE: Any = {
    "id": "0b5f6a0e-58f4-4a5e-9d3d-0a35a1d7c2ba",
    "name": "IT",
    "version": 2,
    "created_at": "2026-11-22T09:00:00.123456Z",
    "updated_at": "2026-11-22T09:30:00.123456Z",
    "shared": False,
    "changeable": True,
    "shareable": False,
    "dictionaries": [{"source": "en", "target": "de", "entry_count": 2}],
}


class DictionaryBody(schemas.RequestBody):
    """The entries of one pair of languages."""

    source: Annotated[str, Field(description="BCP-47 tag of the terms' language.")]
    target: Annotated[str, Field(description="BCP-47 tag of the translations' language.")]
    entries: Annotated[schemas.Entries, Field(description="Terms and their translations.")]


class GlossaryBody(schemas.RequestBody):
    """`POST /v1/glossaries`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "IT", "dictionaries": [{"source": "en", "target": "de", "entries": _EXAMPLE_ENTRIES}]}
            ]
        },
    )

    name: Annotated[str, Field(description="Unique among the key's glossaries.")]
    dictionaries: Annotated[
        schemas.Items[DictionaryBody],
        Field(default_factory=list, description="Entries to begin with; those of one pair are joined."),
    ]


class EntriesBody(schemas.RequestBody):
    """Entries of one pair of languages, as JSON."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"entries": _EXAMPLE_ENTRIES}]})

    entries: Annotated[schemas.Entries, Field(description="Terms and their translations.")]


class ChangesBody(schemas.RequestBody):
    """Changes of one pair of languages, as JSON."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"entries": {"server": "Server", "queue": None}}]})

    entries: Annotated[
        schemas.EntryChanges, Field(description="Terms and their translations; null deletes a term's entry.")
    ]


class GlossaryOut(CollectionOut):
    """A stored glossary without its entries."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    dictionaries: Annotated[list[PairOut], Field(validation_alias=AliasChoices("dictionaries", "pairs"))]


class GlossariesAnswer(BaseModel):
    """`GET /v1/glossaries`."""

    glossaries: list[GlossaryOut]


class EntriesAnswer(BaseModel):
    """The entries of one pair of languages, in the order of the terms."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"source": "en", "target": "de", "version": 2, "entries": _EXAMPLE_ENTRIES}]}
    )

    source: str
    target: str
    version: int
    entries: dict[str, str]


# ---- TSV and CSV

_MOST_COLUMNS = 4
"""Of a table: DeepL's have columns for the languages."""
_LONG_LINE = MAX_TERM_CHARACTERS * _MOST_COLUMNS


def parse_tsv(text: str) -> dict[str, str]:
    """One `term TAB translation` a line. Raises `InvalidGlossary` that names the line, and `BodyTooLarge`."""
    lines = enumerate(io.StringIO(text, newline="\n"), 1)
    return _joined(
        (number, line.rstrip("\r\n").split("\t", _MOST_COLUMNS)) for number, line in lines if not line.isspace()
    )


def parse_csv(text: str) -> dict[str, str]:
    """Two columns, quoted as in RFC 4180; or four as in DeepL's, whose last two are languages and not read. Raises
    `InvalidGlossary` that names the line, and `BodyTooLarge`."""
    reader = csv.reader(_csv_lines(text), strict=True)
    try:
        return _joined((reader.line_num, row[:2] if len(row) == 4 else row) for row in reader)
    except csv.Error as fault:
        raise InvalidGlossary(f"line {reader.line_num} is not CSV: {fault}", param="entries") from None


def _csv_lines(text: str) -> Iterator[str]:
    """The lines of a table, none of which has more fields than could be a row: the reader makes a list of each row's fields,
    which no other thread can interrupt."""
    for number, line in enumerate(io.StringIO(text), 1):
        if len(line) > _LONG_LINE and line.count(",") > _LONG_LINE:  # in quotes, a term may have commas
            raise InvalidGlossary(f"line {number} has {line.count(',') + 1:,} columns instead of 2", param="entries")
        yield line


def _joined(rows: Iterable[tuple[int, list[str]]]) -> dict[str, str]:
    """The entries of numbered rows; rows without text are left out."""
    entries: dict[str, str] = {}
    for number, row in rows:
        if not row or not any(map(str.strip, row)):
            continue
        if len(row) != 2:
            many = f"over {_MOST_COLUMNS}" if len(row) > _MOST_COLUMNS else len(row)
            raise InvalidGlossary(f"line {number} has {many} columns instead of 2", param="entries")
        term, translation = (cell.strip() for cell in row)
        if entries.get(term, translation) != translation:
            raise InvalidGlossary(f"line {number}: {term[:40]!r} has another translation above", param="entries")
        entries[term] = translation
        if len(entries) > MAX_ENTRIES:
            raise BodyTooLarge(f"a glossary has at most {MAX_ENTRIES:,} entries", param="entries")
    return entries


def write_tsv(entries: Mapping[str, str]) -> str:
    """One `term TAB translation` a line; stored entries have neither tabs nor line breaks."""
    return "".join(f"{term}\t{translation}\n" for term, translation in entries.items())


def write_csv(entries: Mapping[str, str]) -> str:
    """Two columns, quoted as in RFC 4180."""
    written = io.StringIO()
    csv.writer(written).writerows(entries.items())
    return written.getvalue()


# ---- bodies and answers


def _parse(body: bytes, model: type[Body], most: int) -> Body:
    value = parse_json(body, most)
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        errors = [{**one, "loc": ("body", *one["loc"])} for one in fault.errors(include_url=False)]
        raise RequestValidationError(errors) from None


def _entries(body: bytes, content_type: str, most: int) -> dict[str, str]:
    kind = _kind(content_type)
    return _parse(body, EntriesBody, most).entries if kind == JSON else _table(body, kind)


def _changes(body: bytes, content_type: str, most: int) -> Mapping[str, str | None]:
    kind = _kind(content_type)
    return _parse(body, ChangesBody, most).entries if kind == JSON else _table(body, kind)


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower() or JSON


def _table(body: bytes, kind: str) -> dict[str, str]:
    parse: Callable[[str], dict[str, str]] | None = {TSV: parse_tsv, CSV: parse_csv}.get(kind)
    if parse is None:
        raise InvalidGlossary(f"entries come as {JSON}, {TSV} or {CSV}, not as {kind[:40]!r}", param="content-type")
    try:
        return parse(body.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        raise InvalidGlossary(f"the body is not UTF-8 at byte {fault.start}", param="entries") from None


def _chosen(accept: str) -> str:
    """The first form that the client accepts and the server has; JSON for none."""
    wanted = (one.partition(";")[0].strip().lower() for one in accept.split(","))
    return next((one for one in wanted if one in (JSON, TSV, CSV)), JSON)


def _body_of(schema: dict[str, Any], *, tables: bool) -> dict[str, Any]:
    """How OpenAPI shows a body that the route reads itself."""
    content: dict[str, Any] = {JSON: {"schema": schema}}
    if tables:
        content[TSV] = {"schema": {"type": "string"}, "example": write_tsv(_EXAMPLE_ENTRIES)}
        content[CSV] = {"schema": {"type": "string"}, "example": write_csv(_EXAMPLE_ENTRIES)}
    return {"requestBody": {"required": True, "content": content}}


def _with_definitions(model: type[BaseModel]) -> dict[str, Any]:
    """The model's schema with those of its parts in their places: OpenAPI does not look for them beside it."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(node: Any) -> Any:
        if isinstance(node, list):
            return [resolved(one) for one in cast(list[Any], node)]
        if not isinstance(node, dict):
            return node
        entries = cast(dict[str, Any], node)
        if reference := entries.get("$ref"):
            return resolved(definitions[reference.rpartition("/")[2]])
        return {name: resolved(one) for name, one in entries.items()}

    return resolved(schema)


Reference = Annotated[str, Path(description="The glossary's id or its name.")]
Source = Annotated[str, Query(description="BCP-47 tag of the terms' language.")]
Target = Annotated[str, Query(description="BCP-47 tag of the translations' language.")]

# ---- routes


@router.post(
    "",
    summary="Store a glossary",
    status_code=201,
    responses=errors(409, 413, 422),
    openapi_extra=_body_of(_with_definitions(GlossaryBody), tables=False),
)
async def create(request: Request, service: Service, account: Caller) -> GlossaryOut:
    """A new glossary, with entries or without."""
    body = await request.body()
    given = await worked(len(body), _parse, body, GlossaryBody, request.app.state.max_values)
    dictionaries: dict[tuple[str, str], dict[str, str]] = {}
    for one in given.dictionaries:
        dictionaries.setdefault((one.source, one.target), {}).update(one.entries)
    created = await service.glossaries.create(account.id, given.name, dictionaries)
    return GlossaryOut.of(service.glossaries, created, account)


@router.get("", summary="The stored glossaries", responses=errors())
async def list_all(service: Service, account: Caller) -> GlossariesAnswer:
    """The key's own and those that the server shares, by name, without their entries."""
    found = await service.glossaries.list(account.id)
    return GlossariesAnswer(glossaries=[GlossaryOut.of(service.glossaries, one, account) for one in found])


@router.get("/{glossary}", summary="One glossary", responses=errors(404))
async def get(glossary: Reference, service: Service, account: Caller) -> GlossaryOut:
    """A glossary without its entries."""
    return GlossaryOut.of(service.glossaries, await service.glossaries.get(account.id, glossary), account)


@router.patch("/{glossary}", summary="Rename or share a glossary", responses=errors(403, 404, 409, 413, 422))
async def change_glossary(glossary: Reference, body: ChangeBody, service: Service, account: Caller) -> GlossaryOut:
    """Its id and its entries stay."""
    changed = await change(service.glossaries, account, glossary, body)
    return GlossaryOut.of(service.glossaries, changed, account)


@router.delete("/{glossary}", summary="Delete a glossary", status_code=204, responses=errors(403, 404))
async def delete(glossary: Reference, service: Service, account: Caller) -> Response:
    """Delete a glossary with all its entries: one's own by its id or name, a shared one by its id."""
    stored = await deletable(service.glossaries, account, glossary)
    await service.glossaries.delete(stored.account_id, stored.id)
    return Response(status_code=204)


@router.get(
    "/{glossary}/entries",
    summary="Export the entries of a pair of languages",
    response_model=EntriesAnswer,
    responses={
        200: {
            "content": {
                TSV: {"schema": {"type": "string"}, "example": write_tsv(_EXAMPLE_ENTRIES)},
                CSV: {"schema": {"type": "string"}, "example": write_csv(_EXAMPLE_ENTRIES)},
            }
        },
        **errors(404),
    },
)
async def export(
    glossary: Reference,
    source: Source,
    target: Target,
    service: Service,
    account: Caller,
    accept: Annotated[str, Header()] = JSON,
) -> Response:
    """As JSON, or by `Accept` as TSV or CSV. A dictionary of `en` answers for `en-US` too; none: no entries."""
    stored = await service.glossaries.dictionary(account.id, glossary, source, target)
    kind = _chosen(accept)

    def written() -> bytes:
        if kind == JSON:
            answer = EntriesAnswer(
                source=stored.source, target=stored.target, version=stored.version, entries=dict(stored.entries)
            )
            return answer.model_dump_json().encode()
        return (write_tsv if kind == TSV else write_csv)(stored.entries).encode()

    return Response(await asyncio.to_thread(written), media_type=kind, headers={"Vary": "Accept"})


@router.put(
    "/{glossary}/entries",
    summary="Replace the entries of a pair of languages",
    responses=errors(403, 404, 413, 422),
    openapi_extra=_body_of(EntriesBody.model_json_schema(), tables=True),
)
async def replace(
    glossary: Reference, source: Source, target: Target, request: Request, service: Service, account: Caller
) -> GlossaryOut:
    """JSON, TSV or CSV, by `Content-Type`."""
    entries = await _read(request, _entries)
    stored = await changeable(service.glossaries, account, glossary)
    changed = await service.glossaries.replace(stored.account_id, stored.id, source, target, entries)
    return GlossaryOut.of(service.glossaries, changed, account)


@router.patch(
    "/{glossary}/entries",
    summary="Add, change and delete entries of a pair of languages",
    responses=errors(403, 404, 413, 422),
    openapi_extra=_body_of(ChangesBody.model_json_schema(), tables=True),
)
async def merge(
    glossary: Reference, source: Source, target: Target, request: Request, service: Service, account: Caller
) -> GlossaryOut:
    """As `PUT`; terms that are not in the body stay. As JSON, an entry with null is deleted."""
    entries = await _read(request, _changes)
    stored = await changeable(service.glossaries, account, glossary)
    changed = await service.glossaries.merge(stored.account_id, stored.id, source, target, entries)
    return GlossaryOut.of(service.glossaries, changed, account)


@router.delete("/{glossary}/entries", summary="Delete the entries of a pair of languages", responses=errors(403, 404))
async def delete_entries(
    glossary: Reference, source: Source, target: Target, service: Service, account: Caller
) -> GlossaryOut:
    """Delete the dictionary of this pair; the glossary stays."""
    stored = await changeable(service.glossaries, account, glossary)
    changed = await service.glossaries.delete_dictionary(stored.account_id, stored.id, source, target)
    return GlossaryOut.of(service.glossaries, changed, account)


async def _read(request: Request, parse: Callable[[bytes, str, int], Given]) -> Given:
    body = await request.body()
    content_type = request.headers.get("content-type", JSON)
    return await worked(len(body), parse, body, content_type, request.app.state.max_values)
