"""Documents as jobs, over the fake pipeline and real worker processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Literal

import psutil
import pytest

from dragoman.errors import (
    ConfigError,
    DiskFull,
    DocumentLost,
    DocumentNotReady,
    InvalidFile,
    InvalidRequest,
    QueueFull,
    QuotaExceeded,
    StorageUnavailable,
    Unavailable,
    UnknownDocument,
)
from dragoman.pipelines.fake import FakePipeline
from dragoman.prompts.encoder import PromptEncoder
from dragoman.service import document_contents, document_runs
from dragoman.service.document_runs import DocumentOptions
from dragoman.service.documents import Documents, clean_name
from dragoman.service.service import TranslationService
from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, Settings
from dragoman.storage import document_files
from dragoman.storage.collections import SERVER
from dragoman.storage.database import Database, utc_now
from dragoman.storage.document_files import FolderUse
from dragoman.storage.documents import DocumentStore, StoredDocument
from dragoman.storage.keys import Keys
from dragoman.storage.usage import UsageLedger
from dragoman.types import ANONYMOUS, Account, Completion, Delta, EngineSequence, Options, TranslationRequest
from tests.processes import title
from tests.serving import HeldPipeline, encoder_of_turns, service_over, source_of, turns_of
from tests.waiting import HANG_S, scaled, until
from wholetext.files import worker
from wholetext.files.segmentfile import Result
from wholetext.files.worker import Workers

StoreName = Literal["folder", "database"]
TEXT = "\n\n".join(f"Can I see number {number} of the old map?" for number in range(40))
OTHER_TEXT = "\n\n".join(f"How do I get to platform {number} of the station?" for number in range(40))
JA = DocumentOptions("ja", "en")


def kana(sequence: EngineSequence) -> str:
    """An answer in kana with the numbers of the text, to which no check objects."""
    return re.sub(r"[A-Za-z]+", "かな", source_of(sequence))


class Servers:
    """Servers that share a database and a folder; documents are in one of them."""

    def __init__(self, folder: Path, store: StoreName) -> None:
        self.folder = folder
        self.of_documents = store
        self.url = f"sqlite:///{folder}/dragoman.db"
        self.store = DocumentStore(Database(self.url))

    @asynccontextmanager
    async def __call__(
        self,
        pipeline: FakePipeline | None = None,
        auth: AuthSettings | None = None,
        encoder: PromptEncoder | None = None,
        **settings: float,
    ) -> AsyncIterator[TranslationService]:
        of_documents = DocumentSettings(
            store=self.of_documents,
            folder=str(self.folder / "documents"),
            **settings,  # type: ignore[arg-type]
        )
        all_settings = Settings(documents=of_documents, auth=auth or AuthSettings(), cache=CacheSettings(max_bytes=0))
        database = Database(self.url)
        service = service_over(pipeline or FakePipeline(kana), all_settings, database=database, encoder=encoder)
        await service.start()
        try:
            yield service
        finally:
            await service.stop()

    def files(self) -> set[str]:
        """Of documents, and what is left of uploads, each with its folder."""
        found = {str(path.relative_to(self.folder / "documents")) for path in self.folder.glob("documents/*/*")}
        with closing(sqlite3.connect(self.folder / "dragoman.db")) as connection:
            rows = connection.execute("SELECT document_id || '/' || name FROM document_files").fetchall()
        return found | {name.replace("/segments", "/segments.db") for (name,) in rows}


Server = Callable[..., AbstractAsyncContextManager[TranslationService]]


@pytest.fixture(params=["folder", "database"])
async def servers(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Servers]:
    made = Servers(tmp_path, request.param)
    await made.store._database.open()
    yield made
    await made.store._database.close()


async def create(
    of: Documents,
    text: str | bytes = TEXT,
    name: str = "a.txt",
    options: DocumentOptions = JA,
    account: Account = ANONYMOUS,
) -> StoredDocument:
    with of.upload() as path:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return await of.create(path, name, options, account)


async def text_of(of: Documents, document: StoredDocument) -> str:
    """Its result."""
    result = await of.contents.result(document)
    with result.file as file:
        return file.read().decode()


async def done(of: Documents, document: StoredDocument) -> StoredDocument:
    async with asyncio.timeout(HANG_S):
        return await of.wait(document)


async def error_of(of: Documents, document: StoredDocument) -> str:
    ended = await done(of, document)
    assert ended.state == "error"
    return f"{ended.error_code}: {ended.error_message}"


async def test_a_file_comes_back_in_another_language(servers: Servers) -> None:
    async with servers() as service:
        text = "# Can I see *it*?\n\n```\ncode\n```\n\n* yes\n* yes\n"
        document = await done(service.documents, await create(service.documents, text, "dir/a.md"))
        result = await service.documents.contents.result(document)
        with result.file as file:
            text = file.read().decode()
        assert text == "# かな かな かな *かな*?\n\n```\ncode\n```\n\n* かな\n* かな\n"
        assert (result.name, result.media_type, document.source) == ("a.md", "text/markdown", "en")
        assert (document.segments, document.segments_done, document.doubtful) == (3, 3, 0)
        assert document.characters == document.characters_done == len("Can I see it?yesyes")
        page = await service.documents.contents.segments(document, 1, 1)
        assert [(one.n, one.source, one.translation) for one in page.segments] == [(1, "yes", "かな")]
        assert (page.total, page.doubtful_total) == (3, 0)
        modes = [path.stat().st_mode & 0o777 for path in servers.folder.glob("documents/**/*")]
        assert set(modes) <= {0o700, 0o600}
        await service.documents.delete(document)
        assert servers.files() == set()
        with pytest.raises(UnknownDocument):
            await service.documents.get(document.id, ANONYMOUS)


def workers() -> set[int]:
    """Processes of this one's servers that read and write files."""
    return {one.pid for one in psutil.Process().children(recursive=True) if "wholetext.files.worker" in title(one)}


async def test_a_process_waits_for_the_first_document_and_none_is_left(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "Workers", Workers)  # in place of those that tests share
    before = workers()
    async with servers() as service:
        await until(lambda: len(workers() - before) == 1, "a process")
        [waiting] = workers() - before
        await done(service.documents, await create(service.documents))
        assert workers() - before == {waiting}  # it has forked those that read and wrote the document
    assert workers() == before


async def test_documents_are_counted_once_when_they_have_ended(servers: Servers) -> None:
    async with servers() as service:
        value = service.metrics.registry.get_sample_value
        document = await done(service.documents, await create(service.documents))
        await text_of(service.documents, document)
        await error_of(service.documents, await create(service.documents, b"PK", "a.DOCX"))
        for labels in ({"format": "txt", "outcome": "ok"}, {"format": "docx", "outcome": "invalid_file"}):
            await until(lambda: value("dragoman_documents_total", labels) == 1, "a count")  # noqa: B023
        assert value("dragoman_document_characters_sum") == document.characters
        assert value("dragoman_document_seconds_count") == 1
        assert value("dragoman_document_worker_seconds_count", {"task": "read"}) == 2
        assert value("dragoman_document_worker_seconds_count", {"task": "write"}) == 1


async def test_what_names_parts_of_a_file_is_cut_on_its_way_to_the_server(servers: Servers) -> None:
    async with servers() as service:
        key, note = "k" * 5_000, "note " * 5_000
        text = f'{{"{key}": {{"message": "Some words", "description": "{note}"}}, "{key}_x": "AB1"}}'
        document = await done(service.documents, await create(service.documents, text, "a.json"))
        [segment] = (await service.documents.contents.segments(document)).segments
        [left] = json.loads(document.report)["left"]
        assert len(segment.place) == len(left["place"]) == worker.LONGEST_PLACE


async def test_the_language_is_detected_once_in_the_longest_texts(servers: Servers) -> None:
    async with servers() as service:
        text = "OK\n\nNo\n\n駅はどこですか？ずっと探しています。\n"
        document = await done(service.documents, await create(service.documents, text, options=DocumentOptions("en")))
        assert (document.source, document.state, document.segments_done) == ("ja", "done", 3)
        english = await create(service.documents, TEXT, options=DocumentOptions("en"))
        assert "equal" in await error_of(service.documents, english)
        numbers = await done(
            service.documents, await create(service.documents, "1\n\n2\n", options=DocumentOptions("en"))
        )
        assert await text_of(service.documents, numbers) == "1\n\n2\n"
        assert (numbers.state, numbers.source, numbers.segments_done) == ("done", None, numbers.segments)


async def test_what_is_finished_when_a_server_stops_is_not_translated_again(servers: Servers) -> None:
    class Half(HeldPipeline):
        """Answers nine texts of documents, one after the other."""

        begun = 0

        async def _decode(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
            self.begun += not sequence.id.startswith("warm-up")
            if self.begun == 10:
                self.hold()
            async for item in super()._decode(sequence):
                yield item

    first = Half(kana, slots=1)
    async with servers(first) as service:
        document = await create(service.documents)
        await until(lambda: not first.release.is_set(), "the first texts")
        async with asyncio.timeout(HANG_S):
            while True:
                stored = await servers.store.get(document.id)
                if stored is not None and stored.segments_done == 9:
                    break
                await asyncio.sleep(0.05)
    stopped = await servers.store.get(document.id)
    assert stopped is not None
    assert (stopped.state, stopped.owner, stopped.attempts) == ("queued", None, 0)
    assert stopped.segments_done == 9
    again = HeldPipeline(kana)
    async with servers(again) as service:
        ended = await done(service.documents, document)
        assert again.generations == 40 - stopped.segments_done + 1  # the warm-up
        text = await text_of(service.documents, ended)
        assert text == re.sub("[A-Za-z]+", "かな", TEXT)


async def test_documents_of_a_server_that_died_are_taken_over(servers: Servers) -> None:
    async with servers(max_running=1, owner_timeout_s=scaled(1.0)) as service:
        held = await create(service.documents)
        await done(service.documents, held)
        await servers.store.update(held.id, state="queued")
        dead = await servers.store.claim("dead", utc_now(), service.documents.places.names)
        assert dead is not None
        service.documents._wake.set()
        assert (await done(service.documents, dead)).state == "done"  # a second after it last reported


async def test_a_document_that_another_server_has_taken_over_is_left_to_it(servers: Servers) -> None:
    pipeline = HeldPipeline(kana)
    async with servers(pipeline) as service:
        pipeline.hold()
        document = await create(service.documents)
        await until(lambda: pipeline.generations > 0, "the first text")
        await servers.store.update(document.id, owner="another")
        await until(lambda: pipeline.stats().running == 0, "its end here")
    taken = await servers.store.get(document.id)
    assert taken is not None
    assert (taken.state, taken.owner) == ("translating", "another")


async def test_a_document_that_is_deleted_meanwhile_ends(servers: Servers) -> None:
    pipeline = HeldPipeline(kana)
    async with servers(pipeline) as service:
        pipeline.hold()
        document = await create(service.documents)
        await until(lambda: pipeline.generations > 0, "the first text")
        with pytest.raises(DocumentNotReady):
            await text_of(service.documents, document)
        await service.documents.delete(document)
        assert (pipeline.stats().running, servers.files()) == (0, set())


async def test_a_document_of_which_servers_die_is_an_error_in_the_end(servers: Servers) -> None:
    async with servers() as service:
        document = await done(service.documents, await create(service.documents))
        await servers.store.update(document.id, state="queued", attempts=document_runs.MAX_ATTEMPTS)
        assert "engine_failed" in await error_of(service.documents, replace(document, state="queued"))


async def test_documents_expire_with_their_files_and_asking_for_one_keeps_it(servers: Servers) -> None:
    async with servers() as service:
        kept, expired = [await done(service.documents, await create(service.documents)) for _ in range(2)]
        soon, past = (utc_now() + timedelta(minutes=minutes) for minutes in (1, -1))
        await servers.store.update(kept.id, expires_at=soon)
        await servers.store.update(expired.id, expires_at=past)
        await service.documents.get(kept.id, ANONYMOUS)
        await service.documents._sweep()
        found = await servers.store.get(kept.id)
        assert found is not None
        assert found.expires_at > soon + timedelta(hours=23)
        assert {name.partition("/")[0] for name in servers.files()} == {kept.id}


async def test_what_deepls_clients_have_downloaded_stays_for_some_minutes(servers: Servers) -> None:
    async with servers() as service:
        with service.documents.upload() as path:
            path.write_text(TEXT)
            document = await service.documents.create(path, "a.txt", JA, ANONYMOUS, "deepl", secret="key")
        document = await done(service.documents, document)
        await text_of(service.documents, document)
        for secret in ("other", ""):
            with pytest.raises(UnknownDocument):
                await service.documents.get(document.id, ANONYMOUS, secret)
        again = await service.documents.get(document.id, ANONYMOUS, "key")
        assert again.expires_at < utc_now() + timedelta(seconds=document_contents.DOWNLOADED_S + 1)


@asynccontextmanager
async def with_quota(servers: Servers, characters: int) -> AsyncIterator[tuple[TranslationService, Account]]:
    """A server that needs keys, and the account of one with so many characters a month."""
    created, _ = await Keys(servers.store._database).create(Account("", "k", characters_per_month=characters))
    async with servers(auth=AuthSettings(mode="keys")) as service:
        account = service.accounts.account(created.id)
        assert account is not None
        yield service, account


async def test_a_key_pays_once_at_the_first_delivery_and_within_its_quota(servers: Servers) -> None:
    async with with_quota(servers, 2_000) as (service, mine):
        document = await create(service.documents, account=mine)
        document = await done(service.documents, document)
        assert service.accounts.usage(mine).characters == 0
        too_much = await create(service.documents, account=mine)
        assert QuotaExceeded.code in await error_of(service.documents, too_much)
        for _ in range(2):
            await text_of(service.documents, await service.documents.get(document.id, mine))
            await service.documents.contents.segments(await service.documents.get(document.id, mine))
        assert service.accounts.usage(mine).characters == document.characters > 1_000


async def test_what_documents_will_cost_counts_for_texts_too(servers: Servers) -> None:
    """Nine documents that are done and not fetched, then a text, then their results: not more than the quota."""
    text = "Can I see the old map of the city today?"
    async with with_quota(servers, 10 * len(text)) as (service, mine):

        async def translated(characters: int) -> bool:
            try:
                await service.calls.translate(TranslationRequest(("x" * characters,), "ja", "en", account=mine))
            except QuotaExceeded:
                return False
            return True

        of = service.documents
        created = [await create(of, text, account=mine) for _ in range(9)]
        ended = [await done(of, one) for one in created]
        assert [one.characters for one in ended] == [len(text)] * 9
        assert not await translated(len(text) + 1)
        await of.delete(ended.pop())
        assert await translated(2 * len(text))
        assert not await translated(1)
        late = await create(of, text, account=mine)
        assert QuotaExceeded.code in await error_of(of, late)
        for one in ended:
            (await of.contents.result(one)).file.close()
        assert service.accounts.usage(mine).characters == 10 * len(text)
    assert [one.characters for one in (await UsageLedger(servers.store._database).by_month()).values()] == [
        10 * len(text)
    ]


async def test_texts_and_documents_that_come_together_keep_a_quota_exactly(servers: Servers) -> None:
    text = "Can I see the old map of the city today?"
    async with with_quota(servers, 10 * len(text)) as (service, mine):
        of = service.documents

        async def text_of(_: int) -> int:
            try:
                await service.calls.translate(TranslationRequest((text,), "ja", "en", account=mine))
            except QuotaExceeded:
                return 0
            return 1

        async def document_of(_: int) -> int:
            try:
                ended = await done(of, await create(of, text, account=mine))
                (await of.contents.result(ended)).file.close()
            except (QuotaExceeded, InvalidRequest):
                return 0
            return 1

        count = sum(await asyncio.gather(*map(document_of, range(15)), *map(text_of, range(15))))
        count += sum([await text_of(n) for n in range(11)])  # what two that came together left
        assert count == 10
        assert service.accounts.usage(mine).characters == 10 * len(text)


async def test_segments_are_not_delivered_before_their_characters_are_counted(servers: Servers) -> None:
    async with with_quota(servers, 2_000) as (service, mine):
        created = await create(service.documents, account=mine)
        document = await done(service.documents, created)
        assert (
            await service.documents.contents.segments(created)
        ).segments == []  # the row of before, and the file of now
        await service.documents.contents.segments(document)
        assert service.accounts.usage(mine).characters == document.characters


async def test_a_server_that_comes_late_changes_no_edits(servers: Servers) -> None:
    async with servers() as service:
        of = service.documents
        document = await done(of, await create(of))
        await of.contents.edit(document, 0, "x 0")
        await of.places.main.store(document.id, [Result(0, "late", None, ()), Result(1, "late", None, ())])
        assert [one.translation for one in (await of.contents.segments(document)).segments[:2]] == ["x 0", "late"]


async def test_what_is_deleted_during_a_call_is_unknown(servers: Servers) -> None:
    async with servers() as service:
        of = service.documents
        document = await done(of, await create(of))
        await of.contents.edit(document, 0, "x 0")
        edited = await of.get(document.id, ANONYMOUS)
        await of.delete(document)
        for call in (text_of(of, edited), of.contents.edit(edited, 0, "y 0"), of.contents.all_segments(edited)):
            with pytest.raises(UnknownDocument):
                await call


async def test_an_edit_of_very_many_equal_segments_has_a_limit(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_contents, "MOST_EDITED_CHARACTERS", 2_400)
    async with servers() as service:
        of = service.documents
        document = await done(of, await create(of, "* yes\n" * 1_200, "a.md"))
        changed = await of.contents.edit(document, 0, "ja", all_equal=True)
        assert len(changed) == 1_000
        assert {one.translation for one in await of.contents.all_segments(document)} == {"ja"}
        with pytest.raises(InvalidRequest):
            await of.contents.edit(document, 0, "oui", all_equal=True)


def test_folders_are_counted_while_documents_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "A").mkdir()
    (tmp_path / "B").mkdir()
    (tmp_path / "B" / "source").write_bytes(b"12345")
    scandir = os.scandir

    def deleting(path: str) -> object:
        if Path(path).name == "A":
            (tmp_path / "A").rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", deleting)
    assert document_files._examine(tmp_path) == FolderUse(5, [])


async def test_a_key_and_the_folder_have_limits(servers: Servers) -> None:
    pipeline = HeldPipeline(kana)
    async with servers(pipeline, max_jobs_per_key=2) as service:
        pipeline.hold()
        created = [await create(service.documents) for _ in range(2)]
        with pytest.raises(QueueFull, match="of this key"):
            await create(service.documents)
        pipeline.release.set()
        assert {(await done(service.documents, one)).state for one in created} == {"done"}
        assert {Path(name).name for name in servers.files()} == {"source", "segments.db", "result-0"}
    async with servers(max_folder_bytes=100) as service:
        await until(lambda: service.documents._stored_bytes > 100, "the count of the folder")
        with pytest.raises(QueueFull, match="max_folder_bytes"):
            await create(service.documents)


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file of this process may be larger: writing fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("servers", ["folder"], indirect=True)
async def test_a_document_for_which_the_disk_is_full_goes_on_when_it_is_not(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_runs, "RETRY_S", scaled(1.0))  # long enough to be seen waiting
    text = "\n\n".join(f"Can I see number {number} of the old map?" for number in range(5_000))
    async with servers(FakePipeline(kana)) as service:
        with closing(sqlite3.connect(servers.folder / "dragoman.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the database still has space
        with files_limited_to(300_000):
            document = await create(service.documents, text)
            async with asyncio.timeout(HANG_S):
                found = document
                while not (found.state == "queued" and found.attempts):
                    await asyncio.sleep(0.01)
                    found = await servers.store.get(document.id)
                    assert found is not None
        ended = await done(service.documents, document)
        assert (ended.state, ended.segments_done) == ("done", 5_000)
        with files_limited_to(1_000), pytest.raises(DiskFull):
            await create(service.documents, b"x" * 2_000)


async def test_an_edit_is_in_the_next_result_with_the_marks_of_the_source(servers: Servers) -> None:
    async with servers() as service:
        of = service.documents
        document = await done(of, await create(of, "Can I **pay** now?\n\n* yes\n* yes\n* no\n", "a.md"))
        first = await text_of(of, document)
        for wrong in ("no mark", "<g1>x</g1> <g1>y</g1>", "<g1>x</g1><x2/>", "</g1>x<g1>"):
            with pytest.raises(InvalidRequest):
                await of.contents.edit(document, 0, wrong)
        await of.contents.edit(document, 0, "<g1>Ja</g1>!")
        assert [one.n for one in await of.contents.edit(document, 1, "Ja", all_equal=True)] == [1, 2]
        await of.contents.edit(document, 2, "Doch")
        with pytest.raises(InvalidRequest):
            await of.contents.edit(document, 4, "x")
        document = await of.get(document.id, ANONYMOUS)
        results = await asyncio.gather(*(text_of(of, document) for _ in range(3)))
        assert set(results) == {"**Ja**!\n\n* Ja\n* Doch\n* かな\n"}
        assert first == "かな かな **かな** かな?\n\n* かな\n* かな\n* かな\n"
        assert [one.edited for one in await of.contents.all_segments(document)] == [True, True, True, False]


async def test_a_result_that_is_open_stays_while_later_ones_are_built_or_it_is_deleted(servers: Servers) -> None:
    async with servers() as service:
        of = service.documents
        document = await done(of, await create(of))
        found = list[BinaryIO]()
        for number in range(4):
            await of.contents.edit(document, 0, f"x {number}")
            found.append((await of.contents.result(await of.get(document.id, ANONYMOUS))).file)
        assert sum("result-" in name for name in servers.files()) <= 1
        await of.delete(document)
        for number, file in enumerate(found):
            with file:
                assert file.read().decode().startswith(f"x {number}\n")


async def test_doubtful_segments_are_found_until_they_are_edited(servers: Servers) -> None:
    def answer(sequence: EngineSequence) -> str:
        return source_of(sequence) if "old" in source_of(sequence) else kana(sequence)  # a copy of the source

    async with servers(FakePipeline(answer)) as service:
        of = service.documents
        text = "Can I see it now, please?\n\nThe old map of it is here.\n\nCan I pay now?\n"
        options = replace(JA, options=Options(formality="more"))
        document = await done(of, await create(of, text, options=options))
        page = await of.contents.segments(document, doubtful=True)
        assert (document.doubtful, page.total, page.doubtful_total) == (1, 1, 1)
        assert [(one.n, one.warnings[0]["code"]) for one in page.segments] == [(1, "source_copied")]
        assert '"formality_ignored"' in document.report  # once, and not with each segment
        await of.contents.edit(document, 1, "かな")
        assert (await of.get(document.id, ANONYMOUS)).doubtful == 0
        assert (await of.contents.segments(document, doubtful=True)).total == 0


async def test_alternatives_differ_from_the_translation_and_from_each_other(servers: Servers) -> None:
    def answer(sequence: EngineSequence) -> str:
        seed = sequence.sampling.seed
        return kana(sequence) if seed is None else kana(sequence).replace("かな", ("かな", "ねこ", "いぬ")[seed % 3])

    async with servers(FakePipeline(answer)) as service:
        of = service.documents
        document = await done(of, await create(of, "Can I **pay**?\n", "a.md"))
        found = await of.contents.alternatives(document, 0, 3, ANONYMOUS)
        assert {one.text for one in found} == {"ねこ ねこ <g1>ねこ</g1>?", "いぬ いぬ <g1>いぬ</g1>?"}
        assert len(await of.contents.alternatives(document, 0, 1, ANONYMOUS)) == 1
        await of.contents.edit(document, 0, "いぬ いぬ <g1>いぬ</g1>?")  # then the model's own is another
        found = await of.contents.alternatives(document, 0, 3, ANONYMOUS)
        assert {one.text for one in found} == {"かな かな <g1>かな</g1>?", "ねこ ねこ <g1>ねこ</g1>?"}


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"worker_timeout_s": 1.0}, "longer"),
        ({"worker_memory_bytes": 110_000_000}, "memory"),
        ({"max_characters": 9}, "9"),
    ],
)
async def test_a_file_beyond_a_workers_limits_is_an_error_and_the_server_goes_on(
    servers: Servers, limits: dict[str, float], reason: str
) -> None:
    limits = {name: scaled(limit) if name == "worker_timeout_s" else limit for name, limit in limits.items()}
    async with servers(**limits) as service:
        large = "".join(f"* Can *I* see [number {number}](a) of the `old` map?\n" for number in range(20_000))
        message = await error_of(service.documents, await create(service.documents, large, "a.md"))
        assert message.startswith(InvalidFile.code)
        assert reason in message
        assert str(servers.folder) not in message
        small = await done(service.documents, await create(service.documents, "Can I?"))
        assert small.state == "done"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../../etc/a.TXT", "a.TXT"),
        ("C:\\x\\ä b.md", "ä b.md"),
        ("a\x00\n\u202eb.txt", "ab.txt"),
        (f"{'x' * 300}.docx", f"{'x' * 95}.docx"),
        (".txt", ".txt"),
        ("", ""),
    ],
)
def test_a_name_is_never_a_path(given: str, name: str) -> None:
    assert clean_name(given) == name


# ---- damaged storage, deletion, and a document's terms


def change(servers: Servers, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(servers.folder / "dragoman.db")) as connection, connection:
        connection.execute(statement, values)


def damage(servers: Servers, document: StoredDocument, what: str) -> None:
    """Destroy a part of what is stored of a document."""
    folder = servers.folder / "documents" / document.id
    if what in ("report", "options"):
        change(servers, f"UPDATE documents SET {what} = '[]' WHERE id = ?", document.id)
    elif servers.of_documents == "database":
        table = {"source": "document_chunks", "segments": "document_segments"}[what]
        change(servers, f"DELETE FROM {table}")
    elif what == "source":
        (folder / "source").unlink()
    else:
        (folder / "segments.db").write_bytes(b"junk" * 5_000)


@pytest.mark.parametrize("what", ["report", "options", "source", "segments"])
async def test_damaged_storage_is_an_error_of_that_document_alone(servers: Servers, what: str) -> None:
    async with servers() as service:
        of = service.documents
        document = await done(of, await create(of))
        await of.contents.edit(document, 0, "x 0")  # so that the result is to be built again
        damage(servers, document, what)
        other = await done(of, await create(of, OTHER_TEXT))
        with pytest.raises(DocumentLost):
            await of.contents.result(await of.get(document.id, ANONYMOUS))
        with pytest.raises(DocumentLost):
            await of.contents.all_segments(await of.get(document.id, ANONYMOUS))
        shown = {one.id: one for one in await of.list(ANONYMOUS)}
        assert (shown[document.id].state, shown[document.id].error_code) == ("error", DocumentLost.code)
        assert (shown[other.id].state, shown[other.id].error_code) == ("done", None)
        assert await text_of(of, other) == re.sub("[A-Za-z]+", "かな", OTHER_TEXT)
        await of.delete(await of.get(document.id, ANONYMOUS))
        assert {name.partition("/")[0] for name in servers.files()} == {other.id}


async def test_a_document_whose_source_is_gone_before_it_is_read_is_lost(servers: Servers) -> None:
    pipeline = HeldPipeline(kana)
    async with servers(pipeline, max_running=1) as service:
        pipeline.hold()
        await create(service.documents)
        waiting = await create(service.documents)
        damage(servers, waiting, "source")
        pipeline.release.set()
        assert DocumentLost.code in await error_of(service.documents, waiting)


async def test_a_document_is_deleted_as_far_as_can_be_while_the_database_cannot_be_written(servers: Servers) -> None:
    async with servers() as service:
        of = service.documents
        document = await done(of, await create(of))
        past = utc_now() + timedelta(minutes=1)
        await servers.store.update(document.id, expires_at=past)  # asking for it would move that
        with files_limited_to(1):
            found = await of.get(document.id, ANONYMOUS)
            with pytest.raises(StorageUnavailable):
                await of.delete(found)
        if servers.of_documents == "folder":
            assert not (servers.folder / "documents" / document.id).exists()
        await of.delete(await of.get(document.id, ANONYMOUS))
        assert servers.files() == set()


async def test_deletions_that_race_downloads_end_them_or_are_unknown(servers: Servers) -> None:
    async with servers() as service:
        of = service.documents
        for _ in range(5):
            document = await done(of, await create(of))
            await of.contents.edit(document, 0, "x 0")
            document = await of.get(document.id, ANONYMOUS)
            calls = [text_of(of, document) for _ in range(6)] + [
                of.contents.all_segments(document),
                of.contents.segments(document),
            ] * 2
            deletion = of.delete(document)
            found = await asyncio.gather(*calls[:4], deletion, *calls[4:], return_exceptions=True)
            faults = [one for one in found if isinstance(one, BaseException)]
            assert all(isinstance(one, UnknownDocument) for one in faults), faults


async def test_locks_of_what_failed_are_not_kept(servers: Servers) -> None:
    async with servers() as service:
        of = service.documents
        document = await done(of, await create(of))
        await of.contents.edit(document, 0, "x 0")
        damage(servers, document, "source")
        with pytest.raises(DocumentLost):
            await of.contents.result(await of.get(document.id, ANONYMOUS))
        assert (of.contents._building._locks, of.contents._editing._locks) == ({}, {})


async def test_edits_of_one_document_take_turns_without_threads(servers: Servers) -> None:
    async with servers() as service:
        of = service.documents
        document = await done(of, await create(of, "* yes\n" * 200, "a.md"))
        other = await done(of, await create(of))
        async with of.contents._editing.of(document.id):  # as one edit that takes long
            edits = [asyncio.create_task(of.contents.edit(document, n, f"x{n}", all_equal=True)) for n in range(16)]
            await of.contents.edit(other, 0, "x 0")
            assert (await of.contents.segments(document)).segments[0].translation == "かな"
            assert not any(one.done() for one in edits)
        await asyncio.gather(*edits)
        found = await of.get(document.id, ANONYMOUS)
        assert found.edits == 16
        assert len({one.translation for one in await of.contents.all_segments(found)}) == 1


@pytest.mark.parametrize("source", ["en", None])
async def test_a_document_has_the_terms_that_its_glossary_had_at_its_upload(
    servers: Servers, source: str | None
) -> None:
    pipeline = HeldPipeline(kana)
    async with servers(pipeline, max_running=1) as service:
        of, glossaries = service.documents, service.glossaries
        made = await glossaries.create(ANONYMOUS.id, "g", {("en", "ja"): {"map": "地図"}, ("ko", "ja"): {"지도": "x"}})
        pipeline.hold()
        first = await create(of)
        options = DocumentOptions("ja", source, glossary="g")
        waiting = await create(of, "Can I see the map of the old city now, please?\n", options=options)
        await glossaries.replace(ANONYMOUS.id, "g", "en", "ja", {"map": "マップ"})
        await glossaries.delete(ANONYMOUS.id, made.id)
        pipeline.release.set()
        assert {(await done(of, one)).state for one in (first, waiting)} == {"done"}
        assert "地図" in await text_of(of, await of.get(waiting.id, ANONYMOUS))


async def test_terms_are_beside_the_file_and_compiled_once(servers: Servers) -> None:
    async with servers() as service:
        of = service.documents
        terms = {f"term {n}": f"語{n}" for n in range(3_000)}
        for _ in range(2):
            document = await done(
                of, await create(of, "Can I see term 7 now?\n", options=replace(JA, options=Options(glossary=terms)))
            )
            assert "語7" in await text_of(of, document)
        assert len(await servers.store.options(document.id) or "") < 1_000
        assert len(service.calls.translator.planner._glossaries) == 1


@pytest.mark.parametrize("terms", [{"map": "地図"}, "g"])
async def test_a_queued_row_of_an_older_version_runs_with_its_terms(servers: Servers, terms: object) -> None:
    pipeline = HeldPipeline(kana)
    async with servers(pipeline, max_running=1) as service:
        of = service.documents
        await service.glossaries.create(SERVER, "g", {("en", "ja"): {"map": "地図"}})
        pipeline.hold()
        await create(of)
        waiting = await create(of, "Can I see the map?\n")
        stored = json.loads(await servers.store.options(waiting.id) or "")
        del stored["has_terms"]
        stored["glossary"] = terms
        change(servers, "UPDATE documents SET options = ? WHERE id = ?", json.dumps(stored), waiting.id)
        pipeline.release.set()
        assert "地図" in await text_of(of, await done(of, waiting))


# ---- places


async def test_a_folder_of_its_own_beside_one_of_a_server_that_lives_is_refused(tmp_path: Path) -> None:
    made = Servers(tmp_path, "folder")
    await made.store._database.open()
    async with made() as service:
        await made.store.report_server("other", "folder-other")
        with pytest.raises(ConfigError, match=r"documents\.store"):
            await service.documents.places.open()
        await made.store.date_server("other", utc_now() - timedelta(minutes=1))
        await service.documents.places.open()
    await made.store._database.close()


async def test_documents_of_a_folder_go_into_the_database_with_their_edits_and_results(tmp_path: Path) -> None:
    made = Servers(tmp_path, "folder")
    await made.store._database.open()
    pipeline = HeldPipeline(kana)
    async with made(pipeline) as service:
        of = service.documents
        edited = await done(of, await create(of))
        await of.contents.edit(edited, 0, "x 0")
        edited = await of.get(edited.id, ANONYMOUS)
        await text_of(of, edited)
        pipeline.hold()
        waiting = await create(of, OTHER_TEXT)
        await until(lambda: pipeline.generations > 0, "the first text")
    await made.store.update(edited.id, place="")  # as an older version left it
    made.of_documents = "database"
    async with made() as service:
        of = service.documents
        moved = await done(of, waiting)
        assert (moved.place, moved.state) == ("database", "done")
        assert await text_of(of, moved) == re.sub("[A-Za-z]+", "かな", OTHER_TEXT)
        again = await of.get(edited.id, ANONYMOUS)
        assert again.place == "database"
        assert (await text_of(of, again)).startswith("x 0\n")
        assert [one.edited for one in (await of.contents.segments(again)).segments[:2]] == [True, False]
        assert not [*tmp_path.glob("documents/*/source")]
    await made.store._database.close()


async def test_documents_whose_folder_nobody_has_are_lost_until_a_server_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Servers(tmp_path, "folder")
    await made.store._database.open()
    async with with_quota(made, 10_000) as (service, mine):
        of = service.documents
        document = await done(of, await create(of, account=mine))
        await made.store.update(document.id, place="folder-elsewhere")
        (tmp_path / "documents" / document.id).rename(tmp_path / "elsewhere")
        with pytest.raises(Unavailable):
            await of.contents.result(await of.get(document.id, mine))
        await of._sweep()
        lost = await of.get(document.id, mine)
        assert (lost.state, lost.error_code) == ("error", DocumentLost.code)
        with pytest.raises(DocumentLost):
            await of.contents.segments(lost)
        assert service.accounts.usage(mine).characters == 0
        (tmp_path / "elsewhere").rename(tmp_path / "documents" / document.id)
        await of._sweep()
        found = await of.get(document.id, mine)
        assert (found.state, found.error_code) == ("done", None)
        assert await text_of(of, found) == re.sub("[A-Za-z]+", "かな", TEXT)
    await made.store._database.close()


# ---- what people have edited is an example for what is translated afterwards

LINES = "The first room is free.\n\nThe second room is free.\n\nThe third room is free.\n\nWhere did all the people go?"


class Learning(FakePipeline):
    """Answers in kana, and after examples with the word of the last one's translation; `given` are the turns of all prompts."""

    def __init__(self) -> None:
        super().__init__(self.answered)
        self.given: list[list[str]] = []

    def answered(self, sequence: EngineSequence) -> str:
        turns = turns_of(sequence)
        self.given.append(turns)
        word = turns[-2].split("の")[0] if len(turns) > 1 else "かな"
        return re.sub(r"[A-Za-z]+", word, turns[-1])


async def test_alternatives_have_the_edits_of_the_document_as_examples(servers: Servers) -> None:
    pipeline = Learning()
    async with servers(pipeline, encoder=encoder_of_turns()) as server:
        of = server.documents
        document = await done(of, await create(of, LINES))
        assert {len(turns) for turns in pipeline.given} == {1}
        await of.contents.edit(document, 0, "へやのいち")
        await of.contents.edit(document, 3, "ひとのどこ")
        pipeline.given.clear()
        [other] = await of.contents.alternatives(document, 1, 1, ANONYMOUS)
        examples = ["Where did all the people go?", "ひとのどこ", "The first room is free.", "へやのいち"]
        assert {tuple(turns) for turns in pipeline.given} == {(*examples, "The second room is free.")}
        assert "へや" in other.text
        await of.contents.alternatives(document, 0, 1, ANONYMOUS)  # its own edit is no example
        assert pipeline.given[-1] == [*examples[:2], "The first room is free."]


async def test_segments_similar_to_an_edited_one_are_translated_again_after_it(
    servers: Servers,
) -> None:
    pipeline = Learning()
    async with servers(pipeline, encoder=encoder_of_turns()) as server:
        of = server.documents
        document = await done(of, await create(of, LINES))
        with pytest.raises(InvalidRequest, match="not edited"):
            await of.contents.translate_similar(document, 0, ANONYMOUS)
        await of.contents.edit(document, 0, "へやのいち")
        await of.contents.edit(document, 2, "へやのさん")
        before = await text_of(of, document)
        changed = await of.contents.translate_similar(document, 0, ANONYMOUS)
        assert [(one.n, one.edited, "へや" in (one.translation or "")) for one in changed] == [(1, False, True)]
        assert [(one.examples > 0, one.best_similarity) for one in changed] == [(True, None)]
        document = await of.get(document.id, ANONYMOUS)
        segments = await of.contents.all_segments(document)
        assert [one.edited for one in segments] == [True, False, True, False]
        assert segments[2].translation == "へやのさん" and "かな" in (segments[3].translation or "")
        after = await text_of(of, document)
        assert (changed[0].translation or "") in after != before
        assert await of.contents.translate_similar(document, 0, ANONYMOUS) == []  # they are as they would be


async def test_an_edit_is_itself_an_example_for_the_segments_similar_to_it(servers: Servers) -> None:
    pipeline = Learning()
    async with servers(pipeline, encoder=encoder_of_turns()) as server:
        of = server.documents
        document = await done(of, await create(of, LINES))
        await of.contents.edit(document, 0, "へやのいち")
        changed = await of.contents.translate_similar(document, 0, ANONYMOUS)
        assert [(one.n, "へや" in (one.translation or "")) for one in changed] == [(1, True), (2, True)]
        assert pipeline.given[-1][:2] == ["The first room is free.", "へやのいち"]


async def test_a_doubtful_translation_of_a_similar_segment_does_not_replace_the_one_there_is(
    servers: Servers,
) -> None:
    edited = list[str]()
    pipeline = FakePipeline(lambda sequence: "" if edited else kana(sequence))
    async with servers(pipeline, encoder=encoder_of_turns()) as server:
        of = server.documents
        document = await done(of, await create(of, LINES))
        before = [one.translation for one in await of.contents.all_segments(document)]
        edited.append("へや")
        await of.contents.edit(document, 0, edited[0])
        assert await of.contents.translate_similar(document, 0, ANONYMOUS) == []
        assert [one.translation for one in await of.contents.all_segments(document)] == [*edited, *before[1:]]


async def test_a_model_that_takes_no_examples_translates_no_similar_segments(servers: Servers) -> None:
    async with servers() as server:
        of = server.documents
        document = await done(of, await create(of, LINES))
        await of.contents.edit(document, 0, "へや")
        with pytest.raises(InvalidRequest, match="no place for examples"):
            await of.contents.translate_similar(document, 0, ANONYMOUS)
