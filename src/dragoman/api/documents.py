"""Documents: `/v1/documents`, files that are translated as jobs, their results, segments and edits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast, get_args

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from dragoman import types as translation
from dragoman.api import openapi, schemas
from dragoman.api.answers import OpenFileResponse, file_headers, while_connected
from dragoman.api.forms import FileForm, receive_body, receive_file
from dragoman.api.input import NEEDS_KEY, Caller, KeyFirstRoute, Service, check_direction, parse_terms
from dragoman.errors import InvalidRequest
from dragoman.service.alternatives import MAX_ALTERNATIVES
from dragoman.service.document_contents import MOST_TRANSLATION_CHARACTERS, RefusalCode, ReturnConflict
from dragoman.service.document_runs import DocumentOptions, report_of
from dragoman.service.document_search import MOST_FOUND, SegmentQuery, Where
from dragoman.storage.document_files import full_disk_reported
from dragoman.storage.documents import DocumentState, StoredDocument
from dragoman.threads import RESULTS, SEGMENTS, UPLOADS
from dragoman.types import ConfidenceKind, Options
from dragoman.version import writer
from wholetext.files import exports
from wholetext.files.segmentfile import SegmentEdit, SegmentKind, StoredSegment
from wholetext.files.worker import SOURCE
from wholetext.markup.dialects import DIALECTS

router = APIRouter(prefix="/v1/documents", tags=["documents"], route_class=KeyFirstRoute, dependencies=[NEEDS_KEY])

MAX_PAGE = 1_000
MAX_DOCUMENTS = 100
"""Of a list: each has up to a hundred texts that were left."""
MAX_FIND_CHARACTERS = 1_000
MAX_REPLACED = 200
"""Segments of one answer that have what is replaced."""

# ---- wire format


class DocumentErrorOut(BaseModel):
    """Why a document was not translated."""

    code: str
    message: str


class DocumentWarningOut(BaseModel):
    """What people should know of a document as a whole."""

    message: str
    code: str | None = None
    place: str | None = None


class LeftOut(BaseModel):
    """Text that was not translated on purpose."""

    place: str
    reason: str
    text: str


class DocumentOut(BaseModel):
    """A document and how far it is."""

    id: str
    name: str
    format: str
    state: DocumentState
    target: str
    source: Annotated[str | None, Field(description="null: not detected yet, or there are no letters.")]
    detected: Annotated[bool, Field(description="Whether the source language is detected.")]
    characters: Annotated[int, Field(description="Of the texts to translate; 0 until the file was read.")]
    characters_done: int
    segments: int
    segments_done: int
    doubtful: Annotated[int, Field(description="Segments whose translation may be wrong.")]
    seconds_remaining: Annotated[float | None, Field(description="From the measured rate; null: unknown.")]
    created: datetime
    expires: Annotated[datetime, Field(description="It is deleted then; asking for it moves that.")]
    error: DocumentErrorOut | None
    warnings: list[DocumentWarningOut]
    left: Annotated[list[LeftOut], Field(description="The first 100 texts that are not translated on purpose.")]
    left_count: int
    confidence_kind: Annotated[
        ConfidenceKind | None,
        Field(description="How `confidence` of its segments is meant, as that of a translation; null: unknown."),
    ]

    @classmethod
    def of(cls, stored: StoredDocument) -> DocumentOut:
        report = report_of(stored)
        error = (
            DocumentErrorOut(code=stored.error_code, message=stored.error_message or "") if stored.error_code else None
        )
        return cls(
            id=stored.id,
            name=stored.name,
            format=stored.format,
            state=stored.state,
            target=stored.target,
            source=stored.source,
            detected=stored.detected,
            characters=stored.characters,
            characters_done=stored.characters_done,
            segments=stored.segments,
            segments_done=stored.segments_done,
            doubtful=stored.doubtful,
            seconds_remaining=None if stored.seconds_remaining is None else round(stored.seconds_remaining, 1),
            created=stored.created_at.replace(tzinfo=UTC),
            expires=stored.expires_at.replace(tzinfo=UTC),
            error=error,
            warnings=report["warnings"],
            left=report["left"],
            left_count=report["left_count"],
            confidence_kind=report["confidence_kind"],
        )


class DocumentsAnswer(BaseModel):
    """`GET /v1/documents`."""

    documents: list[DocumentOut]


class SegmentOut(BaseModel):
    """A segment with its translation, both with marks for what is not text: `<g1>…</g1>`, `<x2/>`."""

    n: Annotated[int, Field(description="Its number, from 0 on.")]
    place: Annotated[str, Field(description="Where it is: a paragraph, cell, slide, cue or key.")]
    source: str
    translation: Annotated[str | None, Field(description="null: not translated yet.")]
    confidence: float | None
    warnings: list[schemas.WarningOut]
    doubtful: Annotated[bool, Field(description="It has warnings, and no person has edited or reviewed it.")]
    edited: Annotated[bool, Field(description="A person's translation differs from the machine's.")]
    reviewed: Annotated[bool, Field(description="A person has approved it, as it is or by editing it.")]
    machine: Annotated[str | None, Field(description="The machine's translation of an edited one; null: not known.")]
    memory: Annotated[bool, Field(description="Its translation, or a part of it, is from a translation memory.")]
    examples: Annotated[int, Field(description="How many texts with their translations the model was shown.")]
    best_similarity: Annotated[
        float | None,
        Field(description="Of an entry of a translation memory among the examples, 0 to 100; null: there was none."),
    ]
    equal: Annotated[int, Field(description="How many other segments have the same source.")]
    looks: Annotated[
        dict[str, str],
        Field(
            description="What is known of its marks, by number: names such as `bold`, `italic`, `underline`, `strike`, "
            "`superscript`, `subscript`, `code`, `link`, `break`, or `=` and the words of what is kept."
        ),
    ]

    @classmethod
    def of(cls, stored: StoredSegment) -> SegmentOut:
        return cls.model_validate(stored, from_attributes=True)


class SegmentsAnswer(BaseModel):
    """A page of segments."""

    segments: list[SegmentOut]
    total: Annotated[int, Field(description="Of those asked for, on all pages.")]
    doubtful_total: int


_Translation = Annotated[
    str | None,
    Field(
        max_length=MOST_TRANSLATION_CHARACTERS,
        description="With the marks of the source, each once; absent: it stays as it is.",
    ),
]
_Reviewed = Annotated[
    bool, Field(description="Whether a person has approved it; the key's memory `edits` has it then.")
]


_Was = Annotated[
    str | None,
    Field(
        max_length=MOST_TRANSLATION_CHARACTERS,
        description="The translation that is changed: if it is another by now, it stays, and is in `conflicts`, or not in the "
        "answer for one segment.",
    ),
]


class EditBody(schemas.RequestBody):
    """An edited translation, or only whether it is right as it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"translation": "<g1>駅</g1>はどこですか？"}]})

    translation: _Translation = None
    reviewed: _Reviewed = True
    all_equal: Annotated[bool, Field(description="Set that of all segments with the same source too.")] = False
    was: _Was = None


class SegmentEditBody(schemas.RequestBody):
    """What is changed of one segment."""

    n: Annotated[int, Field(ge=0, lt=2**31)]
    translation: _Translation = None
    reviewed: _Reviewed = True
    was: _Was = None


class EditsBody(schemas.RequestBody):
    """Changes of several segments."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"edits": [{"n": 3, "translation": "駅"}]}]})

    edits: Annotated[schemas.Items[SegmentEditBody], Field(min_length=1, max_length=MAX_PAGE)]


class EditsAnswer(BaseModel):
    """The segments that were changed, and the numbers of those that were changed by others before."""

    segments: list[SegmentOut]
    conflicts: list[int]


class RefusedOut(BaseModel):
    """A segment of a file that was not set."""

    n: int
    code: RefusalCode
    message: str


class ReturnConflictOut(BaseModel):
    """A segment that was changed here since the file was exported, and has another translation in it."""

    segment: Annotated[SegmentOut, Field(description="As it was here when the file came back.")]
    returned: Annotated[str, Field(description="Its translation in the file.")]
    reviewed: Annotated[bool, Field(description="Whether the file's translation counts as reviewed.")]

    @classmethod
    def of(cls, conflict: ReturnConflict) -> ReturnConflictOut:
        """The same for the wire."""
        return cls.model_validate(conflict, from_attributes=True)


class TakenBackAnswer(BaseModel):
    """What a file that came back has changed; of each list the first 1,000."""

    segments: Annotated[int, Field(description="In the file.")]
    changed: list[int]
    changed_count: int
    reviewed_count: Annotated[int, Field(description="Approved in the file, with the translation as it was.")]
    refused: list[RefusedOut]
    refused_count: int
    conflicts: Annotated[list[ReturnConflictOut], Field(description="What the file has changed, too.")]
    conflicts_count: int
    as_exported: Annotated[
        list[ReturnConflictOut],
        Field(description="What another file of the same export has changed; in this one it is as exported."),
    ]
    as_exported_count: int


class NumbersAnswer(BaseModel):
    """Segments that were found."""

    numbers: Annotated[list[int], Field(description="Ascending.")]
    next: Annotated[
        int | None, Field(description="`first` of the request for those that come after; null: there are none.")
    ]


class ReplaceBody(schemas.RequestBody):
    """What to replace in translations."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"find": "Haus", "replacement": "Gebäude"}]})

    find: Annotated[str, Field(min_length=1, max_length=MAX_FIND_CHARACTERS)]
    replacement: Annotated[str, Field(max_length=MAX_FIND_CHARACTERS)]
    match_case: bool = False
    kind: SegmentKind | None = None
    first: Annotated[int, Field(ge=0, lt=2**31)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_REPLACED)] = 100


class ReplacementOut(BaseModel):
    """A segment, and what its translation would be."""

    segment: SegmentOut
    replaced: str


class ReplacementsAnswer(BaseModel):
    """What replacing would change."""

    changes: list[ReplacementOut]
    next: int | None


class EditAnswer(BaseModel):
    """The segments that were changed, the first 1,000 of very many."""

    segments: list[SegmentOut]


class AlternativesBody(schemas.RequestBody):
    """How many other translations are wanted."""

    n: Annotated[int, Field(ge=1, le=MAX_ALTERNATIVES)] = 3


class AlternativesAnswer(BaseModel):
    """Other translations; fewer than wanted where the model finds no more."""

    alternatives: list[schemas.AlternativeOut]


# ---- forms

_TEXT_FIELDS = frozenset(
    {"target", "source", "glossary", "memory", "formality", "context", "comments", "dialect", "output_format"}
)
_LIST_FIELDS = frozenset({"instructions", "keep", "columns"})
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "target"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "target": {**openapi.TEXT, "description": "BCP-47 tag of the language to translate into."},
                        "source": {**openapi.TEXT, "description": "BCP-47 tag; absent: detected."},
                        "glossary": {
                            **openapi.TEXT,
                            "description": "The id or name of a stored glossary, or a JSON object of terms.",
                        },
                        "memory": {
                            **openapi.TEXT,
                            "description": "Whether the key's translation memories are used (`true`, `false`), or the id or "
                            "name of the only one.",
                        },
                        "formality": openapi.choice(*get_args(translation.Formality)),
                        "instructions": openapi.TEXTS,
                        "context": openapi.TEXT,
                        "keep": openapi.TEXTS,
                        "comments": {**openapi.FLAG, "description": "Translate reviewers' comments."},
                        "columns": {**openapi.TEXTS, "description": "csv, tsv: names or numbers of columns."},
                        "dialect": {**openapi.choice(*DIALECTS), "description": "Of Markdown; absent: guessed."},
                        "output_format": {
                            **openapi.TEXT,
                            "description": "Extension of the result; absent: the file's.",
                        },
                    },
                }
            }
        },
    }
}


def options_of(form: FileForm, request: Request, account: translation.Account) -> DocumentOptions:
    """The options in a native form. Raises `InvalidRequest` and `UnsupportedLanguage`."""
    for name in form.fields:
        if name not in _TEXT_FIELDS | _LIST_FIELDS:
            raise InvalidRequest(f"unknown field {name[:100]}", param=name[:100])
    formality = form.text("formality") or "default"
    if formality not in get_args(translation.Formality):
        raise InvalidRequest(f"formality is one of {', '.join(get_args(translation.Formality))}", param="formality")
    comments = (form.text("comments") or "false").lower()
    if comments not in ("true", "false", "1", "0"):
        raise InvalidRequest("comments is true or false", param="comments")
    if (target := form.text("target")) is None:
        raise InvalidRequest("target is missing", param="target")
    glossary = form.text("glossary") or ""
    options = Options(
        context=form.text("context") or None,
        keep=tuple(filter(None, form.fields.get("keep", ()))),
        glossary=parse_terms(glossary) if glossary.startswith("{") else {},
        formality=cast(translation.Formality, formality),
        instructions=tuple(filter(None, form.fields.get("instructions", ()))),
    )
    return checked(
        DocumentOptions(
            target,
            form.text("source"),
            options,
            output=form.text("output_format") or "",
            glossary="" if glossary.startswith("{") else glossary,
            comments=comments in ("true", "1"),
            columns=tuple(filter(None, form.fields.get("columns", ()))),
            dialect=form.text("dialect") or "",
            memory=_memory(form.text("memory") or "true"),
        )
    )


def checked(options: DocumentOptions) -> DocumentOptions:
    """Return options that are within the limits. Raises `InvalidRequest` and `UnsupportedLanguage`."""
    check_direction(options.target, options.source)
    options.options.check()
    if options.dialect and options.dialect not in DIALECTS:
        raise InvalidRequest(f"dialect is one of {', '.join(DIALECTS)}", param="dialect")
    return options


def _memory(value: str) -> bool | str:
    """Whether memories are used, or the reference of the only one."""
    return value.lower() == "true" if value.lower() in ("true", "false") else value


# ---- routes

Id = Annotated[str, Path(description="The document's id.")]
Number = Annotated[int, Path(description="The segment's number.", ge=0, lt=2**31)]


def _errors(*statuses: int) -> openapi.Answers:
    return openapi.failures(schemas.ErrorAnswer, 400, 401, *statuses)


@router.post(
    "",
    summary="Translate a document",
    status_code=201,
    responses=_errors(403, 404, 413, 422, 429),
    openapi_extra=_FORM,
)
async def create(request: Request, service: Service, account: Caller) -> DocumentOut:
    """A file in, a job out: ask for it until its state is `done`, then get its result."""
    documents = service.documents
    with documents.upload() as path:
        form = await receive_file(request, path, documents.max_bytes)
        if not form.file_name:
            raise InvalidRequest("the form has no field `file` with a file's name", param="file")
        options = options_of(form, request, account)
        return DocumentOut.of(await documents.create(path, form.file_name, options, account))


@router.get("", summary="The key's documents", responses=_errors())
async def list_all(
    service: Service,
    account: Caller,
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_DOCUMENTS)] = MAX_DOCUMENTS,
) -> DocumentsAnswer:
    """The newest first."""
    found = await service.documents.list(account, offset, limit)
    return DocumentsAnswer(documents=await SEGMENTS.run(lambda: [*map(DocumentOut.of, found)]))


@router.get("/{id}", summary="One document", responses=_errors(404))
async def get(id: Id, service: Service, account: Caller) -> DocumentOut:
    """Its state and progress, and what people should know of it."""
    return DocumentOut.of(await service.documents.get(id, account))


@router.delete("/{id}", summary="Delete a document", status_code=204, responses=_errors(404))
async def delete(id: Id, service: Service, account: Caller) -> Response:
    """Delete its file, its result and its segments; what runs of it is cancelled."""
    documents = service.documents
    await documents.delete(await documents.get(id, account))
    return Response(status_code=204)


@router.get(
    "/{id}/result",
    summary="The translated file",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": openapi.TEXT}}}, **_errors(404)},
)
async def result(
    id: Id,
    service: Service,
    account: Caller,
    format: Annotated[Literal["tmx", "xliff"] | None, Query(description="Its segments instead of the file.")] = None,
) -> Response:
    """As often as wanted, with the edits of its segments. 503 `document_not_ready` while it is translated."""
    documents = service.documents
    document = await documents.get(id, account)
    if format is None:
        file = await documents.contents.result(document)
        return OpenFileResponse(file.file, file_headers(_name_of_result(document, file.name), file.media_type))
    segments = await documents.contents.all_segments(document)

    def written() -> bytes:
        found = (
            exports.BilingualSegment(
                one.n,
                one.place,
                one.source,
                one.translation or one.source,
                one.doubtful,
                one.edited or one.reviewed,
                tuple(str(warning["message"]) for warning in one.warnings) if one.doubtful else (),
            )
            for one in segments
        )
        source = document.source or document.target
        return "".join(exports.export(found, format, document.name, source, document.target, writer())).encode()

    name = _name_of_result(document, f"{document.name.rpartition('.')[0]}.{format}")
    return Response(await RESULTS.run(written), headers=file_headers(name, exports.MEDIA_TYPES[format]))


def _name_of_result(document: StoredDocument, name: str) -> str:
    """`report.docx` becomes `report.de.docx`; a language of the source there is replaced."""
    stem, _, extension = name.rpartition(".")
    return f"{stem.removesuffix(f'.{document.source}')}.{document.target}.{extension}"


@router.get("/{id}/segments", summary="Source and translation side by side", responses=_errors(404))
async def list_segments(
    id: Id,
    service: Service,
    account: Caller,
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    doubtful: Annotated[bool, Query(description="Only those whose translation may be wrong.")] = False,
    n: Annotated[list[int], Query(max_length=MAX_REPLACED, description="Only those of these numbers.")] = [],  # noqa: B006
) -> SegmentsAnswer:
    """In the document's order, as far as it is translated."""
    documents = service.documents
    document = await documents.get(id, account)
    if n:
        rows = await documents.contents.rows(document, n)
        return SegmentsAnswer(segments=[*map(SegmentOut.of, rows)], total=len(rows), doubtful_total=document.doubtful)
    page = await documents.contents.segments(document, offset, limit, doubtful=doubtful)
    return SegmentsAnswer(
        segments=[*map(SegmentOut.of, page.segments)], total=page.total, doubtful_total=page.doubtful_total
    )


@router.get("/{id}/segments/numbers", summary="Find segments", responses=_errors(404))
async def find_segments(
    id: Id,
    service: Service,
    account: Caller,
    find: Annotated[
        str, Query(max_length=MAX_FIND_CHARACTERS, description="What their texts have; empty: anything.")
    ] = "",
    where: Annotated[Where, Query(description="Which of their texts.")] = "both",
    match_case: bool = False,
    kind: Annotated[SegmentKind | None, Query(description="Only these.")] = None,
    first: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_FOUND)] = MOST_FOUND,
) -> NumbersAnswer:
    """The numbers of segments, whose texts are searched without their marks. An answer may have fewer than there are: `next` is
    where to go on."""
    documents = service.documents
    query = SegmentQuery(find, where, match_case, kind)
    found = await documents.contents.search(await documents.get(id, account), query, first, limit)
    return NumbersAnswer(numbers=found.numbers, next=found.next)


@router.post("/{id}/segments/replacements", summary="What replacing would change", responses=_errors(404, 422))
async def replacements(id: Id, body: ReplaceBody, service: Service, account: Caller) -> ReplacementsAnswer:
    """Translations with what is found replaced, and their marks kept. Nothing is changed: send those that are right as
    `PATCH …/segments`."""
    documents = service.documents
    document = await documents.get(id, account)
    query = SegmentQuery(body.find, "translation", body.match_case, body.kind)
    changes, after = await documents.contents.replacements(document, query, body.replacement, body.first, body.limit)
    shown = [ReplacementOut(segment=SegmentOut.of(one), replaced=text) for one, text in changes]
    return ReplacementsAnswer(changes=shown, next=after)


@router.post(
    "/{id}/xliff",
    summary="Take an exported XLIFF file back",
    responses=_errors(404, 413, 422),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {exports.MEDIA_TYPES["xliff"]: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def take_back(
    id: Id,
    request: Request,
    service: Service,
    account: Caller,
    conflicts: Annotated[
        Literal["keep", "overwrite"],
        Query(
            description="What becomes of segments that were changed here and in the file: the answer has both texts."
        ),
    ] = "keep",
) -> TakenBackAnswer:
    """The file of `…/result?format=xliff`, after a translator's tool changed it, whatever the Content-Type. Translations that
    the tool has changed are set, if they have the marks of their sources, and count as reviewed unless their state is `needs-…`
    or `new`; approved ones count as reviewed. What was changed here since the export stays, and is in `conflicts` where the
    tool has changed it too. What another file of the same export has changed here stays, and is in `as_exported` where this
    file has what was exported, set back or never changed. A file with a source that is not the document's is refused."""
    documents = service.documents
    document = await documents.get(id, account)
    upload = service.memories.uploads.begin(account.id)
    try:
        with full_disk_reported():
            await receive_body(request, upload.path / SOURCE, service.max_file_bytes)
            taken = await documents.contents.take_back(document, upload.path, overwrite=conflicts == "overwrite")
    finally:
        await UPLOADS.run(upload.discard)
    return TakenBackAnswer(
        segments=taken.segments,
        changed=taken.changed[:MAX_PAGE],
        changed_count=len(taken.changed),
        reviewed_count=len(taken.reviewed),
        refused=[RefusedOut(n=n, code=code, message=message) for n, code, message in taken.refused[:MAX_PAGE]],
        refused_count=len(taken.refused),
        conflicts=[*map(ReturnConflictOut.of, taken.conflicts)],
        conflicts_count=taken.conflicts_count,
        as_exported=[*map(ReturnConflictOut.of, taken.as_exported)],
        as_exported_count=taken.as_exported_count,
    )


@router.patch("/{id}/segments", summary="Edit translations", responses=_errors(404, 422))
async def edit_all(id: Id, body: EditsBody, service: Service, account: Caller) -> EditsAnswer:
    """As one of them is edited. If the marks of one are wrong, none is changed."""
    documents = service.documents
    document = await documents.get(id, account)
    edits = [SegmentEdit(one.n, one.translation, one.reviewed, one.was) for one in body.edits]
    edited = await documents.contents.edit_all(document, edits)
    return EditsAnswer(segments=[*map(SegmentOut.of, edited.changed)], conflicts=edited.conflicts)


@router.patch("/{id}/segments/{n}", summary="Edit or review a translation", responses=_errors(404, 422))
async def edit(id: Id, n: Number, body: EditBody, service: Service, account: Caller) -> EditAnswer:
    """The result has it at its next download, and what is reviewed the key's translation memory `edits`. Marks that are lost,
    repeated or invented are an error. The machine's translation, set again, is not edited."""
    documents = service.documents
    document = await documents.get(id, account)
    changed = await documents.contents.edit(
        document, n, body.translation, reviewed=body.reviewed, all_equal=body.all_equal, was=body.was
    )
    return EditAnswer(segments=[*map(SegmentOut.of, changed)])


@router.post(
    "/{id}/segments/{n}/alternatives", summary="Other translations of a segment", responses=_errors(403, 404, 422, 429)
)
async def alternatives(
    id: Id, n: Number, body: AlternativesBody, request: Request, service: Service, account: Caller
) -> AlternativesAnswer:
    """They are checked like others, and differ from its translation and from each other."""
    documents = service.documents
    document = await documents.get(id, account)
    async with while_connected(request.receive):
        found = await documents.contents.alternatives(document, n, body.n, account)
    return AlternativesAnswer(alternatives=[*map(schemas.AlternativeOut.of, found)])


@router.post(
    "/{id}/segments/{n}/similar",
    summary="Translate the segments again that are similar to an edited one",
    responses=_errors(403, 404, 422, 429),
)
async def translate_similar(id: Id, n: Number, request: Request, service: Service, account: Caller) -> EditAnswer:
    """What people have edited in the document are examples for the model. The answer has the segments that have another
    translation now; those that people have edited stay. Up to 100 are translated, as an interactive call of the key."""
    documents = service.documents
    document = await documents.get(id, account)
    async with while_connected(request.receive):
        changed = await documents.contents.translate_similar(document, n, account)
    return EditAnswer(segments=[*map(SegmentOut.of, changed)])
