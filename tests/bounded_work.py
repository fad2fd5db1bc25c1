"""Each route of the app, and what it is sent: bodies of every shape, and reads of a storage that is filled to its limits.

`ROWS` has every route (`tests/test_bounded_work.py` compares them). Each is sent every shape that it could take.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from tests.hostile import FORM, JSON, MULTIPART, ROUTES, Route, path_of, shapes_of

MB = 1_000_000


# ---- the routes


@dataclass(frozen=True)
class Limits:
    """What a request may cost: CPU time for each megabyte, CPU time for which the event loop is held, another key's read, and
    how many times the CPU time of a quarter of the body."""

    cpu_s_a_mb: float = 1.0
    hold_s: float = 0.2
    read_s: float = 0.5
    growth: float = 6.0


USUAL = Limits()
STORING = Limits(cpu_s_a_mb=2.0)
"""Twenty thousand entries to a megabyte, each a row of the database with two indexes."""
SEARCHING = Limits(cpu_s_a_mb=2.0)
"""A search that finds nothing goes on for a second by the clock."""


@dataclass(frozen=True)
class Row:
    """A route, a URL of it, and what it is sent. `url` may name what `Stored` has: `{document}`."""

    method: str
    route: str  # as the app declares it
    url: str
    body: Route | None = None
    kinds: tuple[str, ...] = ()  # of bodies besides those of `body`
    limits: Limits = USUAL


def _read(route: str, *urls: str, method: str = "GET") -> list[Row]:
    def limits(url: str) -> Limits:
        return SEARCHING if "find=" in url or "filter_text=" in url else USUAL

    return [Row(method, route, url, limits=limits(url)) for url in urls or (route,)]


_FIND = "find=" + "a" * 999 + "b"
_MEMORY, _DEEPL_MEMORY = "/v1/memories/{memory}", "/v3/translation_memories/{translation_memory_id}"
_DOCUMENT = "/v1/documents/{id}"
_GLOSSARY = "/v1/glossaries/{glossary}"
_PAIR = "source=en&target=ja"
_LONG_QUERY = "?" + "q=a&" * 15_000

READS = (
    *_read("/v1/languages"),
    *_read("/v1/models"),
    *_read("/v1/models/{id:path}", "/v1/models/" + "x" * 60_000),
    *_read("/languages", "/languages", "/languages" + _LONG_QUERY),
    *_read("/frontend/settings"),
    *_read("/spec"),
    *_read("/health"),
    *_read("/openapi.json"),
    *_read("/download_file/{name}", "/download_file/" + "x" * 60_000),
    *_read("/languages", "/languages?api-version=3.0&scope=" + "a," * 30_000),
    *_read("/translate", "/translate?to=ja&" + "text=a&" * 9_000, "/translate?from=en&to=ja&text=" + "%20" * 20_000),
    *_read("/api/tags"),
    *_read("/api/ps"),
    *_read("/api/version"),
    *_read("/language/translate/v2", "/language/translate/v2?target=ja&" + "q=a&" * 15_000),
    *_read("/language/translate/v2/detect", "/language/translate/v2/detect" + _LONG_QUERY),
    *_read("/language/translate/v2/languages", "/language/translate/v2/languages" + _LONG_QUERY),
    *_read("/v2/languages", "/v2/languages?type=target"),
    *_read("/v2/glossary-language-pairs"),
    *_read("/v3/languages/resources"),
    *_read("/v3/languages", "/v3/languages?resource=glossary"),
    *_read("/v2/glossaries"),
    *_read("/v2/glossaries/{glossary_id}", "/v2/glossaries/{glossary}"),
    *_read("/v2/glossaries/{glossary_id}/entries", "/v2/glossaries/{glossary}/entries"),
    *_read("/v3/glossaries"),
    *_read("/v3/glossaries/{glossary_id}", "/v3/glossaries/{glossary}"),
    *_read("/v3/glossaries/{glossary_id}/entries", "/v3/glossaries/{glossary}/entries?source_lang=en&target_lang=ja"),
    *_read("/v3/translation_memories"),
    *_read("/v3/translation_memories/jobs/{job_id}", "/v3/translation_memories/jobs/" + "x" * 60_000),
    *_read("/v3/translation_memories/download", "/v3/translation_memories/download?token=" + "x" * 60_000),
    *_read(_DEEPL_MEMORY, "/v3/translation_memories/{memory}"),
    *_read(
        f"{_DEEPL_MEMORY}/segments",
        "/v3/translation_memories/{memory}/segments",
        "/v3/translation_memories/{memory}/segments?filter_text=" + "a" * 500 + "b",
        "/v3/translation_memories/{long}/segments?filter_text=" + "a" * 500 + "b",
    ),
    *_read("/v2/usage"),
    *_read("/v3/style_rules"),
    *_read("/v1/glossaries"),
    *_read(_GLOSSARY),
    *_read(f"{_GLOSSARY}/entries", f"{_GLOSSARY}/entries?{_PAIR}"),
    *_read("/v1/memories"),
    *_read(_MEMORY),
    *_read(f"{_MEMORY}/export"),
    *_read(
        f"{_MEMORY}/entries",
        f"{_MEMORY}/entries?limit=1000",
        f"{_MEMORY}/entries?{_FIND}",
        f"{_MEMORY}/entries?find=number+198999&{_PAIR}",
        f"/v1/memories/{{long}}/entries?{_FIND}",
        "/v1/memories/{long}/entries?limit=1000",
    ),
    *_read("/v1/documents", "/v1/documents", "/v1/documents?limit=1000"),
    *_read(_DOCUMENT, "/v1/documents/{document}"),
    *_read(f"{_DOCUMENT}/result", "/v1/documents/{document}/result", "/v1/documents/{document}/result?format=tmx"),
    *_read(
        f"{_DOCUMENT}/segments",
        "/v1/documents/{document}/segments?limit=1000",
        "/v1/documents/{document}/segments?" + "&".join(f"n={n}" for n in range(200)),
    ),
    *_read(
        f"{_DOCUMENT}/segments/numbers",
        "/v1/documents/{document}/segments/numbers?kind=unreviewed",
        f"/v1/documents/{{document}}/segments/numbers?{_FIND}",
    ),
    *_read("/v1/stats"),
    *_read("/metrics"),
    *_read("/v1/replicas"),
    *_read("/healthz"),
    *_read("/readyz"),
    *_read("/"),
    *_read("/engine"),
    *_read("/docs"),
    *_read("/web", "/web/dragoman.js"),
    *(
        row
        for path in (
            "/openapi.json",
            "/download_file/{name}",
            "/healthz",
            "/readyz",
            "/api/tags",
            "/api/version",
            "/",
            "/engine",
            "/docs",
        )
        for row in _read(path, path.replace("{name}", "x"), method="HEAD")
    ),
)
"""Routes without a body."""

_OTHER_BODIES = (
    Row("POST", "/languages", "/languages", kinds=("json",)),
    Row("POST", "/v2/document", "/v2/document", kinds=("files",)),
    Row("POST", "/v2/document/{document_id}", "/v2/document/{document}", kinds=("json",)),
    Row("POST", "/v2/document/{document_id}/result", "/v2/document/{document}/result", kinds=("json",)),
    Row("POST", "/v1/memories/import", "/v1/memories/import?name=imported", kinds=("tmx",), limits=STORING),
    Row("POST", f"{_DOCUMENT}/xliff", "/v1/documents/{document}/xliff", kinds=("tmx",)),
    Row("PUT", "/v3/translation_memories/upload", "/v3/translation_memories/upload?token=x", kinds=("tmx",)),
    Row("POST", f"{_DEEPL_MEMORY}/export", "/v3/translation_memories/{memory}/export", kinds=("json",)),
    Row("POST", "/mcp", "/mcp", kinds=("mcp",)),
    Row("POST", "/translate", "/translate?api-version=3.0" + "&to=ja" * 9_000, kinds=("elements",)),
    Row("POST", "/translate", "/translate?api-version=2026-06-06", kinds=("inputs",)),
    Row("POST", "/detect", "/detect?api-version=3.0", kinds=("elements",)),
    Row("POST", "/v1/reload", "/v1/reload", kinds=("json",)),
    Row("DELETE", "/v3/glossaries/{glossary_id}", "/v3/glossaries/x", kinds=("json",)),
    Row("DELETE", "/v2/glossaries/{glossary_id}", "/v2/glossaries/x", kinds=("json",)),
    Row(
        "DELETE",
        "/v3/glossaries/{glossary_id}/dictionaries",
        "/v3/glossaries/x/dictionaries?source_lang=en&target_lang=ja",
        kinds=("json",),
    ),
    Row("DELETE", _DEEPL_MEMORY, "/v3/translation_memories/x", kinds=("json",)),
    Row("DELETE", _GLOSSARY, "/v1/glossaries/none", kinds=("json",)),
    Row("DELETE", f"{_GLOSSARY}/entries", f"/v1/glossaries/none/entries?{_PAIR}", kinds=("json",)),
    Row("DELETE", _MEMORY, "/v1/memories/none", kinds=("json",)),
    Row("DELETE", f"{_MEMORY}/entries/{{entry}}", "/v1/memories/{memory}/entries/" + "x" * 60_000, kinds=("json",)),
    Row("DELETE", _DOCUMENT, "/v1/documents/none", kinds=("json",)),
)
_KINDS = {
    "/v1/translate": ("texts",),
    "/v1/chat/completions": ("chat",),
    "/v1/responses": ("responses",),
    "/api/chat": ("ollama",),
    "/v1/glossaries/{glossary}/entries": ("tables",),
    "/v1/documents": ("files",),
    "/translate_file": ("files",),
    "/v1/memories/{memory}/entries": ("entries",),
}


def _limits(route: str) -> Limits:
    return STORING if "glossaries" in route or route.endswith("/entries") else USUAL


BODIES = (
    *(
        Row(one.method, path_of(one), one.path, one, _KINDS.get(path_of(one), ()), _limits(path_of(one)))
        for one in ROUTES
    ),
    *_OTHER_BODIES,
)
"""Routes that are sent bodies. Those that read none are sent some nevertheless."""
ROWS = (*READS, *BODIES)


# ---- the shapes


@dataclass(frozen=True)
class Shape:
    """A body by its size in bytes. `limit`: the most bytes that make sense of it, such as those of a form."""

    name: str
    body: Callable[[int], bytes]
    content_type: str = JSON


def _json(**values: object) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode()


def _repeated(text: str, size: int) -> str:
    return text * (size // len(json.dumps(text)[1:-1]))


def _list(item: object, size: int) -> list[object]:
    return [item] * (size // (len(json.dumps(item)) + 2))


def _object(value: object, size: int) -> dict[str, object]:
    return {f"name{number:07d}": value for number in range(size // (len(json.dumps(value)) + 17))}


TEXTS: Mapping[str, str] = {
    "one letter": "x",
    "line breaks": "\n",
    "end tags": "</",
    "open tags": "<b>",
    "YAML aliases": "a: &a [*a, *a]\n",
    "numbered lines": "1. a\n",
    "brackets": "[{(",
    "percent signs": "%%\n",
    "Japanese": "日本語。",
    "quotes": '"\\',
    "digits": "9",
    "JSON": '[{"a":1},',
}
"""What one huge string repeats."""


_READING_TEXTS = ("/v1/translate", "/v1/chat/completions", "/v1/completions", "/v2/translate", "/translate")
"""Routes that do more with a text than to pass it on, or that stand for all that do not."""


def _texts(route: Route) -> Iterator[Shape]:
    """Strings of at most a million characters, and long lists, in the field of the text, beside other fields."""

    def of(value: object) -> bytes:
        if route.text == "messages" and isinstance(value, str):
            value = [{"role": "user", "content": value}]
        elif isinstance(value, str) and len(value) > MB:
            value = [value[at : at + MB] for at in range(0, len(value), MB)]
        return json.dumps({**route.rest, route.text: value}, ensure_ascii=False).encode()

    for name, text in TEXTS.items() if path_of(route) in _READING_TEXTS else [("line breaks", "\n"), ("quotes", '"\\')]:
        yield Shape(f"one string: {name}", lambda size, text=text: of(_repeated(text, size)))
    yield Shape("many strings", lambda size: of(_list("a", size)))
    yield Shape("strings at the limit", lambda size: of(["x" * min(size, MB)] * max(size // MB, 1)))
    for number in (990, 9_990):
        yield Shape(f"{number:,} strings", lambda size, number=number: of(["x" * (size // number - 4)] * number))
    yield Shape("repeated keys", lambda size: b'{"%b":"a"}' % (f'{route.text}":"a","'.encode() * (size // 12))[:-7])
    yield Shape("deep lists", lambda size: of(_list(json.loads("[" * 200 + "]" * 200), size)))
    yield Shape("huge numbers", lambda size: of(_list(10**99, size)))
    yield Shape("one object", lambda size: of(_object("a", size)))
    yield Shape("terms", lambda size: _json(**{**route.rest, route.text: "a"}, glossary=_object("a", size)))


def _format_shapes() -> Iterator[Shape]:
    for format, text in (
        ("html", "<b>"),
        ("html", "<p>a"),
        ("markdown", "[a]("),
        ("markdown", "* a\n"),
        ("xml", "<a>"),
    ):
        values = {"target": "ja", "source": "en", "format": format}
        yield Shape(
            f"{format}: {text!r}", lambda size, text=text, values=values: _json(text=_repeated(text, size), **values)
        )


def _schema_shapes(of: Callable[[object, object], bytes]) -> Iterator[Shape]:
    """Schemas. `of`: a body of a schema and the message's value."""
    string, null = {"type": "string"}, {"type": "null"}

    def each(items: object) -> dict[str, object]:
        return {"type": "array", "items": items}

    def half(schema: Callable[[int], object], item: object) -> Callable[[int], bytes]:
        return lambda size: of(schema(size // 2), _list(item, size // 4))

    yield Shape("schema: enum", half(lambda size: each({"enum": _list("x" * 9, size)}), "x" * 9))
    yield Shape("schema: anyOf", half(lambda size: each({"anyOf": [*_list(null, size), string]}), "a"))
    yield Shape("schema: $ref", half(lambda size: each({"$ref": "#" + "/" * size + "a"}), "a"))
    yield Shape("schema: types", half(lambda size: each({"type": [*_list("null", size), "string"]}), "a"))
    yield Shape(
        "schema: properties", half(lambda size: each({"properties": _object(string, size), "required": []}), {})
    )
    yield Shape(
        "schema: constant",
        half(lambda size: each({"properties": {"a": {"const": "x" * size}, "b": string}}), {"b": "a"}),
    )
    yield Shape("schema: itself", half(lambda size: {"properties": _object({"$ref": "#"}, size)}, {"a": {}}))
    yield Shape(
        "schema: definitions",
        half(
            lambda size: {
                "$ref": "#/$defs/0",
                "$defs": {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(size // 40)},
            },
            "a",
        ),
    )
    yield Shape("schema: deep", lambda size: of(json.loads('{"anyOf":[' * 200 + "{}" + "]}" * 200), _list("a", size)))
    yield Shape("schema: none", lambda size: of(None, {"a": _list(1, size - 1_000), "b": "a"}))


def _chat_shapes() -> Iterator[Shape]:
    def chat(content: object, **values: object) -> bytes:
        text = content if isinstance(content, str) else json.dumps(content)
        return _json(model="dragoman/ja", messages=[{"role": "user", "content": text}], **values)

    def by_schema(schema: object, content: object) -> bytes:
        form = {"type": "json_object"} if schema is None else {"type": "json_schema", "json_schema": {"schema": schema}}
        return chat(content, response_format=form)

    yield from _schema_shapes(by_schema)
    yield from _tool_shapes(
        lambda name, parameters: {"type": "function", "function": {"name": name, "parameters": parameters}}, chat
    )
    yield Shape("functions", lambda size: chat("a", functions=_list({"name": "f"}, size)))
    for role, text in (("user", "Translate to Japanese: a"), ("assistant", "a"), ("system", "You translate. ")):
        pair = [{"role": role, "content": text}, {"role": "assistant", "content": "a"}]
        yield Shape(
            f"messages: {role}",
            lambda size, pair=pair: _json(
                model="dragoman/ja",
                messages=[*(pair * (size // len(json.dumps(pair)))), {"role": "user", "content": "a"}],
            ),
        )
    part = {"type": "text", "text": "a"}
    yield Shape(
        "parts", lambda size: _json(model="dragoman/ja", messages=[{"role": "user", "content": _list(part, size)}])
    )
    for name, text in (
        ("system", "Translate "),
        ("system of lines", "a\n"),
        ("instruction", "Translate to Japanese:\n"),
    ):
        yield Shape(
            f"message: {name}",
            lambda size, text=text: _json(
                model="dragoman/ja",
                messages=[{"role": "system", "content": _repeated(text, size)}, {"role": "user", "content": "a"}],
            ),
        )
    batch = [{"id": 1, "text": "a"}]
    yield Shape("batch", lambda size: chat({"targetLanguage": "ja", "segments": batch * (size // 30)}))
    yield Shape(
        "batch: glossary",
        lambda size: chat({"targetLanguage": "ja", "segments": batch, "glossary": _object("a", size // 2)}),
    )


def _tool_shapes(tool: Callable[[str, object], object], call: Callable[..., bytes]) -> Iterator[Shape]:
    yield Shape(
        "tools", lambda size: call("a", tools=[tool(f"f{n}", {}) for n in range(size // 80)], tool_choice="required")
    )
    yield Shape("tools: long names", lambda size: call("a", tools=[tool("x" * size, {})], tool_choice="required"))
    yield Shape(
        "tool_choice", lambda size: call("a", tools=[tool("f", {})], tool_choice={"function": _object("a", size)})
    )
    yield Shape(
        "tools: enum",
        lambda size: call(
            json.dumps(_list(1, size // 4)),
            tools=[tool("f", {"type": "array", "items": {"enum": list(range(size // 20))}})],
            tool_choice="required",
        ),
    )


def _response_shapes() -> Iterator[Shape]:
    def respond(content: object, **values: object) -> bytes:
        return _json(model="dragoman/ja", input=content if isinstance(content, str) else json.dumps(content), **values)

    def by_schema(schema: object, content: object) -> bytes:
        form = {"type": "json_object"} if schema is None else {"type": "json_schema", "schema": schema}
        return respond(content, text={"format": form})

    yield from _schema_shapes(by_schema)
    yield from _tool_shapes(
        lambda name, parameters: {"type": "function", "name": name, "parameters": parameters}, respond
    )
    item = {"type": "message", "role": "user", "content": "a"}
    yield Shape("items", lambda size: _json(model="dragoman/ja", input=_list(item, size)))


def _ollama_shapes() -> Iterator[Shape]:
    def chat(content: object, **values: object) -> bytes:
        text = content if isinstance(content, str) else json.dumps(content)
        return _json(model="dragoman/ja", messages=[{"role": "user", "content": text}], **values)

    yield from _schema_shapes(lambda schema, content: chat(content, format="json" if schema is None else schema))
    yield Shape("format", lambda size: chat("a", format="x" * size))
    yield Shape("options", lambda size: chat("a", options=_object(1, size)))
    yield Shape("tools", lambda size: chat("a", tools=_list({"type": "function"}, size)))
    image = {"role": "user", "content": "a"}
    yield Shape("images", lambda size: _json(model="dragoman/ja", messages=[image | {"images": _list("a", size)}]))
    yield Shape("one image", lambda size: _json(model="dragoman/ja", messages=[image | {"images": ["a" * size]}]))
    yield Shape("model", lambda size: _json(model="dragoman:" + "x" * size, messages=[image]))
    yield Shape("messages", lambda size: _json(model="dragoman/ja", messages=_list(image, size)))


def _element_shapes() -> Iterator[Shape]:
    """Version 3.0 of Microsoft's API."""
    for name, element in (("texts", {"Text": "a"}), ("no texts", {}), ("numbers", {"Text": 1})):
        yield Shape(f"elements: {name}", lambda size, element=element: json.dumps(_list(element, size)).encode())
    yield Shape("elements: numbers alone", lambda size: json.dumps(_list(1, size)).encode())
    yield Shape("elements: one text", lambda size: json.dumps([{"Text": "a" * size}]).encode())
    yield Shape("elements: one element", lambda size: json.dumps([_object(1, size)]).encode())
    yield Shape("elements: a long name", lambda size: json.dumps([{"X" * size: 1}]).encode())


def _input_shapes() -> Iterator[Shape]:
    """Its successor."""
    target = {"language": "ja"}

    def sent(item: object, size: int) -> bytes:
        return _json(inputs=_list(item, size))

    yield Shape("inputs", lambda size: sent({"text": "a", "targets": [target]}, size))
    yield Shape("inputs: no targets", lambda size: sent({"text": "a"}, size))
    yield Shape("inputs: targets", lambda size: _json(inputs=[{"text": "a", "targets": _list(target, size)}]))
    yield Shape("inputs: of many targets", lambda size: sent({"text": "a", "targets": [target] * 100}, size))
    pairs = [{"source": "a", "target": "b"}] * 5
    yield Shape(
        "inputs: pairs",
        lambda size: sent({"text": "a" * 100, "targets": [target | {"referenceTextPairs": pairs}]}, size),
    )
    languages = [{"language": f"{first}{second}"} for first in "abcdefghij" for second in "abcdefghijklmnopqrstuvwxyz"]
    yield Shape("inputs: languages", lambda size: sent({"text": "a", "targets": languages}, size))


def _mcp_shapes() -> Iterator[Shape]:
    def called(tool: str, **arguments: object) -> bytes:
        return _json(jsonrpc="2.0", id=1, method="tools/call", params={"name": tool, "arguments": arguments})

    for tool in ("translate", "detect_language", "list_languages", "list_glossaries"):
        yield Shape(f"{tool}: unknown arguments", lambda size, tool=tool: called(tool, **_object(1, size)))
    yield Shape("translate: texts", lambda size: called("translate", text=_list("a", size), target="ja", source="en"))
    yield Shape("translate: one text", lambda size: called("translate", text="a" * size, target="ja", source="en"))
    yield Shape(
        "translate: terms", lambda size: called("translate", text="a", target="ja", glossary=_object("a", size))
    )
    yield Shape("detect_language: texts", lambda size: called("detect_language", text=_list("a", size)))
    yield Shape("detect_language: objects", lambda size: called("detect_language", text=_list({}, size)))
    yield Shape(
        "translate_document",
        lambda size: called(
            "translate_document",
            file_name="a.txt",
            target="ja",
            wait_s=0,
            content_base64=base64.b64encode(b"a\n" * (size * 3 // 8)).decode(),
        ),
    )
    yield Shape("params", lambda size: _json(jsonrpc="2.0", id=1, method="tools/call", params=_object(1, size)))
    yield Shape(
        "nested params",
        lambda size: _json(
            jsonrpc="2.0", id=1, method="tools/call", params={"name": "translate", "_meta": _object({}, size)}
        ),
    )
    yield Shape(
        "initialize",
        lambda size: _json(
            jsonrpc="2.0", id=1, method="initialize", params={"protocolVersion": "x" * size, "capabilities": {}}
        ),
    )
    yield Shape(
        "messages", lambda size: json.dumps(_list({"jsonrpc": "2.0", "method": "ping", "id": 1}, size)).encode()
    )


def _table_shapes() -> Iterator[Shape]:
    for kind, between in (("text/tab-separated-values", "\t"), ("text/csv", ",")):
        yield Shape(
            f"{kind}: entries",
            lambda size, between=between: "".join(f"{number:07d}{between}a\n" for number in range(size // 10)).encode(),
            kind,
        )
        yield Shape(f"{kind}: line breaks", lambda size: b"\n" * size, kind)
        yield Shape(f"{kind}: fields", lambda size, between=between: between.encode() * size, kind)
        yield Shape(f"{kind}: quotes", lambda size: b'"' * size, kind)


def _tmx_shapes() -> Iterator[Shape]:
    def tmx(units: str) -> bytes:
        return f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'.encode()

    def unit(text: str) -> str:
        return f'<tu><tuv xml:lang="en"><seg>{text}</seg></tuv><tuv xml:lang="ja"><seg>あ</seg></tuv></tu>'

    kind = "application/x-tmx+xml"
    yield Shape("tmx: units", lambda size: tmx("".join(unit(f"number {n}") for n in range(size // 100)))[:size], kind)
    yield Shape("tmx: variants", lambda size: tmx(f"<tu>{'<tuv/>' * (size // 6)}</tu>"), kind)
    yield Shape("tmx: deep", lambda size: tmx("<a>" * (size // 3)), kind)
    yield Shape(
        "tmx: attributes", lambda size: tmx("<tu " + " ".join(f'a{n:07d}=""' for n in range(size // 12)) + "/>"), kind
    )
    yield Shape("tmx: one text", lambda size: tmx(unit("x" * size)), kind)
    yield Shape("tmx: codes", lambda size: tmx(unit("<ph/>" * (size // 5))), kind)


def _file_shapes() -> Iterator[Shape]:
    files = {
        "a.txt": lambda size: b"a b c.\n" * (size // 7),
        "a.tsv": lambda size: b"a\tb\n" * (size // 4),
        "a.md": lambda size: b"* a\n" * (size // 4),
        "a.html": lambda size: b"<b>" * (size // 3),
        "a.srt": lambda size: b"1\n00:00:01,000 --> 00:00:02,000\na\n\n" * (size // 36),
        "a.json": lambda size: json.dumps(_object("a", size)).encode(),
        "b.json": lambda size: b"[" * size,
    }
    head = (
        b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\nja\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\n'
    )
    for name, content in files.items():
        yield Shape(
            f"file: {name}",
            lambda size, name=name, content=content: (
                head % (b"target", name.encode()) + content(size) + b"\r\n--b--\r\n"
            ),
            MULTIPART,
        )
    yield Shape(
        "file: many fields",
        lambda size: b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * (size // 55) + b"--b--\r\n",
        MULTIPART,
    )
    yield Shape("file: no end", lambda size: head % (b"target", b"a.txt") + b"\r\n--" * (size // 4), MULTIPART)


def _entry_shapes() -> Iterator[Shape]:
    yield Shape(
        "entries",
        lambda size: _json(
            source="en", target="ja", entries=[{"text": f"number {n}", "translation": "あ"} for n in range(size // 50)]
        ),
    )
    yield Shape(
        "entries: one long",
        lambda size: _json(source="en", target="ja", entries=[{"text": "x" * size, "translation": "あ"}]),
    )
    yield Shape(
        "entries: marks",
        lambda size: _json(
            source="en",
            target="ja",
            entries=[{"text": "<x1/>" * 3_900, "translation": "<x1/>" * 3_900}] * (size // 39_100 + 1),
        ),
    )


def _plain_shapes() -> Iterator[Shape]:
    yield Shape("one object", lambda size: json.dumps(_object(1, size)).encode())
    yield Shape("fields", lambda size: b"a=a&" * (size // 4), FORM)


_OF_KIND: Mapping[str, Callable[[], Iterator[Shape]]] = {
    "texts": _format_shapes,
    "chat": _chat_shapes,
    "responses": _response_shapes,
    "ollama": _ollama_shapes,
    "elements": _element_shapes,
    "inputs": _input_shapes,
    "mcp": _mcp_shapes,
    "tables": _table_shapes,
    "tmx": _tmx_shapes,
    "files": _file_shapes,
    "entries": _entry_shapes,
    "json": _plain_shapes,
}


def shapes(row: Row) -> Iterator[Shape]:
    """All that a route is sent."""
    for kind in row.kinds:
        yield from _OF_KIND[kind]()
    if (route := row.body) is not None:
        yield from _texts(route)
        for name, content_type, shape in shapes_of(route):
            yield Shape(name, partial(shape, route), content_type)
