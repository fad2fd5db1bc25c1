"""`/v1/documents` over HTTP: uploads, who may see what, results and their exports."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from dragoman.service.document_contents import DocumentContents
from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, ServerSettings, Settings
from dragoman.storage.documents import StoredDocument
from dragoman.types import Account
from tests.serving import keyed_service, served
from tests.waiting import HANG_S, until
from tests.wholetext.test_pptx import deck, slide
from wholetext.files.segmentfile import Edited, SegmentEdit

MAX_BYTES = 200_000
MAX_BODY_BYTES = 20_000
TEXT = b"# Can I *pay* now?\n\nThe old map.\n"
BOUNDARY = "b123"


class Client:
    """A client with a key, of the server that all tests share."""

    def __init__(self, http: httpx.AsyncClient, folder: Path, keys: dict[str, str], name: str = "a") -> None:
        self.http = http
        self.folder = folder
        self.keys = keys
        self.headers = {"X-API-Key": keys[name]}

    def as_(self, name: str) -> Client:
        return Client(self.http, self.folder, self.keys, name)

    async def call(self, method: str, path: str = "", **options: Any) -> httpx.Response:
        headers = {**self.headers, **options.pop("headers", {})}
        return await self.http.request(method, f"/v1/documents{path}", headers=headers, **options)

    async def upload(self, content: bytes = TEXT, name: str = "a.md", **fields: Any) -> httpx.Response:
        return await self.call("POST", data={"target": "ja", **fields}, files={"file": (name, content)})

    async def done(self, answer: httpx.Response) -> dict[str, Any]:
        assert answer.status_code == 201, answer.text
        document = answer.json()
        async with asyncio.timeout(HANG_S):
            while document["state"] not in ("done", "error"):
                await asyncio.sleep(0.02)
                document = (await self.call("GET", f"/{document['id']}")).json()
        return document

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith(".")]


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    folder = tmp_path_factory.mktemp("documents")
    settings = Settings(
        server=ServerSettings(max_body_bytes=MAX_BODY_BYTES),
        auth=AuthSettings(mode="keys"),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(folder / "files"), max_bytes=MAX_BYTES, max_jobs_per_key=100),
    )
    accounts = (Account("", "a"), Account("", "b"), Account("", "korean", languages=frozenset({"ko"})))
    service, _, keys = await keyed_service(folder, *accounts, settings=settings)
    async with served(service) as http:
        yield Client(http, folder / "files", keys)


@pytest.fixture
async def client(shared: Client) -> AsyncIterator[Client]:
    yield shared
    for name in shared.keys:
        for one in (await shared.as_(name).call("GET")).json()["documents"]:
            await shared.as_(name).call("DELETE", f"/{one['id']}")
    assert shared.files() == []


async def test_a_file_in_and_the_same_file_out_as_often_as_wanted(client: Client) -> None:
    document = await client.done(await client.upload())
    assert (document["state"], document["format"], document["detected"], document["source"]) == (
        "done",
        "md",
        True,
        "en",
    )
    assert document["characters_done"] == document["characters"] == len("Can I pay now?The old map.")
    first, second = [await client.call("GET", f"/{document['id']}/result") for _ in range(2)]
    assert first.content == second.content == b"# \\~Can I *pay* now?\n\n\\~The old map.\n"
    assert first.headers["content-type"] == "text/markdown"
    assert first.headers["x-content-type-options"] == "nosniff"
    assert (await client.call("GET", f"/{document['id']}/result?format=docx")).status_code == 422


async def test_what_is_no_longer_approved_is_no_longer_in_the_memory_of_edits(client: Client) -> None:
    document = await client.done(await client.upload(b"The old map.\n\nThe new map.\n\nThe red map.\n\nThat\n\nThat\n"))
    path = f"/{document['id']}/segments"
    [machine, second, *_] = (await client.call("GET", path)).json()["segments"]

    async def remembered() -> dict[str, str]:
        answer = await client.http.get("/v1/memories/edits/entries", headers=client.headers)
        return {one["text"]: one["translation"] for one in answer.json()["entries"]}

    edits = [{"n": n, "translation": f"地図{n}"} for n in range(3)]
    assert (await client.call("PATCH", path, json={"edits": edits})).status_code == 200
    assert await remembered() == {"The old map.": "地図0", "The new map.": "地図1", "The red map.": "地図2"}
    restored = {"translation": machine["translation"], "reviewed": False}
    assert (await client.call("PATCH", f"{path}/0", json=restored)).json()["segments"][0]["edited"] is False
    again = [{"n": 1, "translation": "新しい地図"}, {"n": 2, "reviewed": False, "was": "another"}]  # a conflict
    assert (await client.call("PATCH", path, json={"edits": again})).json()["conflicts"] == [2]
    assert await remembered() == {"The new map.": "新しい地図", "The red map.": "地図2"}
    stored = {"source": "en", "target": "ja", "entries": [{"text": "The new map.", "translation": "別の地図"}]}
    await client.http.post("/v1/memories/edits/entries", headers=client.headers, json=stored)
    withdrawn = [{"n": n, "reviewed": False} for n in (1, 2)]
    assert (await client.call("PATCH", path, json={"edits": withdrawn})).status_code == 200
    assert await remembered() == {"The new map.": "別の地図"}  # that is another's
    await client.call("PATCH", f"{path}/1", json={"translation": second["translation"], "reviewed": False})
    assert await remembered() == {"The new map.": "別の地図"}
    both = [{"n": n, "translation": "あれ"} for n in (3, 4)]
    await client.call("PATCH", path, json={"edits": both})
    await client.call("PATCH", f"{path}/4", json={"reviewed": False})
    assert "That" in await remembered()  # the other one is approved still
    await client.http.delete("/v1/memories/edits", headers=client.headers)


async def test_two_uploads_are_two_documents(client: Client) -> None:
    one, two = [await client.done(answer) for answer in await asyncio.gather(client.upload(), client.upload())]
    assert one["id"] != two["id"]
    assert {found["id"] for found in (await client.call("GET")).json()["documents"]} == {one["id"], two["id"]}
    pages = [(await client.call("GET", f"?limit=1&offset={offset}")).json()["documents"] for offset in range(3)]
    assert [len(page) for page in pages] == [1, 1, 0]
    assert {page[0]["id"] for page in pages[:2]} == {one["id"], two["id"]}
    assert (await client.call("GET", "?limit=101")).status_code == 422


def form(*parts: tuple[str, bytes]) -> bytes:
    written = b"".join(
        b"--%b\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % (BOUNDARY.encode(), head.encode(), content)
        for head, content in parts
    )
    return written + b"--%b--\r\n" % BOUNDARY.encode()


FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
FILE = ('name="file"; filename="a.txt"', b"Can I pay?")
TARGET = ('name="target"', b"ja")


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("parts", [(FILE, TARGET), (TARGET, FILE)])
async def test_fields_come_before_or_after_the_file_in_pieces_of_any_size(
    client: Client, parts: tuple[tuple[str, bytes], ...], size: int
) -> None:
    content = b"\r\n--b12 is not the boundary\r\n\r\nCan I pay?\r\n"
    body = form(*((head, content if "file" in head else value) for head, value in parts))

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), size):
            yield body[at : at + size]

    document = await client.done(await client.call("POST", content=pieces(), headers=FORM))
    [source] = client.folder.glob("*/source")
    assert (document["state"], source.read_bytes()) == ("done", content)


@pytest.mark.parametrize(
    ("head", "name", "sent"),
    [
        (
            "filename*=utf-8''%E5%9C%B0%E5%9B%B3.txt",
            "地図.txt",
            "filename=\"__.ja.txt\"; filename*=UTF-8''%E5%9C%B0%E5%9B%B3.ja.txt",
        ),
        ("filename=\"x.md\"; filename*=utf-8''y.txt", "y.txt", "filename=\"y.ja.txt\"; filename*=UTF-8''y.ja.txt"),
        ('filename="地図.TXT"', "地図.TXT", "filename=\"__.ja.TXT\"; filename*=UTF-8''%E5%9C%B0%E5%9B%B3.ja.TXT"),
        (
            'filename="../../../etc/passwd.txt"',
            "passwd.txt",
            "filename=\"passwd.ja.txt\"; filename*=UTF-8''passwd.ja.txt",
        ),
        ('filename="a\r\nb.txt"', None, None),
        ('filename="a\\"b.txt"', 'a"b.txt', "filename=\"a_b.ja.txt\"; filename*=UTF-8''a%22b.ja.txt"),
        (
            "filename=\"x.txt\"; filename*=undefined''%79.txt",
            "x.txt",
            "filename=\"x.ja.txt\"; filename*=UTF-8''x.ja.txt",
        ),
        (
            f'filename="{"x" * 200}.txt"',
            f"{'x' * 96}.txt",
            f"filename=\"{'x' * 96}.ja.txt\"; filename*=UTF-8''{'x' * 96}.ja.txt",
        ),
    ],
)
async def test_names_of_files_are_names_alone(client: Client, head: str, name: str | None, sent: str | None) -> None:
    answer = await client.call("POST", content=form((f'name="file"; {head}', b"Can I?"), TARGET), headers=FORM)
    if name is None:
        assert answer.status_code == 400
        return
    document = await client.done(answer)
    result = await client.call("GET", f"/{document['id']}/result")
    assert (document["name"], result.headers["content-disposition"]) == (name, f"attachment; {sent}")


@pytest.mark.parametrize(
    ("fields", "name", "status", "code", "param"),
    [
        ({"target": "de", "dialect": "word"}, "a.md", 400, "invalid_request", "dialect"),
        ({}, "a.doc", 400, "unsupported_file", "file"),
        ({}, "a", 400, "unsupported_file", "file"),
        ({}, "", 400, "invalid_request", "file"),
        ({"target": ""}, "a.md", 400, "invalid_request", "target"),
        ({"target": "xx"}, "a.md", 400, "unsupported_language", "target"),
        ({"source": "ja"}, "a.md", 400, "equal_languages", "target"),
        ({"source": "qqq"}, "a.md", 400, "unsupported_language", "source"),
        ({"output_format": "docx"}, "a.md", 400, "unsupported_file", "output_format"),
        ({"formality": "very"}, "a.md", 400, "invalid_request", "formality"),
        ({"comments": "maybe"}, "a.md", 400, "invalid_request", "comments"),
        ({"glossary": "none"}, "a.md", 404, "unknown_glossary", None),
        ({"glossary": '{"a": 1}'}, "a.md", 400, "invalid_request", "glossary"),
        ({"glossary": "{" * 9_000}, "a.md", 400, "invalid_request", "glossary"),
        ({"glossary": '{"a": "\\ud800"}'}, "a.md", 400, "untranslatable_text", "glossary"),
        ({"glossary": '{"\\u0000": "b"}'}, "a.md", 400, "invalid_request", "glossary"),
        ({"glossary": '{"a": ""}'}, "a.md", 400, "invalid_request", "glossary"),
        ({"instructions": "x" * 301}, "a.md", 400, "invalid_request", "instructions"),
        ({"context": "x" * 30_000}, "a.md", 400, "invalid_request", "context"),
        ({"wrong": "1"}, "a.md", 400, "invalid_request", "wrong"),
        ({f"f{number}": "1" for number in range(200)}, "a.md", 422, "invalid_request", None),
    ],
)
async def test_what_is_wrong_with_an_upload_is_said_and_nothing_is_left_of_it(
    client: Client, fields: dict[str, str], name: str, status: int, code: str, param: str | None
) -> None:
    answer = await client.upload(TEXT, name, **fields)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["error"].get("param") == param
    assert client.files() == []


async def test_an_empty_file_no_file_two_files_and_what_is_no_form_are_refused(client: Client) -> None:
    bodies = [
        (form(('name="file"; filename="a.txt"', b""), TARGET), FORM, "invalid_file"),
        (form(TARGET), FORM, "invalid_request"),
        (form(FILE, FILE, TARGET), FORM, "invalid_request"),
        (form(FILE, TARGET)[:-20], FORM, "invalid_request"),
        (form(FILE, TARGET).replace(b"name=", b"nome="), FORM, "invalid_request"),
        (b"--b123\r\n" + b"x" * 9_000, FORM, "invalid_request"),
        (b"", {"Content-Type": "multipart/form-data"}, "invalid_request"),
        (b"{}", {"Content-Type": "application/json"}, "invalid_request"),
    ]
    for body, headers, code in bodies:
        answer = await client.call("POST", content=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert client.files() == []


@pytest.mark.parametrize("with_length", [True, False])
async def test_uploads_have_a_limit_of_their_own(client: Client, with_length: bool) -> None:
    fits, too_large = b"Can I?".ljust(MAX_BYTES, b"\n"), b"x" * (MAX_BYTES + 1)
    document = await client.done(await client.upload(fits, "a.txt"))
    assert document["state"] == "done"
    body = form(('name="file"; filename="a.txt"', too_large), TARGET)

    async def pieces() -> AsyncIterator[bytes]:
        yield body

    answer = await client.call("POST", content=body if with_length else pieces(), headers=FORM)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
    await client.call("DELETE", f"/{document['id']}")
    assert client.files() == []
    headers = {**client.headers, "Content-Type": "application/json"}
    other = await client.http.post("/v1/translate", content=b" " * (MAX_BODY_BYTES + 1), headers=headers)
    assert other.status_code == 413


@asynccontextmanager
async def unfinished(client: Client, *headers: str) -> AsyncIterator[asyncio.StreamReader]:
    """An upload of which half has been sent; its client leaves with the context."""
    reader, writer = await asyncio.open_connection(client.http.base_url.host, client.http.base_url.port)
    head = ["POST /v1/documents HTTP/1.1", "Host: localhost", "Content-Length: 100000", *headers]
    head.append(f"Content-Type: {FORM['Content-Type']}")
    body = form(('name="file"; filename="a.txt"', b"x" * 90_000))
    writer.write("\r\n".join([*head, "", ""]).encode() + body[:50_000])
    try:
        yield reader
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_client_that_leaves_during_its_upload_leaves_nothing(client: Client) -> None:
    async with unfinished(client, f"X-API-Key: {client.headers['X-API-Key']}"):
        await until(lambda: len(client.files()) == 1, "the upload")
    await until(lambda: client.files() == [], "its end")


async def test_a_key_is_looked_at_before_the_file(client: Client) -> None:
    async with unfinished(client) as reader:
        assert b" 401 " in await reader.readline()
        assert client.files() == []


async def test_another_keys_document_is_not_found(client: Client) -> None:
    document = await client.done(await client.upload())
    other, path = client.as_("b"), f"/{document['id']}"
    assert (await other.call("GET")).json() == {"documents": []}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", path, {}),
        ("DELETE", path, {}),
        ("GET", f"{path}/result", {}),
        ("GET", f"{path}/result?format=tmx", {}),
        ("GET", f"{path}/segments", {}),
        ("GET", f"{path}/segments/numbers", {}),
        ("POST", f"{path}/xliff", {"content": b"<xliff/>"}),
        ("PATCH", f"{path}/segments", {"json": {"edits": [{"n": 0}]}}),
        ("POST", f"{path}/segments/replacements", {"json": {"find": "a", "replacement": "b"}}),
        ("PATCH", f"{path}/segments/0", {"json": {"translation": "x"}}),
        ("POST", f"{path}/segments/0/alternatives", {"json": {}}),
    ]
    for method, route, options in calls:
        answer = await other.call(method, route, **options)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_document")
        bare = await client.http.request(method, f"/v1/documents{route}", **options)
        assert bare.status_code == 401
    assert (await client.call("GET", path)).status_code == 200


async def test_a_key_translates_documents_into_its_languages_alone(client: Client) -> None:
    answer = await client.as_("korean").upload()
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"\x00\xff\xfe\xfd\x80" * 50),
        ("a.docx", b"PK\x03\x04" + b"\x00" * 90),
        ("a.docx", b"\xd0\xcf\x11\xe0" * 99),
    ],
)
async def test_a_file_that_is_not_what_it_says_is_an_error_of_its_document(
    client: Client, name: str, content: bytes
) -> None:
    document = await client.done(await client.upload(content, name))
    assert (document["state"], document["error"]["code"]) == ("error", "invalid_file")
    assert str(client.folder) not in json.dumps(document)
    answer = await client.call("GET", f"/{document['id']}/result")
    assert answer.status_code == 400
    assert document["error"]["message"] in answer.json()["error"]["message"]


async def test_a_text_that_grew_out_of_its_box_is_reported_with_its_place(client: Client) -> None:
    box = '<p:spPr><a:xfrm><a:ext cx="685800" cy="400000"/></a:xfrm></p:spPr><p:txBody><a:bodyPr/>'
    words = "<a:p><a:r><a:t>m m</a:t></a:r></a:p>"  # one line, but not with the sign that the model adds
    data = deck(slide(f"<p:sp>{box}{words}</p:txBody></p:sp>"))
    [warning] = (await client.done(await client.upload(data, "a.pptx", source="en")))["warnings"]
    assert (warning["code"], warning["place"]) == ("text_grew", "slide 1")
    assert warning["message"].startswith("slide 1: the text needs ")


async def test_a_result_is_named_after_its_language(client: Client) -> None:
    document = await client.done(await client.upload(name="guide.en.md", source="en"))
    answer = await client.call("GET", f"/{document['id']}/result")
    assert answer.headers["content-disposition"].startswith('attachment; filename="guide.ja.md"')


async def test_an_exported_xliff_file_comes_back_into_its_document_alone(client: Client) -> None:
    text = b"May I *pay* now?\n\nWhere is it?\n\nIt is *here* & there.\n\nYes.\n"
    document, other = [await client.done(await client.upload(one)) for one in (text, text.replace(b"Yes", b"No"))]
    path = f"/{document['id']}"
    ns = "{urn:oasis:names:tc:xliff:document:1.2}"
    xliff = ElementTree.fromstring((await client.call("GET", f"{path}/result?format=xliff")).content)
    first, second, third, _ = xliff.iter(f"{ns}target")
    for mark in first.iter(f"{ns}g"):
        mark.text = "bezahlen"
    second.text = "Wo ist es?"
    second.set("state", "needs-review-translation")
    third[:] = []  # its mark is gone
    list(xliff.iter(f"{ns}trans-unit"))[3].set("approved", "yes")
    data = ElementTree.tostring(xliff)
    refused = await client.call("POST", f"/{other['id']}/xliff", content=data)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "file")
    answer = (await client.call("POST", f"{path}/xliff", content=data)).json()
    assert (answer["segments"], answer["changed"], answer["reviewed_count"]) == (4, [0, 1], 1)
    assert [(one["n"], one["code"]) for one in answer["refused"]] == [(2, "marks")]
    segments = (await client.call("GET", f"{path}/segments")).json()["segments"]
    assert [(one["edited"], one["reviewed"]) for one in segments] == [
        *((True, True), (True, False), (False, False), (False, True)),
    ]
    assert segments[0]["translation"] == "~May I <g1>bezahlen</g1> now?"
    again = (await client.call("POST", f"{path}/xliff", content=data)).json()
    assert (again["changed_count"], again["reviewed_count"], again["refused_count"]) == (0, 0, 1)
    for wrong in (b"", b"<tmx/>", b"<xliff/>", b"<xliff><a", data.replace(b'id="1"', b'id="x"')):
        assert (await client.call("POST", f"{path}/xliff", content=wrong)).status_code == 400


async def test_a_file_that_has_a_segment_twice_changes_nothing(client: Client) -> None:
    document = await client.done(await client.upload(b"Once.\n\nTwice.\n"))
    path = f"/{document['id']}"
    exported = (await client.call("GET", f"{path}/result?format=xliff")).text
    unit = exported[exported.index("<trans-unit") : exported.index("</body>")]
    twice = unit.replace("~Once.", "Eins.") + unit.replace("~Once.", "Zwei.")
    answer = await client.call("POST", f"{path}/xliff", content=exported.replace(unit, twice).encode())
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "the file has segment 1 twice")
    segments = (await client.call("GET", f"{path}/segments")).json()["segments"]
    assert [one["translation"] for one in segments] == ["~Once.", "~Twice."]


async def test_a_file_that_comes_back_neither_empties_segments_nor_undoes_what_was_edited_after_it_was_written(
    client: Client,
) -> None:
    document = await client.done(await client.upload(b"One.\n\nTwo.\n\nThree.\n"))
    path = f"/{document['id']}"
    before = (await client.call("GET", f"{path}/result?format=xliff")).text
    await client.call("PATCH", f"{path}/segments/0", json={"translation": "Eins."})
    data = before.replace(">~Two.<", "><").replace("~Three.", "Drei.")
    answer = (await client.call("POST", f"{path}/xliff", content=data.encode())).json()
    assert (answer["changed"], [one["n"] for one in answer["refused"]], answer["conflicts"]) == ([2], [1], [])
    segments = (await client.call("GET", f"{path}/segments")).json()["segments"]
    assert [one["translation"] for one in segments] == ["Eins.", "~Two.", "Drei."]
    after = (await client.call("GET", f"{path}/result?format=xliff")).text
    await client.call("POST", f"{path}/xliff", content=after.replace(">Eins.<", ">~One.<").encode())
    segments = (await client.call("GET", f"{path}/segments?n=0")).json()["segments"]
    assert segments[0]["translation"] == "~One."  # that was taken back in the tool


async def test_a_segment_that_is_edited_while_a_file_comes_back_keeps_its_edit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await client.done(await client.upload(b"One.\n\nTwo.\n"))
    path = f"/{document['id']}"
    data = (
        (await client.call("GET", f"{path}/result?format=xliff"))
        .text.replace("~One.", "Eins.")
        .replace("~Two.", "Zwei.")
    )
    edit_all = DocumentContents.edit_all

    async def edit_late(of: DocumentContents, to: StoredDocument, edits: Sequence[SegmentEdit]) -> Edited:
        await edit_all(of, to, [SegmentEdit(1, "Zwo.")])
        return await edit_all(of, to, edits)

    monkeypatch.setattr(DocumentContents, "edit_all", edit_late)
    answer = (await client.call("POST", f"{path}/xliff", content=data.encode())).json()
    assert (answer["changed"], [one["segment"]["n"] for one in answer["conflicts"]]) == ([0], [1])
    segments = (await client.call("GET", f"{path}/segments")).json()["segments"]
    assert [one["translation"] for one in segments] == ["Eins.", "Zwo."]


async def taken(client: Client, path: str, data: str, *, conflicts: str = "keep") -> tuple[list[int], list[object]]:
    """The numbers of segments that a file has changed, and the conflicts, each with the text here and in the file."""
    answer = (await client.call("POST", f"{path}/xliff?conflicts={conflicts}", content=data.encode())).json()
    assert answer["conflicts_count"] == len(answer["conflicts"])
    texts = [(one["segment"]["n"], one["segment"]["translation"], one["returned"]) for one in answer["conflicts"]]
    return answer["changed"], texts


async def test_what_was_changed_here_and_in_an_exported_file_is_a_conflict_that_keeps_the_text_here(
    client: Client,
) -> None:
    document = await client.done(await client.upload(b"Four.\n\nFive.\n\nSix.\n"))
    path = f"/{document['id']}"
    exported = (await client.call("GET", f"{path}/result?format=xliff")).text
    edits = [{"n": 0, "translation": "Eins."}, {"n": 1, "translation": "Zwei."}]
    await client.call("PATCH", f"{path}/segments", json={"edits": edits})
    data = exported.replace("~Four.", "Ein!").replace("~Five.", "Zwei.")
    conflict = (0, "Eins.", "Ein!")
    assert await taken(client, path, data) == ([], [conflict])
    assert await taken(client, path, data) == ([], [conflict])  # again
    assert await taken(client, path, data, conflicts="overwrite") == ([0], [conflict])
    assert await taken(client, path, data) == ([], [])
    assert (await client.call("POST", f"{path}/xliff?conflicts=odd", content=data.encode())).status_code == 422


async def test_files_of_one_export_come_back_one_after_another_and_none_undoes_what_another_has_brought(
    client: Client,
) -> None:
    document = await client.done(await client.upload(b"Seven.\n\nEight.\n"))
    path = f"/{document['id']}"
    mine, others = [(await client.call("GET", f"{path}/result?format=xliff")).text for _ in range(2)]
    first = mine.replace("~Seven.", "Eins.")
    assert await taken(client, path, first) == ([0], [])
    assert await taken(client, path, first.replace("~Eight.", "Zwei.")) == ([1], [])  # after more work on it
    again = [(0, "Eins.", "Eins!"), (1, "Zwei.", "Zwei!")]
    data = mine.replace("~Seven.", "Eins!").replace("~Eight.", "Zwei!")
    assert await taken(client, path, data) == ([], again)
    assert await taken(client, path, data, conflicts="overwrite") == ([0, 1], again)
    assert await taken(client, path, others) == ([], [])
    assert await taken(client, path, others.replace("~Eight.", "Zwo.")) == ([], [(1, "Zwei!", "Zwo.")])
    await client.call("PATCH", f"{path}/segments/0", json={"translation": "Ein."})
    assert await taken(client, path, mine.replace("~Seven.", "Eins?").replace("~Eight.", "Zwei!")) == (
        [],
        [(0, "Ein.", "Eins?")],
    )


@pytest.mark.parametrize("conflicts", ["keep", "overwrite"])
async def test_what_a_file_has_as_exported_after_another_file_of_the_export_has_changed_it_is_listed(
    client: Client, conflicts: str
) -> None:
    document = await client.done(await client.upload(b"A %b.\n\nB %b.\n\nC.\n" % ((conflicts.encode(),) * 2)))
    path = f"/{document['id']}"
    exported = (await client.call("GET", f"{path}/result?format=xliff")).text
    data = exported.replace(f"~A {conflicts}.", "Eins.").replace(f"~B {conflicts}.", "Zwei.")
    assert await taken(client, path, data) == ([0, 1], [])
    edits = [{"n": 1, "translation": "Zwo."}, {"n": 2, "translation": "Drei."}]
    await client.call("PATCH", f"{path}/segments", json={"edits": edits})
    answer = (await client.call("POST", f"{path}/xliff?conflicts={conflicts}", content=exported.encode())).json()
    assert (answer["changed"], answer["conflicts"], answer["as_exported_count"]) == ([], [], 2)
    texts = [(one["segment"]["n"], one["segment"]["translation"], one["returned"]) for one in answer["as_exported"]]
    assert texts == [(0, "Eins.", f"~A {conflicts}."), (1, "Zwo.", f"~B {conflicts}.")]
    segments = (await client.call("GET", f"{path}/segments")).json()["segments"]
    assert [one["translation"] for one in segments] == ["Eins.", "Zwo.", "Drei."]


async def test_a_text_that_is_the_machines_again_since_the_export_is_no_less_changed(client: Client) -> None:
    document = await client.done(await client.upload(b"Thirteen.\n"))
    path = f"/{document['id']}"
    await client.call("PATCH", f"{path}/segments/0", json={"translation": "Eins."})
    exported = (await client.call("GET", f"{path}/result?format=xliff")).text
    await client.call("PATCH", f"{path}/segments/0", json={"translation": "~Thirteen.", "reviewed": False})
    assert await taken(client, path, exported.replace("Eins.", "Ein.")) == ([], [(0, "~Thirteen.", "Ein.")])


async def test_a_file_whose_tool_drops_what_is_known_of_the_export_overwrites_nothing_that_people_have_written(
    client: Client,
) -> None:
    document = await client.done(await client.upload(b"Ten.\n\nEleven.\n\nTwelve.\n"))
    path = f"/{document['id']}"
    edits = [{"n": n, "translation": text} for n, text in enumerate(("Eins.", "Zwei."))]
    await client.call("PATCH", f"{path}/segments", json={"edits": edits})
    exported = re.sub(' extradata="[^"]*"', "", (await client.call("GET", f"{path}/result?format=xliff")).text)
    data = exported.replace("Eins.", "Ein.").replace("~Twelve.", "Drei.")
    assert await taken(client, path, data) == ([2], [(0, "Eins.", "Ein.")])


async def test_segments_are_found_replaced_and_reviewed(client: Client) -> None:
    text = b"Can I *pay* now?\n\nWhere is the Station?\n\nThe station is *here*.\n"
    document = await client.done(await client.upload(text))
    path = f"/{document['id']}/segments"

    async def numbers(**query: object) -> list[int]:
        answer = (await client.call("GET", f"{path}/numbers", params=query)).json()
        assert answer["next"] is None
        return answer["numbers"]

    assert await numbers(find="station") == [1, 2]
    assert await numbers(find="station", match_case=True, where="translation") == [2]
    assert (await client.call("GET", f"{path}/numbers?limit=1&first=1")).json() == {"numbers": [1], "next": 2}
    assert [one["n"] for one in (await client.call("GET", f"{path}?n=2&n=0&n=9")).json()["segments"]] == [0, 2]

    wanted = {"find": "STATION", "replacement": "stop"}
    answer = (await client.call("POST", f"{path}/replacements", json=wanted)).json()
    changes = [(one["segment"]["n"], one["segment"]["translation"], one["replaced"]) for one in answer["changes"]]
    assert changes == [
        (1, "~Where is the Station?", "~Where is the stop?"),
        (2, "~The station is <g1>here</g1>.", "~The stop is <g1>here</g1>."),
    ]
    edits = [{"n": n, "translation": new, "was": old, "reviewed": False} for n, old, new in changes]
    broken = [*edits[:1], {**edits[1], "translation": "no mark"}]
    assert (await client.call("PATCH", path, json={"edits": broken})).status_code == 400
    assert await numbers(kind="edited") == []
    await client.call("PATCH", f"{path}/1", json={"translation": "other", "reviewed": False})
    answer = (await client.call("PATCH", path, json={"edits": edits})).json()
    assert ([one["translation"] for one in answer["segments"]], answer["conflicts"]) == ([changes[1][2]], [1])

    assert (await client.call("PATCH", f"{path}/0", json={})).json()["segments"][0]["reviewed"]
    assert [await numbers(kind=kind) for kind in ("edited", "reviewed", "unreviewed")] == [[1, 2], [0], [1, 2]]
    assert b"*here*" in (await client.call("GET", f"/{document['id']}/result")).content
    xliff = (await client.call("GET", f"/{document['id']}/result?format=xliff")).text
    assert xliff.count('approved="yes"') == 3
    for wrong in ({"find": ""}, {"kind": "odd"}, {"replacement": "<g1>"}, {"limit": 1_000}):
        refused = await client.call("POST", f"{path}/replacements", json={**wanted, **wrong})
        assert refused.status_code in (400, 422)


async def test_a_segment_that_was_changed_meanwhile_stays(client: Client) -> None:
    document = await client.done(await client.upload(b"That\n\nThat\n\nThis\n"))
    path = f"/{document['id']}/segments"

    async def edit(was: str, translation: str, **more: Any) -> list[str]:
        body = {"translation": translation, "was": was, **more}
        return [one["translation"] for one in (await client.call("PATCH", f"{path}/0", json=body)).json()["segments"]]

    assert await edit("~That", "one") == ["one"]
    assert await edit("~That", "two", all_equal=True) == []
    assert await edit("one", "three", all_equal=True) == ["three", "three"]  # the other one was not `one`
    segments = (await client.call("GET", path)).json()["segments"]
    assert [one["translation"] for one in segments] == ["three", "three", "~This"]


async def test_segments_are_edited_with_their_marks(client: Client) -> None:
    document = await client.done(await client.upload())
    path = f"/{document['id']}/segments"
    page = (await client.call("GET", f"{path}?offset=0&limit=1")).json()
    assert page["total"] == 2
    [segment] = page["segments"]
    assert (segment["n"], segment["source"]) == (0, "Can I <g1>pay</g1> now?")
    assert (segment["translation"], segment["edited"]) == ("~Can I <g1>pay</g1> now?", False)
    for wrong, code in (("no", "wrong_marks"), ("<g1>\0</g1>", "invalid_request")):
        refused = await client.call("PATCH", f"{path}/0", json={"translation": wrong})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["param"]) == (400, code, "translation")
    edited = await client.call("PATCH", f"{path}/0", json={"translation": "<g1>Ja</g1> & <b>", "all_equal": True})
    assert [(one["translation"], one["edited"]) for one in edited.json()["segments"]] == [("<g1>Ja</g1> & <b>", True)]
    assert b"*Ja*" in (await client.call("GET", f"/{document['id']}/result")).content
    alternatives = await client.call("POST", f"{path}/0/alternatives", json={"n": 2})
    assert alternatives.json()["alternatives"][0]["text"] == "~Can I <g1>pay</g1> now?"
    assert (await client.call("POST", f"{path}/0/alternatives", json={"n": 6})).status_code == 422

    restored = await client.call("PATCH", f"{path}/0", json={"translation": segment["translation"], "reviewed": False})
    assert restored.json()["segments"] == [segment]
    await client.call("PATCH", f"{path}/0", json={"translation": "<g1>Ja</g1> & <b>"})

    tmx = ElementTree.fromstring((await client.call("GET", f"/{document['id']}/result?format=tmx")).content)
    unit = tmx.find("body/tu")
    assert unit is not None
    assert [one.text for one in unit.iter("prop")] == ["a.md", segment["place"], "edited"]
    assert ["".join(one.itertext()) for one in unit.iter("seg")] == ["Can I pay now?", "Ja & <b>"]
    assert [one.tag for one in unit.iter() if one.tag in ("bpt", "ept")] == ["bpt", "ept"] * 2
    exported = await client.call("GET", f"/{document['id']}/result?format=xliff")
    assert exported.headers["content-disposition"].startswith('attachment; filename="a.ja.xliff"')
    xliff = ElementTree.fromstring(exported.content)
    space = "{urn:oasis:names:tc:xliff:document:1.2}"
    assert [one.get("state") for one in xliff.iter(f"{space}target")] == ["final", "translated"]
    assert [one.get("id") for one in xliff.iter(f"{space}g")] == ["1", "1"]
    kept = "{http://www.w3.org/XML/1998/namespace}space"
    units = list(xliff.iter(f"{space}trans-unit"))
    assert [(one.get(kept), one.get("approved")) for one in units] == [("preserve", "yes"), ("preserve", None)]


async def test_pages_of_other_origins_reach_documents_only_where_they_need_a_key(
    client: Client, tmp_path: Path
) -> None:
    origin = {"Origin": "https://elsewhere.example"}
    allowed = await client.call("GET", headers=origin)
    assert allowed.headers["access-control-allow-origin"] == "*"
    asked = {**origin, "Access-Control-Request-Method": "PATCH"}
    preflight = await client.http.options("/v1/documents/X/segments/0", headers=asked)
    assert "PATCH" in preflight.headers["access-control-allow-methods"]
    settings = Settings(auth=AuthSettings(mode="none"), documents=DocumentSettings(folder=str(tmp_path / "files")))
    service, _, _ = await keyed_service(tmp_path, settings=replace(settings, cache=CacheSettings(max_bytes=0)))
    async with served(service) as http:
        assert "access-control-allow-origin" not in (await http.get("/v1/documents", headers=origin)).headers
        refused = await http.post(
            "/v1/documents", headers=origin, data={"target": "ja"}, files={"file": ("a.md", TEXT)}
        )
        assert refused.status_code == 403
