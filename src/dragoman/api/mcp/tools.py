"""The tools: their arguments, their answers, and what each does with the service.

Arguments and answers are those of the native API, with the descriptions of its models. Arguments that are null count as absent:
some agents send all of them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import math
import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, cast

from fastapi import Request
from mcp_types import BlobResourceContents, ContentBlock, EmbeddedResource, ResourceLink, TextResourceContents
from pydantic import BaseModel, Field, ValidationError

from dragoman import languages
from dragoman import types as translation
from dragoman.api import documents, glossaries, native, schemas
from dragoman.api.errors import fault_of_field
from dragoman.api.input import base_url, check_texts, deadline_of
from dragoman.errors import BodyTooLarge, InvalidRequest, TooManyTexts
from dragoman.service.document_contents import ResultFile
from dragoman.service.document_runs import DocumentOptions
from dragoman.service.service import TranslationService
from dragoman.storage.document_files import full_disk_reported
from dragoman.storage.documents import IN_FLIGHT, StoredDocument
from dragoman.threads import RESULTS, UPLOADS
from dragoman.types import Options, TextDone, Translation
from wholetext.files import formats
from wholetext.markup.dialects import DIALECTS

Arguments = TypeVar("Arguments", bound=BaseModel)

MAX_TEXTS, MAX_CHARACTERS = 1_000, 200_000
"""Of one call: the answer is in one piece, twice, and an agent reads all of it."""
MAX_INLINE_BYTES = 200_000
"""A larger result of a document is a link."""
MAX_DOUBTFUL = 20
"""Doubtful segments of a document, and texts that were left, that its answer names."""
WAIT_S, MAX_WAIT_S = 45.0, 600.0
"""How long a call waits for a document: many clients give up after 60 s."""


@dataclass(slots=True)
class ToolProgress:
    """How far a call is; `done` never decreases."""

    done: float = 0.0
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: its HTTP request, and on whose behalf it is."""

    http: Request
    service: TranslationService
    account: translation.Account
    progress: ToolProgress = field(default_factory=ToolProgress)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A tool's result: `structured` by its output schema, and what it has besides."""

    structured: dict[str, Any]
    content: Sequence[ContentBlock] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as it is listed, and `run`, which raises `DragomanError`."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    run: Callable[[ToolCall, Mapping[str, Any]], Coroutine[Any, Any, ToolAnswer]]
    read_only: bool = True


def of(service: TranslationService) -> list[Tool]:
    """The tools that a server offers."""
    found = [_TRANSLATE, _DETECT, _LIST_LANGUAGES, _LIST_GLOSSARIES]
    return [*found, _TRANSLATE_DOCUMENT, _GET_DOCUMENT] if service.translates_documents else found


def instructions(service: TranslationService) -> str:
    """What agents are told of the server."""
    calibrated = (
        "calibrated: it is the probability that the translation is right"
        if service.model.confidence.kind == "calibrated"
        else "a rank: the share of this server's recent translations of the same languages that are less likely to be right"
    )
    return (
        f"Translates texts and files with the model {service.model.name}; list_languages says between which languages. Give "
        "the source language where it is known. Each translation has `warnings`, which say what may be wrong with it, and "
        f"`confidence` (0 to 1; null: unknown), which is {calibrated}. Check a translation that has warnings before you rely "
        "on it, and tell the user. Texts may have HTML, XML or Markdown (`format`); placeholders, links and code come back as "
        "they were."
    )


# ---- arguments and schemas


def _parsed(model: type[Arguments], given: Mapping[str, Any]) -> Arguments:
    """Raises `InvalidRequest` for the first argument that is not as the schema has it."""
    _check_names(given, model.model_fields)
    try:
        return model.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        fault = fault_of_field(first["type"], first["loc"], first["msg"])
        raise InvalidRequest(fault.message, param=fault.param) from None


def _check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Before all else is looked at: an error for each name would be made otherwise."""
    if unknown := next((name for name in given if name not in known), None):
        raise InvalidRequest(f"unknown field {unknown[:200]}", param=unknown[:200])


def _input_schema(model: type[BaseModel], *names: str) -> dict[str, Any]:
    """A model's arguments, or those of these names. Null is not offered: what is absent says the same."""
    whole = model.model_json_schema()
    properties: dict[str, Any] = {name: whole["properties"][name] for name in names or whole["properties"]}
    for name, one in properties.items():
        one.pop("title", None)
        if "anyOf" in one:
            kinds = [kind for kind in one["anyOf"] if kind != {"type": "null"}]
            rest = {key: value for key, value in one.items() if key != "anyOf"}
            properties[name] = {**kinds[0], **rest} if len(kinds) == 1 else {"anyOf": kinds, **rest}
        if properties[name].get("default", 0) is None:
            del properties[name]["default"]
    required = [name for name in whole.get("required", ()) if name in properties]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return schema | ({"$defs": whole["$defs"]} if "$ref" in json.dumps(properties) else {})


def _output_schema(model: type[BaseModel]) -> dict[str, Any]:
    """An answer's schema without titles and examples, which an agent would read with each list of tools."""

    def short(node: Any) -> Any:
        if isinstance(node, list):
            return [short(one) for one in cast(list[Any], node)]
        if not isinstance(node, dict):
            return node
        entries = cast(dict[str, Any], node)
        is_left = {name: name in ("title", "examples") and not isinstance(one, dict) for name, one in entries.items()}
        return {name: short(one) for name, one in entries.items() if not is_left[name]}

    return short(model.model_json_schema(mode="serialization"))


def _described(name: str) -> str | None:
    """What the native API says of a field."""
    return schemas.TranslateBody.model_fields[name].description


def _dumped(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json")


# ---- texts

_TRANSLATE_ARGUMENTS = (
    *("text", "target", "source", "format", "context", "consecutive", "glossary", "keep", "formality", "instructions"),
    *("examples", "strict", "deadline_s"),
)


def _check_size(texts: Sequence[str]) -> None:
    if len(texts) > MAX_TEXTS:
        raise TooManyTexts(f"{len(texts)} texts in one call; this tool accepts {MAX_TEXTS}: send fewer", param="text")
    if (characters := sum(map(len, texts))) > MAX_CHARACTERS:
        raise BodyTooLarge(
            f"the texts have {characters} characters together; this tool accepts {MAX_CHARACTERS}: send fewer, or a file",
            param="text",
        )


async def _translate(call: ToolCall, arguments: Mapping[str, Any]) -> ToolAnswer:
    _check_names(arguments, _TRANSLATE_ARGUMENTS)
    body = _parsed(schemas.TranslateBody, arguments)
    request = await native.request_of(call.http, body, call.service, call.account, "mcp")
    _check_size(request.texts)
    call.progress.total = len(request.texts)
    found: dict[int, Translation] = {}
    async with aclosing(call.service.calls.events(request)) as events:
        async for event in events:
            if isinstance(event, TextDone):
                found[event.index] = event.translation
                call.progress.done += 1
    translations = [found[index] for index in range(len(request.texts))]
    return ToolAnswer(
        {
            "translations": [native.translation_out(one) for one in translations],
            "model": call.service.model.name,
            "usage": native.usage_out(translations),
        }
    )


_TRANSLATE = Tool(
    "translate",
    "Translate texts",
    "Translate one text or several into a language. Markup, placeholders, links and code in the texts are kept. Look at the "
    "`warnings` and the `confidence` of each translation: they say what may be wrong with it.",
    _input_schema(schemas.TranslateBody, *_TRANSLATE_ARGUMENTS),
    _output_schema(schemas.TranslateAnswer),
    _translate,
)


class DetectArguments(schemas.RequestBody):
    """The arguments of `detect_language`."""

    text: Annotated[str | schemas.Items[str], Field(description="One text, or several.")]


class DetectionOut(BaseModel):
    """The language of one text."""

    language: Annotated[
        str | None, Field(description="BCP-47 tag; null: no letters, or the language could not be detected.")
    ]
    name: Annotated[str | None, Field(description="The language's English name.")]
    confidence: Annotated[float, Field(description="0 to 1; near 0 where the text may be in another language.")]
    served: Annotated[
        bool, Field(description="Whether the model translates the language; false also where it is null.")
    ]


class DetectAnswer(BaseModel):
    """The languages of the texts, in their order."""

    detections: list[DetectionOut]


async def _detect(call: ToolCall, arguments: Mapping[str, Any]) -> ToolAnswer:
    texts = await check_texts(call.service, _parsed(DetectArguments, arguments).text, allow_empty=True)
    _check_size(texts)
    pace, detections = call.service.calls.pace(), list[DetectionOut]()
    for text in texts:
        one = call.service.calls.detect(text)
        name = languages.name(one.language) if one.language else None
        served, confidence = one.is_served and one.language is not None, round(one.confidence, 4)
        detections.append(DetectionOut(language=one.language, name=name, confidence=confidence, served=served))
        await pace.pause()
    return ToolAnswer(_dumped(DetectAnswer(detections=detections)))


_DETECT = Tool(
    "detect_language",
    "Detect languages",
    "Say in which language each text is, and whether the model translates that. Not needed before `translate`, which detects "
    "the source itself.",
    _input_schema(DetectArguments),
    _output_schema(DetectAnswer),
    _detect,
)


# ---- what the server has


class NoArguments(schemas.RequestBody):
    """A tool without arguments."""


class AgentLanguageOut(BaseModel):
    """A language, without the long list of targets that the native API has."""

    code: str
    name: str
    native_name: str
    targets: Annotated[list[str] | None, Field(description="What it is translated into; null: all others.")]


class AgentLanguagesAnswer(BaseModel):
    """The languages of the model."""

    languages: list[AgentLanguageOut]


async def _list_languages(call: ToolCall, arguments: Mapping[str, Any]) -> ToolAnswer:
    _parsed(NoArguments, arguments)
    answer = await native.list_languages(call.service)
    others = len(answer.languages) - 1
    listed = [
        AgentLanguageOut(
            code=one.code,
            name=one.name,
            native_name=one.native_name,
            targets=None if len(one.targets) == others else one.targets,
        )
        for one in answer.languages
    ]
    return ToolAnswer(_dumped(AgentLanguagesAnswer(languages=listed)))


_LIST_LANGUAGES = Tool(
    "list_languages",
    "List languages",
    "The languages that the model translates, with the codes that `source` and `target` take.",
    _input_schema(NoArguments),
    _output_schema(AgentLanguagesAnswer),
    _list_languages,
)


async def _list_glossaries(call: ToolCall, arguments: Mapping[str, Any]) -> ToolAnswer:
    _parsed(NoArguments, arguments)
    return ToolAnswer(_dumped(await glossaries.list_all(call.service, call.account)))


_LIST_GLOSSARIES = Tool(
    "list_glossaries",
    "List glossaries",
    "The stored glossaries with their pairs of languages. Give a glossary's name or id as `glossary` of `translate`.",
    _input_schema(NoArguments),
    _output_schema(glossaries.GlossariesAnswer),
    _list_glossaries,
)


# ---- documents

_Wait = Annotated[
    float,
    Field(
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the result. If it takes longer, the answer has the document's id for `get_document`.",
    ),
]


class DocumentArguments(schemas.RequestBody):
    """The arguments of `translate_document`."""

    file_name: Annotated[
        str, Field(description="With its extension, which says what the file is: report.docx, en.json.")
    ]
    text: Annotated[
        str | None, Field(description="The content of a text file: md, html, srt, json, po, csv and the like.")
    ] = None
    content_base64: Annotated[
        str | None, Field(description="The content of any file, as base64; instead of `text`.")
    ] = None
    target: Annotated[str, Field(description=_described("target"))]
    source: Annotated[str | None, Field(description="BCP-47 tag; absent: detected.")] = None
    glossary: Annotated[schemas.Entries | str | None, Field(description=_described("glossary"))] = None
    formality: Annotated[translation.Formality, Field(description=_described("formality"))] = "default"
    context: Annotated[str | None, Field(description=_described("context"))] = None
    instructions: Annotated[schemas.Items[str], Field(default_factory=list, description=_described("instructions"))]
    keep: Annotated[schemas.Items[str], Field(default_factory=list, description=_described("keep"))]
    comments: Annotated[bool, Field(description="Translate reviewers' comments.")] = False
    columns: Annotated[
        schemas.Items[str], Field(default_factory=list, description="csv, tsv: names or numbers of columns.")
    ]
    dialect: Annotated[str | None, Field(description=f"Of Markdown: {', '.join(DIALECTS)}; absent: guessed.")] = None
    output_format: Annotated[str | None, Field(description="Extension of the result; absent: the file's.")] = None
    wait_s: _Wait = WAIT_S


class GetDocumentArguments(schemas.RequestBody):
    """The arguments of `get_document`."""

    document_id: Annotated[str, Field(description="The `id` that `translate_document` has answered with.")]
    wait_s: _Wait = 0.0


class ResultOut(BaseModel):
    """The translated file."""

    name: str
    media_type: str
    size_bytes: int
    is_inline: Annotated[bool, Field(description="The file is in this answer, as a resource.")]
    url: Annotated[str, Field(description="Where it can be downloaded, with the key that this server is used with.")]


class DocumentAnswer(BaseModel):
    """A document, and its result once its state is `done`."""

    document: documents.DocumentOut
    result: Annotated[ResultOut | None, Field(description="null: not done yet; ask `get_document` with the id.")]
    doubtful: Annotated[
        list[documents.SegmentOut],
        Field(description=f"The first {MAX_DOUBTFUL} segments whose translation may be wrong, with their warnings."),
    ]


async def _translate_document(call: ToolCall, given: Mapping[str, Any]) -> ToolAnswer:
    arguments, store = _parsed(DocumentArguments, given), call.service.documents
    content = await asyncio.to_thread(_content, arguments)
    glossary = arguments.glossary or ""
    options = Options(
        context=arguments.context or None,
        keep=tuple(filter(None, arguments.keep)),
        glossary={} if isinstance(glossary, str) else glossary,
        formality=arguments.formality,
        instructions=tuple(filter(None, arguments.instructions)),
    )
    of_document = documents.checked(
        DocumentOptions(
            arguments.target,
            arguments.source,
            options,
            output=arguments.output_format or "",
            glossary=glossary if isinstance(glossary, str) else "",
            comments=arguments.comments,
            columns=tuple(filter(None, arguments.columns)),
            dialect=arguments.dialect or "",
        )
    )
    deadline_s = deadline_of(call.http)
    with store.upload() as path:
        with full_disk_reported():
            await UPLOADS.run(path.write_bytes, content)
        document = await store.create(path, arguments.file_name, of_document, call.account, "mcp")
    try:
        document = await _followed(call, document, min(arguments.wait_s, deadline_s or math.inf))
    except asyncio.CancelledError:
        await store.delete(document)
        raise
    return await _document_answer(call, document)


def _content(arguments: DocumentArguments) -> bytes:
    if (arguments.text is None) == (arguments.content_base64 is None):
        raise InvalidRequest("give the file's content in text or in content_base64, and not in both", param="text")
    if arguments.text is not None:
        return arguments.text.encode()
    try:
        return base64.b64decode("".join((arguments.content_base64 or "").split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("content_base64 is not base64", param="content_base64") from None


async def _get_document(call: ToolCall, given: Mapping[str, Any]) -> ToolAnswer:
    arguments = _parsed(GetDocumentArguments, given)
    document = await call.service.documents.get(arguments.document_id, call.account)
    return await _document_answer(call, await _followed(call, document, arguments.wait_s))


async def _followed(call: ToolCall, document: StoredDocument, wait_s: float) -> StoredDocument:
    """The document once it has ended, or after `wait_s`."""

    def report(seen: StoredDocument) -> None:
        if seen.characters:
            call.progress.total = seen.characters
            call.progress.done = seen.characters_done
            call.progress.message = f"{seen.segments_done} of {seen.segments} segments"

    return await call.service.documents.wait(document, wait_s, report)


async def _document_answer(call: ToolCall, document: StoredDocument) -> ToolAnswer:
    """Raises `InvalidRequest` for a document that ended with an error."""
    shown = documents.DocumentOut.of(document)
    shown = shown.model_copy(update={"left": shown.left[:MAX_DOUBTFUL]})
    if document.state in IN_FLIGHT:
        return ToolAnswer(_dumped(DocumentAnswer(document=shown, result=None, doubtful=[])))
    contents = call.service.documents.contents
    file = await contents.result(document)
    url = f"{base_url(call.http)}/v1/documents/{document.id}/result"
    with file.file:
        size, block = await RESULTS.run(_block, file, url)
    page = await contents.segments(document, 0, MAX_DOUBTFUL, doubtful=True)
    answer = DocumentAnswer(
        document=shown,
        result=ResultOut(
            name=file.name,
            media_type=file.media_type,
            size_bytes=size,
            is_inline=isinstance(block, EmbeddedResource),
            url=url,
        ),
        doubtful=[documents.SegmentOut.of(one) for one in page.segments],
    )
    return ToolAnswer(_dumped(answer), [block])


def _block(file: ResultFile, url: str) -> tuple[int, ContentBlock]:
    """The size of a file, and the file where it is small: as text where it is text. Else a link."""
    size = os.fstat(file.file.fileno()).st_size
    if size > MAX_INLINE_BYTES:
        return size, ResourceLink(name=file.name, uri=url, mime_type=file.media_type, size=size)
    content = file.file.read()
    try:
        resource = TextResourceContents(uri=url, mime_type=file.media_type, text=content.decode())
    except UnicodeDecodeError:
        blob = base64.b64encode(content).decode()
        resource = BlobResourceContents(uri=url, mime_type=file.media_type, blob=blob)
    return size, EmbeddedResource(resource=resource)


_FORMATS = ", ".join(one.name for one in formats.all_formats())
_TRANSLATE_DOCUMENT = Tool(
    "translate_document",
    "Translate a document",
    f"Translate a file; the result is the same file in the other language. Formats: {_FORMATS}. Files come in the call itself, "
    "text files best as `text`; nothing is fetched from URLs or paths. A small result is in the answer, a larger one is a "
    "link. `doubtful` names the segments to check.",
    _input_schema(DocumentArguments),
    _output_schema(DocumentAnswer),
    _translate_document,
    read_only=False,
)
_GET_DOCUMENT = Tool(
    "get_document",
    "Get a document",
    "How far a document of `translate_document` is, and its result once it is done.",
    _input_schema(GetDocumentArguments),
    _output_schema(DocumentAnswer),
    _get_document,
)
