"""The table: each parser of untrusted bytes, with files to change, and the errors by which it may refuse one."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, get_args

import httpx

from dragoman.api.app import create_app
from dragoman.api.forms import parse_form
from dragoman.api.glossaries import parse_csv, parse_tsv
from dragoman.errors import DragomanError
from dragoman.types import TextFormat
from tests.hostile_files.mutations import changed_again, changed_text, seeds
from tests.serving import fake_service
from wholetext.errors import WholetextError
from wholetext.files import formats, returned, tmx
from wholetext.files.content import ReadOptions
from wholetext.markup import document, marks
from wholetext.markup.marks import Verbatim
from wholetext.markup.spans import pseudolocalized


@dataclass(frozen=True, slots=True)
class Target:
    """A parser. `mutate`: other bytes of given ones, which may be a mutant. `parse` raises only what is in `refusals`, whatever
    the bytes are."""

    seeds: Sequence[bytes]
    mutate: Callable[[Random, bytes], bytes]
    parse: Callable[[bytes], object]
    refusals: tuple[type[BaseException], ...] = ()

    def change(self, random: Random) -> bytes:
        """A mutant of a seed."""
        return self.mutate(random, random.choice(self.seeds))


# ---- files

_OF_FILES = (WholetextError, RecursionError, MemoryError)
"""A worker answers the last two with `invalid_file` (`wholetext.files.worker.answer`)."""


def _read_and_write(extension: str, data: bytes) -> None:
    name = formats.format_of(extension).name
    options = ReadOptions(name, "ja", "en", "docx" if name == "pdf" else name)
    content = formats.read(data, options)
    if len(content.units) <= 5_000:
        formats.write(data, options, [pseudolocalized(unit.block.text) for unit in content.units])


def _read_tmx(data: bytes) -> None:
    for _ in tmx.read(data, Counter()):
        pass


_TMX = b"""<?xml version="1.0"?><tmx version="1.4"><header srclang="en" segtype="sentence"/><body>
<tu tuid="1"><prop type="x">a</prop><tuv xml:lang="en">
<seg>The <bpt i="1">&lt;b&gt;</bpt>old<ept i="1"/> town <ph x="2"/></seg></tuv>
<tuv xml:lang="ja-JP"><seg><bpt i="1"/>old<ept i="1"/> <ph x="2"/></seg></tuv></tu></body></tmx>"""

_RETURNED = b"""<?xml version="1.0"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>
<trans-unit id="0" approved="yes"><source>The <g id="1">old</g> town<x id="2"/></source>
<target state="translated"><g id="1">Alte</g> <mrk mtype="seg">Stadt</mrk><x id="2"/></target></trans-unit>
<trans-unit id="1"><source>Done</source><target state="new"/></trans-unit></body></file></xliff>"""

# ---- markup

_MARKUP: Mapping[str, bytes] = {
    "text": b"The old town.\n\n- see https://example.org/a_(b) {name} %s $1\n- one two\n",
    "html": b"<div><p>The <b>old <a href='x'>town</a></b> &amp; more<br>next<pre>kept</pre><script>if (a<b) c()</script></div>",
    "xml": b"<a><b c='d'>The <i>old</i> town</b><![CDATA[x <y>]]><?z?><!-- n --></a>",
    "markdown": b'# The *old* town\n\n> [a](b "c")\n\n| a | b |\n|---|---|\n| `c` | d |\n\n1. x\n   - y\n\n```\nz\n```\n',
    "marks": b"The <g1>old <x2/> town</g1> and <g3>more</g3>.",
}


def _pieces(format: TextFormat, data: bytes) -> None:
    """What is cut is joined again byte for byte."""
    text = data.decode("utf-8", "replace")
    joined = list[str]()
    for piece in document.pieces(text, format):
        if piece is not None:
            joined.append(
                piece.text if isinstance(piece, Verbatim) else marks.restore(piece.text, piece.marks, piece.writer)
            )
    if "".join(joined) != text:
        raise AssertionError("the pieces joined are another text")


def _marks(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    marks.canonical(text)
    marks.lost(text, marks.normalised(text))
    marks.aligned(text, marks.without_invented(text, text[::-1]))


# ---- lists of terms, and forms

_ROWS = b'old town,"alte ""Stadt"""\nriver,Fluss\n'
_FORM = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nThe town.\r\n'
    b'--b\r\nContent-Disposition: form-data; name="target"\r\n\r\nja\r\n--b--\r\n'
)

# ---- JSON of the APIs, through the whole app

_EN_JA = {"source": "en", "target": "ja"}
_TERMS: Mapping[str, Any] = {
    "glossary": {"old": "alt"},
    "examples": [{"source": "a", "translation": "b"}],
    "context": "c",
}
BODIES: Mapping[str, Any] = {
    "/v1/translate": {"text": ["The old town.", "<b>b</b>"], **_EN_JA, "format": "html", **_TERMS, "deadline_s": 9.5},
    "/v2/translate": {"text": ["The old town."], "target_lang": "JA", "source_lang": "EN", "tag_handling": "xml"},
    "/v1/chat/completions": {"model": "dragoman/ja", "messages": [{"role": "user", "content": "The old town."}]},
    "/v1/completions": {"model": "dragoman/ja", "prompt": "The old town.", "max_tokens": 9},
    "/v1/responses": {"model": "dragoman/ja", "input": [{"role": "user", "content": "The old town."}]},
    "/api/chat": {
        "model": "m",
        "messages": [{"role": "user", "content": "Translate into Japanese: town"}],
        "stream": False,
    },
    "/api/generate": {"model": "m", "prompt": "Translate into Japanese: town", "stream": False, "options": {"seed": 1}},
    "/translate": {"q": ["The old town."], **_EN_JA, "format": "text", "alternatives": 1},
    "/translate?api-version=3.0&to=ja&from=en": [{"Text": "The old town."}],
    "/detect": {"q": "The old town."},
    "/language/translate/v2": {"q": ["The old town."], **_EN_JA, "format": "html"},
    "/deeplx": {"text": "The old town.", "source_lang": "EN", "target_lang": "JA"},
    "/imme": {"source_lang": "en", "target_lang": "ja", "text_list": ["The old town."]},
    "/kiss": {"text": "The old town.", "from": "en", "to": "ja"},
}
_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        1e308,
        2**70,
        "",
        "a" * 3_000,
        [],
        {},
        [[]],
        {"a": None},
        "\ud800",
        "\x00",
        "en",
        "ja-Jpan",
        "xx",
    ),
    *(["a", 1], [None] * 50, {"role": "user"}, "<g1>", "{{a}}", 0.5, "-", "1e999"),
)


def _changed_json(random: Random, value: Any) -> Any:
    """A value with one of its parts removed, doubled, renamed or replaced."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        name = random.choice(list(value))
        match random.randrange(5):
            case 0:
                return {key: one for key, one in value.items() if key != name}
            case 1:
                return {**value, random.choice(("a", "", name.upper(), "stream", "x" * 300)): random.choice(_VALUES)}
            case _:
                return {**value, name: _changed_json(random, value[name])}
    if isinstance(value, list) and value and random.random() < 0.7:
        place = random.randrange(len(value))
        return [*value[:place], _changed_json(random, value[place]), *value[place:]]
    return random.choice(_VALUES)


def _changed_body(random: Random, data: bytes) -> bytes:
    if random.random() < 0.25:
        return changed_text(random, data)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return changed_text(random, data)
    for _ in range(random.choice((1, 1, 2, 3))):
        value = _changed_json(random, value)
    return json.dumps(value).encode()


class Apis:
    """The app over the fake pipeline, in an event loop that runs while a request does. It starts with the first one: files need
    none, and a process that has threads cannot be forked."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._service = fake_service()
        self._client: httpx.AsyncClient | None = None

    async def _start(self) -> httpx.AsyncClient:
        await self._service.start()
        transport = httpx.ASGITransport(create_app(self._service), raise_app_exceptions=True)
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None)

    def close(self) -> None:
        """Stop the app."""
        if self._client is not None:
            self._loop.run_until_complete(self._client.aclose())
            self._loop.run_until_complete(self._service.stop())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def post(self, path: str, body: bytes) -> None:
        """Raises `AssertionError` for an answer that says the server has failed. 504: a deadline that the body names."""
        if self._client is None:
            self._client = self._loop.run_until_complete(self._start())
        request = self._client.post(path, content=body, headers={"Content-Type": "application/json"})
        answer = self._loop.run_until_complete(request)
        if answer.status_code >= 500 and answer.status_code != 504:
            raise AssertionError(f"{answer.status_code} {answer.text[:200]}")


@contextmanager
def targets() -> Generator[dict[str, Target]]:
    """All of them, by name."""
    apis = Apis()
    try:
        yield _table(apis)
    finally:
        apis.close()


def _table(apis: Apis) -> dict[str, Target]:
    files = {
        f"file {one}": Target(of_kind[one], changed_again, partial(_read_and_write, one), _OF_FILES)
        for of_kind in seeds()
        for one in of_kind
    }
    markup = {
        f"markup {one}": Target([_MARKUP[one]], changed_text, partial(_pieces, one)) for one in get_args(TextFormat)
    }
    return {
        **files,
        "import tmx": Target([_TMX], changed_again, _read_tmx, _OF_FILES),
        "import returned": Target([_RETURNED], changed_again, lambda data: [*returned.read(data)], _OF_FILES),
        "terms csv": Target([_ROWS], changed_text, _of_text(parse_csv), (DragomanError,)),
        "terms tsv": Target([_ROWS.replace(b",", b"\t")], changed_text, _of_text(parse_tsv), (DragomanError,)),
        **markup,
        "marks": Target([_MARKUP["marks"]], changed_text, _marks),
        "form": Target(
            [_FORM],
            changed_text,
            lambda data: parse_form(data, "multipart/form-data; boundary=b", 100),
            (DragomanError,),
        ),
        "form urlencoded": Target(
            [b"text=The%20old+town&target=ja&%zz=%"],
            changed_text,
            lambda data: parse_form(data, "application/x-www-form-urlencoded", 100),
            (DragomanError,),
        ),
        **{
            f"api {path}": Target([json.dumps(body).encode()], _changed_body, partial(apis.post, path))
            for path, body in BODIES.items()
        },
    }


def _of_text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("utf-8", "replace"))
