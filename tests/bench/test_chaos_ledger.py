"""The ledger finds bugs: each is planted in a proxy between its clients and a real server over the fake engine."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from dragoman.pipelines.fake import FakePipeline, circling
from dragoman.settings import AuthSettings, DocumentSettings, Settings
from dragoman.storage.database import Database
from dragoman.storage.keys import Keys
from dragoman.types import Account
from dragoman_bench.chaos import clients, oracle
from dragoman_bench.chaos.clients import Http, MixedLoad
from dragoman_bench.chaos.ledger import FAULTY, Ledger, Outages, Reply, SentDocument, Verdict
from dragoman_bench.chaos.oracle import CIRCLED, MARKED, Rule
from tests.bench.serving import listening
from tests.pipelines.conftest import TOKENIZER
from tests.processes import ROOT
from tests.serving import served, service_over
from tests.waiting import HANG_S

NEVER_S = 2.0
"""The deadline of a call that never gets an answer; others have the tests' own."""


@dataclass(frozen=True)
class Message:
    """A request, or the answer to it. `cut`: the connection is closed after the body, without its end."""

    path: str
    body: bytes
    method: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    status: int = 200
    cut: bool = False

    def with_text(self, change: Callable[[str], str]) -> Message:
        return replace(self, body=change(self.body.decode()).encode())


Forward = Callable[[Message], Awaitable[Message]]
Bug = Callable[["Planted", Message, Forward], Awaitable[Message]]


@dataclass
class Planted:
    """A proxy's state. `keys`: those of the load's accounts."""

    bug: Bug
    keys: list[str]
    kept: list[Message] = field(default_factory=list[Message])
    came: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def proxy(target: str, planted: Planted) -> AsyncGenerator[str]:
    async with aiohttp.ClientSession() as session:

        async def forward(asked: Message) -> Message:
            address = target + asked.path
            async with session.request(asked.method, address, data=asked.body, headers=asked.headers) as answer:
                return Message(asked.path, await answer.read(), asked.method, dict(answer.headers), answer.status)

        async def handle(request: web.Request) -> web.StreamResponse:
            headers = {
                name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers
            }
            asked = Message(request.path_qs, await request.read(), request.method, headers)
            answer = await planted.bug(planted, asked, forward)
            kind = answer.headers.get("Content-Type", "application/json")
            if not answer.cut:
                return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": kind})
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
            await response.prepare(request)
            await response.write(answer.body)
            if request.transport is not None:
                request.transport.close()
            return response

        app = web.Application(client_max_size=10**7)
        app.router.add_route("*", "/{path:.*}", handle)
        async with listening(app) as url:
            yield url


# ---- bugs: what each changes of the answers, or does beside them


async def none(_: Planted, asked: Message, forward: Forward) -> Message:
    return await forward(asked)


def answers(path: str, change: Callable[[str], str], *, method: str = "") -> Bug:
    """Changes each answer of a path."""

    async def bug(_: Planted, asked: Message, forward: Forward) -> Message:
        answer = await forward(asked)
        fits = re.search(path, asked.path) and asked.method == (method or asked.method) and answer.status < 300
        return answer.with_text(change) if fits else answer

    return bug


def texts(change: Callable[[list[str]], list[str]]) -> Bug:
    """Changes the texts of each whole answer of the native API."""

    def changed(body: str) -> str:
        if body.startswith("data: "):
            return body
        answer = json.loads(body)
        found = change([one["text"] for one in answer["translations"]])
        return json.dumps({**answer, "translations": [{"text": one} for one in found]})

    return answers("/v1/translate$", changed)


def stream_without_text(body: str) -> str:
    return "data: [DONE]\n\n" if body.startswith("data: ") else body


def cut(path: str, at: str) -> Bug:
    """Ends each answer before `at`."""
    return answers(path, lambda body: body.partition(at)[0])


async def pages_of_one(_: Planted, asked: Message, forward: Forward) -> Message:
    """No bug: a list of documents that needs many pages."""
    is_list = asked.method == "GET" and asked.path.startswith("/v1/documents?")
    return await forward(replace(asked, path=f"{asked.path}&limit=1") if is_list else asked)


async def dropped(_: Planted, asked: Message, forward: Forward) -> Message:
    answer = await forward(asked)
    return replace(answer, body=b"", cut=True) if asked.path == "/v2/translate" else answer


async def reset_in_the_middle(_: Planted, asked: Message, forward: Forward) -> Message:
    answer = await forward(asked)
    return replace(answer, body=answer.body[:30], cut=True) if asked.path == "/v2/translate" else answer


async def never_answered(_: Planted, asked: Message, forward: Forward) -> Message:
    if asked.path == "/v2/translate":
        await asyncio.sleep(HANG_S)
    return await forward(asked)


async def swapped(planted: Planted, asked: Message, forward: Forward) -> Message:
    """Two calls that are in flight together get each other's answers."""
    answer = await forward(asked)
    if asked.path != "/v2/translate":
        return answer
    planted.kept.append(answer)
    if len(planted.kept) % 2:
        planted.came.clear()
        await planted.came.wait()
        return planted.kept[-1]
    planted.came.set()
    return planted.kept[-2]


async def answered_from_the_call_before(planted: Planted, asked: Message, forward: Forward) -> Message:
    answer = await forward(asked)
    if not asked.path.startswith("/v1/chat") or b"data: " in answer.body:
        return answer
    planted.kept.append(answer)
    return planted.kept[-2] if len(planted.kept) > 1 else answer


def repeated(path: str) -> Bug:
    """Does everything of a path twice."""

    async def bug(_: Planted, asked: Message, forward: Forward) -> Message:
        if asked.path == path and asked.method == "POST":
            await forward(asked)
        return await forward(asked)

    return bug


def as_another_key(path: str) -> Bug:
    async def bug(planted: Planted, asked: Message, forward: Forward) -> Message:
        if re.search(path, asked.path) and asked.method == "POST":
            asked = replace(asked, headers={**asked.headers, "Authorization": f"Bearer {planted.keys[-1]}"})
        return await forward(asked)

    return bug


def acknowledged_and_not_done(method: str, path: str) -> Bug:
    async def bug(_: Planted, asked: Message, forward: Forward) -> Message:
        is_meant = asked.method == method and re.search(path, asked.path)
        return (
            Message(asked.path, b"{}", status=204 if method == "DELETE" else 200) if is_meant else await forward(asked)
        )

    return bug


async def document_deleted(_: Planted, asked: Message, forward: Forward) -> Message:
    """Once it is done."""
    answer = await forward(asked)
    if asked.path.endswith("/result"):
        await forward(replace(asked, method="DELETE", path=asked.path.removesuffix("/result"), body=b""))
    return answer


async def another_s_document(planted: Planted, asked: Message, forward: Forward) -> Message:
    """A result is the one that was asked for before."""
    answer = await forward(asked)
    if not asked.path.endswith("/result"):
        return answer
    planted.kept.append(answer)
    if len(planted.kept) > 1:
        return planted.kept[-2]
    return answer


def exchanged(body: str) -> str:
    first, second, *rest = body.rstrip("\n").split("\n\n")
    return "\n\n".join((second, first, *rest)) + "\n"


def less(body: str) -> str:
    usage = json.loads(body)
    return json.dumps({**usage, "api_key_character_count": usage["api_key_character_count"] - 1})


BUGS: dict[str, tuple[Bug, Verdict]] = {
    "an answer is dropped": (dropped, "lost"),
    "a connection is reset in the middle of an answer": (reset_in_the_middle, "lost"),
    "a call is never answered": (never_answered, "lost"),
    "a stream ends without its end": (cut("/v1/translate$", "data: [DONE]"), "lost"),
    "a chat's stream ends without its end": (cut("/v1/chat", "data: [DONE]"), "lost"),
    "two calls get each other's answers": (swapped, "mixed_up"),
    "a call gets the answer of the one before": (answered_from_the_call_before, "mixed_up"),
    "two texts of a call are exchanged": (texts(lambda found: found[::-1]), "wrong"),
    "a text of a call is missing": (texts(lambda found: found[:-1]), "wrong"),
    "a text is there twice": (texts(lambda found: [*found, found[-1]]), "wrong"),
    "a text is doubled": (texts(lambda found: [one + one for one in found]), "wrong"),
    "a text is truncated": (texts(lambda found: [one[:-1] for one in found]), "wrong"),
    "a text is empty": (texts(lambda found: ["" for _ in found]), "wrong"),
    "an answer has no texts": (texts(lambda _: []), "wrong"),
    "a stream ends without any text": (answers("/v1/translate$", stream_without_text), "wrong"),
    "a tag is elsewhere": (texts(lambda found: [one.replace("<b>", "", 1) for one in found]), "wrong"),
    "a stream's piece is sent twice": (answers("/v1/chat", lambda body: body.replace("data: {", body, 1)), "wrong"),
    "a stream's pieces are not its text": (
        answers("/v1/translate$", lambda body: body.replace('"delta":"T', '"delta":"')),
        "wrong",
    ),
    "a call is charged twice": (repeated("/v2/translate"), "duplicated"),
    "a call is charged to another key": (as_another_key("^/v2/translate"), "duplicated"),
    "a character is not charged": (answers("/v2/usage", less), "lost"),
    "a memory's entry is lost": (acknowledged_and_not_done("POST", "/entries"), "lost"),
    "a memory's entry is another key's": (as_another_key("/entries"), "mixed_up"),
    "a memory's entry is changed": (answers("/entries", lambda body: body.replace("保存", "保")), "wrong"),
}
BUGS_OF_DOCUMENTS: dict[str, tuple[Bug, Verdict]] = {
    "a document is stored twice": (repeated("/v1/documents"), "duplicated"),
    "a document is lost": (document_deleted, "lost"),
    "a document's segments are exchanged": (answers("/result$", exchanged), "wrong"),
    "a document is another's": (another_s_document, "mixed_up"),
    "an edit is lost": (acknowledged_and_not_done("PATCH", "/segments/"), "wrong"),
    "a deleted document stays": (acknowledged_and_not_done("DELETE", "/v1/documents/"), "duplicated"),
}


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[str, Keys]]:
    """Its address and keys."""
    folder: Path = tmp_path_factory.mktemp("chaos")
    database = Database(f"sqlite:///{folder}/dragoman.db")
    await database.open()
    keys = Keys(database)
    await keys.create(Account("", "first"))  # without any key a server that needs keys does not start
    settings = Settings(
        auth=AuthSettings(mode="keys", refresh_s=0.2), documents=DocumentSettings(folder=str(folder / "documents"))
    )
    service = service_over(FakePipeline(circling(TOKENIZER)), settings, database=database)
    async with served(service) as client:
        yield str(client.base_url).rstrip("/"), keys
    await database.close()


@asynccontextmanager
async def loaded(server: tuple[str, Keys], bug: Bug, rule: Rule = CIRCLED) -> AsyncGenerator[MixedLoad]:
    address, keys = server
    made = {name: (await keys.create(Account("", f"{name}-{id(bug)}-{id(rule)}")))[1] for name in ("a", "b")}
    deadline_s = NEVER_S if bug is never_answered else HANG_S
    async with proxy(address, Planted(bug, list(made.values()))) as url, clients.session() as session:
        load = MixedLoad(Http(session, deadline_s), Ledger(), [url], made, seed=1, rule=rule)
        await load.prepare()
        yield load


async def run(load: MixedLoad, *, with_documents: bool) -> Ledger:
    """Calls of each kind by two keys, a memory's entry, two documents; then what is stored and charged is compared."""
    calls = [make(key, next(load.numbers) + 100, load.rule) for key in ("a", "b") for make in oracle.CALLS * 2]
    await asyncio.gather(*(load.call(one, load.urls[0]) for one in calls), load.store_and_translate("a", 7))
    for number, key in enumerate(("a", "b") if with_documents else ()):
        sent = SentDocument(
            key, f"{number}.txt", [oracle.sentence(900 + number, part) for part in range(3)], rule=load.rule
        )
        load.ledger.documents.append(sent)
        if await load.upload(sent, load.urls[0]) and await load.is_done(sent):
            await load.edit(sent, 2, number)
            await load.fetch(sent)
            if key == "b":
                await load.delete(sent)
    await load.audit(settle_s=1.5)
    return load.ledger


@pytest.mark.parametrize("rule", [CIRCLED, MARKED])
async def test_of_a_server_without_bugs_all_is_right(server: tuple[str, Keys], rule: Rule) -> None:
    async with loaded(server, none, rule) as load:
        ledger = await run(load, with_documents=True)
    assert ledger.findings == []
    assert [one.is_deleted for one in ledger.documents] == [False, True]
    assert ledger.totals.keys() == {"right"}
    assert ledger.totals["right"] == 2 * 2 * len(oracle.CALLS) + 1 + 3


async def test_the_documents_of_all_pages_are_looked_at(server: tuple[str, Keys]) -> None:
    async with loaded(server, pages_of_one) as load:
        for number in range(3):
            sent = SentDocument("a", f"{number}.txt", [oracle.sentence(800 + number)])
            load.ledger.documents.append(sent)
            assert await load.upload(sent, load.urls[0])
            assert await load.is_done(sent)
        await load.audit(settle_s=1.5)
    assert load.ledger.findings == []
    assert load.ledger.totals == {"right": 3}


@pytest.mark.parametrize("name", [*BUGS, *BUGS_OF_DOCUMENTS])
async def test_a_planted_bug_is_found(server: tuple[str, Keys], name: str) -> None:
    bug, verdict = {**BUGS, **BUGS_OF_DOCUMENTS}[name]
    async with loaded(server, bug) as load:
        ledger = await run(load, with_documents=name in BUGS_OF_DOCUMENTS)
    assert verdict in {one for one in FAULTY if ledger.totals[one]}, ledger.findings
    assert ledger.has_fault


ONLY_TO_THE_LETTER = {
    "a tag is elsewhere",
    "a stream's piece is sent twice",
    "a document is another's",
}
"""Bugs that are not found where the right translation is not known."""


@pytest.mark.parametrize("name", sorted({*BUGS, *BUGS_OF_DOCUMENTS} - ONLY_TO_THE_LETTER))
async def test_most_planted_bugs_are_found_by_marks_alone(server: tuple[str, Keys], name: str) -> None:
    bug, _ = {**BUGS, **BUGS_OF_DOCUMENTS}[name]
    async with loaded(server, bug, MARKED) as load:
        ledger = await run(load, with_documents=name in BUGS_OF_DOCUMENTS)
    assert ledger.has_fault


STREAM = b'data: {"choices": [{"text": "a "}]}\n\ndata: {"choices": [{"text": "b"}]}\n\n'
DONE = b"data: [DONE]\n\n"
DEAD = b'data: {"error": {"code": 500, "message": "EngineDeadError"}}\n\n'


@pytest.mark.parametrize(
    ("number", "reply", "verdict"),
    [
        (1, Reply("", 200, STREAM + DONE), "right"),
        (1, Reply("", 200, STREAM), "lost"),
        (1, Reply("", 200, STREAM + DEAD + DONE), "failed"),
        (1, Reply("", 200, DONE), "wrong"),
        (2, Reply("", 200, b'{"choices": [{"text": "a"}]}'), "right"),
        (2, Reply("", 200, b'{"choices": [{"text": " "}]}'), "wrong"),
        (2, Reply("", 500, b'{"error": {"code": 500}}'), "failed"),
        (2, Reply("", 0, b"", "cut"), "lost"),
    ],
)
def test_of_another_server_only_an_answer_is_asked(number: int, reply: Reply, verdict: Verdict) -> None:
    assert Ledger().record(oracle.completion_call("a", number), reply, 1.0, 2.0) == verdict


CASES = [
    # of the call: began, ended; excused of a killed server, of one that ended in order; its charge may be lost
    (8.0, 9.5, False, False, True),
    (9.9, 10.01, True, False, True),  # its answer was in the socket when the server was killed
    (9.0, 11.0, True, False, True),
    (11.0, 12.0, True, True, True),
    (13.0, 15.0, True, True, False),
    (15.0, 16.0, False, False, False),
    (7.0, 8.0, False, False, False),
]


@pytest.mark.parametrize(("began_s", "ended_s", "killed", "ended", "uncharged"), CASES)
def test_what_the_end_of_a_server_excuses(
    began_s: float, ended_s: float, killed: bool, ended: bool, uncharged: bool
) -> None:
    outages = Outages()
    for url in ("killed", "ended"):
        outages.begin(url, 10.0, is_orderly=url == "ended")
        outages.end(url, 14.0)
    assert [outages.excuse(url, began_s, ended_s) for url in ("killed", "ended", "other")] == [killed, ended, False]
    assert [outages.may_lose_charge(url, ended_s) for url in ("killed", "ended", "other")] == [uncharged, False, False]


def test_the_page_says_how_many_bugs_are_planted() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert f" {len(BUGS) + len(BUGS_OF_DOCUMENTS)} bugs, each planted" in page
