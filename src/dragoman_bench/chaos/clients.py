"""The load: clients that send calls and documents one after another, and write into the ledger what came back.

Each request has a connection of its own, so that a reset is about this request. Knows no server's process and no fault.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from time import monotonic
from typing import Any

import aiohttp

from dragoman_bench.chaos.ledger import Ledger, Reply, SentDocument, Verdict, refusal
from dragoman_bench.chaos.oracle import (
    CALLS,
    CIRCLED,
    SOURCE,
    TARGET,
    Make,
    Rule,
    SentCall,
    memory_call,
    memory_entry,
    sentence,
)

DEADLINE_S = 90.0
"""Of a call. Longer than a server's restart with an engine's."""
POLL_S = 0.25
MEMORY = "approved"
_LAST_KEY_EVERY = 8
"""So many clients have one with the last of the keys, whose quota is soon used up."""
_PARAGRAPHS = (2, 6)
"""Paragraphs of a document, from and to."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a client misbehaves. `leave_after_s`: it closes the connection then; `send_s`: its body takes so long."""

    leave_after_s: float = 0.0
    send_s: float = 0.0


async def _slowly(body: bytes, send_s: float) -> AsyncGenerator[bytes]:
    pieces = 20
    for place in range(pieces):
        yield body[place * len(body) // pieces : (place + 1) * len(body) // pieces]
        await asyncio.sleep(send_s / pieces)


@dataclass(slots=True)
class Http:
    """Sends requests, whatever becomes of the server."""

    session: aiohttp.ClientSession
    deadline_s: float = DEADLINE_S

    async def send(
        self, method: str, url: str, path: str, key: str, body: Any = None, manner: Manner = Manner()
    ) -> Reply:
        """One request to the server at `url`. `body`: JSON, or a form."""
        headers, status, content = {"Authorization": f"Bearer {key}"}, 0, bytearray()
        leave_after_s = manner.leave_after_s
        data: dict[str, Any] = {}
        if isinstance(body, aiohttp.FormData):
            data = {"data": body}
        elif body is not None:
            headers["Content-Type"] = "application/json"
            encoded = json.dumps(body).encode()
            data = {"data": _slowly(encoded, manner.send_s) if manner.send_s else encoded}
        try:
            async with (
                asyncio.timeout(leave_after_s or self.deadline_s),
                self.session.request(method, url + path, headers=headers, **data) as response,
            ):
                status = response.status
                async for chunk in response.content.iter_any():
                    content += chunk
            return Reply(url, status, bytes(content))
        except TimeoutError:
            fault = "left" if leave_after_s else "timeout"
        except aiohttp.ClientConnectorError:
            fault = "unreachable"
        except (aiohttp.ClientError, OSError):
            fault = "cut"
        return Reply(url, status, bytes(content), fault)


def session() -> aiohttp.ClientSession:
    """One for `Http`."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))


@dataclass(slots=True)
class MixedLoad:
    """Clients of several keys at several servers that share a database. `keys`: by name; `urls`: of all servers.

    `one_server_a_url` False: behind an address is one of several servers, of which each learns within `auth.refresh_s` what
    others have stored. `kept_share`: of documents that stay. `calls`: what is sent, the first one plain texts; `rule`: by which
    they are judged. `stores` False: the servers translate only, and have no documents, memories and usage.
    """

    http: Http
    ledger: Ledger
    urls: list[str]
    keys: Mapping[str, str]
    seed: int
    one_server_a_url: bool = True
    kept_share: float = 0.2
    calls: tuple[Make, ...] = CALLS
    rule: Rule = CIRCLED
    stores: bool = True
    numbers: count[int] = field(default_factory=lambda: count(1))
    ends: asyncio.Event = field(default_factory=asyncio.Event)
    in_flight: int = 0

    def url(self, number: int) -> str:
        return self.urls[number % len(self.urls)]

    def key_of(self, place: int) -> str:
        """Of a client."""
        *unlimited, last = sorted(self.keys)
        return last if place % _LAST_KEY_EVERY == _LAST_KEY_EVERY - 1 else unlimited[place % len(unlimited)]

    # ---- calls

    def made(self, make: Make, key: str) -> SentCall:
        """A new call."""
        return make(key, next(self.numbers), self.rule)

    async def call(self, call: SentCall, url: str, manner: Manner = Manner()) -> str:
        """Send one call and return the ledger's verdict."""
        self.ledger.sending(call)
        self.in_flight += 1
        began_s = monotonic()
        try:
            reply = await self.http.send("POST", url, call.path, self.keys[call.key], call.body, manner)
        finally:
            self.in_flight -= 1
        return self.ledger.record(call, reply, began_s, monotonic())

    async def store_and_translate(self, key: str, number: int) -> None:
        """Add an entry to a memory, and translate its text where it was stored."""
        url, (text, translation) = self.url(number), memory_entry(number)
        entry = {"source": SOURCE, "target": TARGET, "entries": [{"text": text, "translation": translation}]}
        self.ledger.unsure_memories[key][text] = translation
        reply = await self.http.send("POST", url, f"/v1/memories/{MEMORY}/entries", self.keys[key], entry)
        if not reply.fault and reply.status < 300:
            self.ledger.memories[key][text] = translation
            await self.call(memory_call(key, number, is_seen=self.one_server_a_url), url)
        elif reply.is_certain:
            self.ledger.unsure_memories[key].pop(text, None)

    async def client(self, place: int) -> None:
        """Send one call after another until the load ends."""
        rng, key = Random(f"{self.seed} client {place}"), self.key_of(place)
        while not self.ends.is_set():
            choice = rng.randrange(len(self.calls) + self.stores)
            if choice < len(self.calls):
                verdict = await self.call(self.made(self.calls[choice], key), self.url(rng.randrange(1000)))
            else:
                verdict = await self.store_and_translate(key, next(self.numbers))
            if verdict != "right":  # as a client with backoff does
                await asyncio.sleep(rng.uniform(0.5, 1.5) if verdict == "failed" else rng.uniform(0.05, 0.3))

    # ---- documents

    async def documents(self, place: int) -> None:
        """Send one document after another, edit it, fetch it, and delete most."""
        rng = Random(f"{self.seed} documents {place}")
        keys = sorted(self.keys)
        while not self.ends.is_set():
            number, key = next(self.numbers), keys[place % len(keys)]
            paragraphs = [sentence(number, part) for part in range(rng.randint(*_PARAGRAPHS))]
            sent = SentDocument(key, f"{number}.txt", paragraphs, rule=self.rule)
            self.ledger.documents.append(sent)
            if not await self.upload(sent, self.url(number)):
                await asyncio.sleep(rng.uniform(0.5, 1.5))
            elif await self.is_done(sent):
                await self.edit(sent, rng.randrange(len(paragraphs)), number)
                await self.fetch(sent)
                if rng.random() >= self.kept_share:
                    await self.delete(sent)
            await asyncio.sleep(rng.uniform(0.05, 0.5))

    async def upload(self, sent: SentDocument, url: str) -> bool:
        """Whether the server has acknowledged the document."""
        form = aiohttp.FormData({"source": SOURCE, "target": TARGET})
        form.add_field("file", sent.file, filename=sent.name, content_type="text/plain")
        began_s = monotonic()
        reply = await self.http.send("POST", url, "/v1/documents", self.keys[sent.key], form)
        what = f"upload of {sent.name} by {sent.key}"
        if reply.fault:
            is_away = self.ledger.outages.excuse(url, began_s, monotonic())
            self.ledger.count("failed" if is_away else "lost", f"{what}: {reply.fault}", "upload" * is_away)
        elif reply.status >= 400:
            verdict, code = refusal(reply)
            self.ledger.count(verdict, what, code)
            if reply.is_certain:
                self.ledger.documents.remove(sent)
        else:
            sent.id = json.loads(reply.body)["id"]
        return bool(sent.id)

    async def ask(
        self, method: str, sent: SentDocument, path: str = "", *, until: Callable[[Reply], bool]
    ) -> Reply | None:
        """Ask for a document of any server, again and again, as `until` or the deadline ends it. None: the deadline did."""
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * self.http.deadline_s):
                for number in count():
                    asked = f"/v1/documents/{sent.id}{path}"
                    reply = await self.http.send(method, self.url(number), asked, self.keys[sent.key])
                    if not reply.fault and until(reply):
                        return reply
                    await asyncio.sleep(POLL_S)
        return None

    async def is_done(self, sent: SentDocument) -> bool:
        """Wait for the document's translation. A document that has failed is counted."""
        ended = ("done", "error")

        def has_ended(reply: Reply) -> bool:
            return reply.status == 404 or (reply.status == 200 and json.loads(reply.body)["state"] in ended)

        reply = await self.ask("GET", sent, until=has_ended)
        if reply is None or reply.status == 404:
            self.ledger.count("lost", f"document {sent.name} of {sent.key} never ended: {reply}")
            return False
        found = json.loads(reply.body)
        if found["state"] == "error":
            verdict: Verdict = "refused" if found["error"]["code"] == "quota_exceeded" else "failed"
            self.ledger.count(verdict, f"document {sent.name}", found["error"]["code"])
            sent.has_failed = True
            return False
        return True

    async def edit(self, sent: SentDocument, place: int, number: int) -> None:
        """Edit a paragraph, once: an edit whose answer does not come may be stored."""
        path = f"/v1/documents/{sent.id}/segments/{place}"
        text = sent.unsure_edits[place] = f"編集 {number}"
        reply = await self.http.send("PATCH", self.url(number), path, self.keys[sent.key], {"translation": text})
        if reply.is_certain:
            del sent.unsure_edits[place]
        if reply.status == 200 and not reply.fault:
            sent.edits[place] = text

    async def fetch(self, sent: SentDocument) -> None:
        """Download the document, and judge it. This charges it."""
        reply = await self.ask("GET", sent, "/result", until=lambda one: one.status in (200, 404))
        if reply is None or reply.status != 200:
            self.ledger.count("lost", f"the result of {sent.name} of {sent.key}: {reply}")
            return
        self.ledger.delivered(sent, reply.url, monotonic())
        self.ledger.audit_document(sent, sent.rule.translations(reply.body.decode("utf-8"), sent.marks))

    async def delete(self, sent: SentDocument) -> None:
        """Delete the document, once."""
        reply = await self.http.send("DELETE", self.urls[0], f"/v1/documents/{sent.id}", self.keys[sent.key])
        sent.is_deleted, sent.is_deletion_unsure = reply.status == 204, not reply.is_certain

    # ---- what is stored at the end

    async def prepare(self) -> None:
        """Make the memory of each key. Raises `RuntimeError` where a server does not."""
        for key in self.keys if self.stores else ():
            await self.asked("POST", "/v1/memories", key, {"name": MEMORY})

    async def asked(self, method: str, path: str, key: str, body: Any = None) -> Any:
        """A JSON answer of the first server. Raises `RuntimeError` for any other."""
        reply = await self.http.send(method, self.urls[0], path, self.keys[key], body)
        if reply.fault or reply.status >= 300:
            raise RuntimeError(f"{method} {path}: {reply}")
        return json.loads(reply.body)

    async def audit(self, settle_s: float = 12.0) -> None:
        """Compare what the server has stored and charged with the ledger, once nothing is in flight.

        `settle_s`: how long the servers may take to add up what they have charged.
        """
        for key in self.keys if self.stores else ():
            self.ledger.audit_documents(key, await self._document_names(key))
            await self._audit_segments(key)
            self.ledger.audit_memory(key, await self._memory_entries(key))
            await self._audit_usage(key, settle_s)

    async def _document_names(self, key: str) -> list[str]:
        """Of all pages. By id: one that is stored meanwhile moves others to the next page, where they are no second ones."""
        names, offset = dict[str, str](), 0
        while page := (await self.asked("GET", f"/v1/documents?offset={offset}", key))["documents"]:
            names |= {one["id"]: one["name"] for one in page}
            offset += len(page)
        return [*names.values()]

    async def _audit_segments(self, key: str) -> None:
        for sent in [one for one in self.ledger.documents if one.key == key and one.id]:
            if not (sent.has_failed or sent.is_deleted or sent.is_deletion_unsure):
                reply = await self.ask("GET", sent, "/segments?limit=1000", until=lambda one: one.status in (200, 404))
                self.ledger.audit_document(sent, _translations(reply))

    async def _memory_entries(self, key: str) -> list[tuple[str, str]]:
        entries, cursor = list[tuple[str, str]](), ""
        while cursor is not None:
            page = await self.asked("GET", f"/v1/memories/{MEMORY}/entries?limit=1000{cursor}", key)
            entries += [(one["text"], one["translation"]) for one in page["entries"]]
            cursor = f"&cursor={page['cursor']}" if page["cursor"] else None
        return entries

    async def _audit_usage(self, key: str, settle_s: float) -> None:
        least, most = self.ledger.charged(key)
        end_s = monotonic() + settle_s
        while True:
            characters = (await self.asked("GET", "/v2/usage", key))["api_key_character_count"]
            if least <= characters <= most or monotonic() > end_s:
                break
            await asyncio.sleep(POLL_S)
        self.ledger.audit_usage(key, characters)


def _translations(reply: Reply | None) -> list[str]:
    """Those of a document's segments; none if they are not answered."""
    segments: list[dict[str, Any]] = json.loads(reply.body)["segments"] if reply and reply.status == 200 else []
    return [one["translation"] for one in segments]
