"""Whose call it was, and who changed what: keys' ids in the request log and in the lines of changes, over a real server."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dragoman.service.stack import account_store
from dragoman.telemetry.logs import AUDIT_LOG, HumanFormatter, JsonFormatter
from dragoman.types import Account
from tests.api.test_accounts import ACCOUNT, Keyed, keyed
from tests.api.test_memories import tmx_of

SECRET = "Zanzibar"
"""Stands in every text, term and name: no line may have it."""
LINES = ("dragoman.request", AUDIT_LOG)


@dataclass
class Log:
    """What the server logs of requests and changes, in both formats."""

    records: list[logging.LogRecord] = field(default_factory=list[logging.LogRecord])
    json: io.StringIO = field(default_factory=io.StringIO)
    human: io.StringIO = field(default_factory=io.StringIO)

    def of(self, logger: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self.json.getvalue().splitlines())
        return [line for line in lines if line["logger"] == logger]

    def text_of(self, request_id: str) -> str:
        [line] = [line for line in self.human.getvalue().splitlines() if request_id in line]
        return line


@pytest.fixture
def logged() -> Iterator[Log]:
    log = Log()
    handlers = [logging.StreamHandler(log.json), logging.StreamHandler(log.human)]
    for handler, formatter in zip(handlers, (JsonFormatter(), HumanFormatter(timed=False)), strict=True):
        handler.setFormatter(formatter)
    loggers = [(logging.getLogger(name), logging.getLogger(name).level) for name in LINES]
    for logger, _ in loggers:
        logger.setLevel(logging.INFO)
        for handler in handlers:
            logger.addHandler(handler)
    yield log
    for logger, level in loggers:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
    for written in (log.json, log.human):
        assert SECRET not in written.getvalue()
        assert "drg_" not in written.getvalue()


async def ids_of(server: Keyed) -> dict[str, str]:
    return {one.account.name: one.account.id for one in await account_store(server.database).keys.list()}


async def test_each_line_names_the_key_and_so_do_refusals(tmp_path: Path, logged: Log) -> None:
    limits = {"bob": {"requests_per_s": 0.001}, "carol": {"characters_per_month": 5}, "dave": {"languages": {"ko"}}}
    accounts = [replace(ACCOUNT, name=name, **values) for name, values in limits.items()]  # type: ignore[arg-type]
    async with keyed(tmp_path, ACCOUNT, *accounts) as server:
        keys, ids = account_store(server.database).keys, await ids_of(server)
        _, expired = await keys.create(Account("", "old"), datetime(2020, 1, 1, tzinfo=UTC))
        revoked = await server.create(Account("", "gone"))
        assert (await server.post(revoked)).status_code == 200
        await keys.revoke("gone")
        await server.service.accounts.reload()
        ids |= await ids_of(server)
        sent = [("alice", server.keys["alice"]), *((name, server.keys[name]) for name in limits)]
        sent += [("bob", server.keys["bob"]), ("old", expired), ("gone", revoked), ("gone", revoked)]
        sent += [("", "drg_unknown"), ("", None)]  # type: ignore[list-item]
        answers = [await server.post(key) for _, key in sent]
    lines = {line["request_id"]: line for line in logged.of("dragoman.request")}
    outcomes = list[tuple[str, str]]()
    for (name, _), answer in zip(sent, answers, strict=True):
        line = lines[answer.headers["x-request-id"]]
        assert line.get("key", "") == ids.get(name, ""), name
        assert (f"key {ids.get(name)}" in logged.text_of(line["request_id"])) == bool(name)
        outcomes.append((name, line["outcome"]))
    assert outcomes == [
        ("alice", "ok"),
        ("bob", "ok"),
        ("carol", "quota_exceeded"),
        ("dave", "forbidden"),
        ("bob", "rate_limited"),
        ("old", "invalid_key"),
        ("gone", "invalid_key"),
        ("gone", "invalid_key"),
        ("", "invalid_key"),
        ("", "unauthenticated"),
    ]


async def test_the_key_in_a_body_of_another_api_is_named_too(tmp_path: Path, logged: Log) -> None:
    async with keyed(tmp_path, ACCOUNT) as server:
        body = {"q": f"Where is {SECRET}?", "source": "en", "target": "ja", "api_key": server.keys["alice"]}
        (await server.client.post("/translate", json=body)).raise_for_status()
        headers = {"Authorization": f"DeepL-Auth-Key {server.keys['alice']}"}
        (
            await server.client.post("/v2/translate", json={"text": [SECRET], "target_lang": "JA"}, headers=headers)
        ).raise_for_status()
        [alice] = (await ids_of(server)).values()
    assert [line["key"] for line in logged.of("dragoman.request")] == [alice, alice]


async def test_each_change_is_a_line_by_whichever_api_it_comes(tmp_path: Path, logged: Log) -> None:
    async with keyed(tmp_path, ACCOUNT) as server:
        [alice] = (await ids_of(server)).values()
        headers = {"X-API-Key": server.keys["alice"]}
        deepl = {"Authorization": f"DeepL-Auth-Key {server.keys['alice']}"}

        async def call(method: str, path: str, **options: Any) -> Any:
            answer = await server.client.request(method, path, **{"headers": headers, **options})
            assert answer.is_success, answer.text
            return answer

        name = f"{SECRET}-1"
        first = (await call("POST", "/v1/glossaries", json={"name": name})).json()["id"]
        entries = {"entries": {SECRET: SECRET}}
        for method in ("PUT", "PATCH", "DELETE"):
            body = None if method == "DELETE" else entries
            await call(method, f"/v1/glossaries/{name}/entries?source=en&target=ja", json=body)
        await call("DELETE", f"/v1/glossaries/{name}")
        pair = {"source_lang": "en", "target_lang": "ja", "entries": f"{SECRET}\t{SECRET}", "entries_format": "tsv"}
        second = (
            await call("POST", "/v3/glossaries", headers=deepl, json={"name": name, "dictionaries": [pair]})
        ).json()
        await call("PATCH", f"/v3/glossaries/{second['glossary_id']}", headers=deepl, json={"name": f"{name}b"})
        await call("DELETE", f"/v3/glossaries/{second['glossary_id']}", headers=deepl)
        await call("POST", "/v1/memories", json={"name": name})
        memory = (await call("PATCH", f"/v1/memories/{name}", json={"name": f"{name}b"})).json()["id"]
        await call("DELETE", f"/v1/memories/{memory}")
        imported = {"params": {"name": name}, "content": tmx_of((SECRET, SECRET))}
        made = [(await call("POST", "/v1/memories/import", **imported)).json()["memory"]["id"] for _ in range(2)]
        assert made[0] == made[1]
        answer = await server.client.post("/v1/glossaries", json={"name": name})
        assert answer.status_code == 401  # and no line
    changes = [line for line in logged.of(AUDIT_LOG) if line["change"] != "key.create"]  # by this test
    ids = {"glossary": [first] * 5 + [second["glossary_id"]] * 3, "memory": [memory] * 3 + made[:1] + made}
    assert [(line["change"], line["id"]) for line in changes] == [
        *zip(
            [
                *("glossary.create", "glossary.replace", "glossary.merge", "glossary.delete_dictionary"),
                *("glossary.delete", "glossary.create", "glossary.rename", "glossary.delete"),
            ],
            ids["glossary"],
            strict=True,
        ),
        *zip(
            [
                *("memory.create", "memory.rename", "memory.delete"),
                *("memory.create", "memory.import", "memory.import"),
            ],
            ids["memory"],
            strict=True,
        ),
    ]
    requests = {line["request_id"] for line in logged.of("dragoman.request")}
    for line in changes:
        assert (line["message"], line["by"], line["from"]) == ("audit", alice, "127.0.0.1")
        assert line["request_id"] in requests
    assert f"glossary.create {first} by {alice} from 127.0.0.1, id " in logged.human.getvalue()
