"""Documents of two servers that share a PostgreSQL database and nothing else, as pods on two hosts do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.test_documents import FLAGS, PARAGRAPHS, documents_when, segments_done, text_of, upload
from tests.processes import ServerProcess, serving
from tests.storage.conftest import new_database, postgres_url
from wholetext.markup.spans import pseudolocalized

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

__all__ = ["postgres_url"]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_database(request, tmp_path, "postgresql")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The folders in which two servers run, each with documents' folder of its own."""
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    yield folders


def translated(number: int) -> str:
    return "\n\n".join(map(pseudolocalized, text_of(number).rstrip("\n").split("\n\n"))) + "\n"


async def deepl_status(http: httpx.AsyncClient, handle: dict[str, str]) -> dict[str, Any]:
    answer = await http.post(f"/v2/document/{handle['document_id']}", json={"document_key": handle["document_key"]})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_every_server_answers_for_all_documents_also_for_those_of_one_that_was_killed(
    url: str, hosts: tuple[Path, Path]
) -> None:
    flags = (*FLAGS, f"--storage-url={url}", "--documents-max-running=2")
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(serving(host, *flags)) for host in hosts]
        clients = (httpx.AsyncClient(base_url=one.url, timeout=60) for one in (first, second))
        one, other = [await stack.enter_async_context(client) for client in clients]

        libre = await one.post(
            "/translate_file", data={"source": "en", "target": "ja"}, files={"file": ("l.txt", text_of(9).encode())}
        )
        address = httpx.URL(libre.json()["translatedFileUrl"]).path
        ids = [await upload(one, number) for number in range(3)]
        handle = (
            await one.post(
                "/v2/document",
                data={"source_lang": "EN", "target_lang": "JA"},
                files={"file": ("d.txt", text_of(4).encode())},
            )
        ).json()
        ids += [handle["document_id"]]
        await documents_when(other, segments_done(2 * PARAGRAPHS))
        assert (await deepl_status(other, handle))["status"] in ("queued", "translating", "done")
        shown = (await other.get(f"/v1/documents/{ids[0]}/segments")).json()
        assert shown["segments"] == [] or len(shown["segments"]) == PARAGRAPHS

        first.process.send_signal(signal.SIGKILL)
        await first.ended()
        await documents_when(other, lambda found: {one["state"] for one in found} == {"done"})
        for number, id in zip((0, 1, 2, 4), ids, strict=True):
            answer = await other.get(f"/v1/documents/{id}")
            assert (answer.json()["segments_done"], answer.json()["error"]) == (PARAGRAPHS, None)
            if id != handle["document_id"]:
                assert (await other.get(f"/v1/documents/{id}/result")).text == translated(number)
        assert (await deepl_status(other, handle))["billed_characters"] > 0
        path, key = f"/v2/document/{handle['document_id']}/result", {"document_key": handle["document_key"]}
        assert (await other.post(path, json=key)).text == translated(4)
        assert (await other.get(address)).text == translated(9)

        edited = await other.patch(f"/v1/documents/{ids[0]}/segments/1", json={"translation": "別の文"})
        assert edited.json()["segments"][0]["edited"] is True
        third = await stack.enter_async_context(
            serving(hosts[0], *flags)
        )  # the killed one's folder, and its next start
        again = await stack.enter_async_context(httpx.AsyncClient(base_url=third.url, timeout=60))
        assert (await again.get(f"/v1/documents/{ids[0]}/result")).text.split("\n\n")[1] == "別の文"
        assert "別の文" in (await again.get(f"/v1/documents/{ids[0]}/result?format=tmx")).text
        assert (await again.delete(f"/v1/documents/{ids[0]}")).status_code == 204
        assert (await other.get(f"/v1/documents/{ids[0]}/result")).status_code == 404
        assert not [*hosts[1].glob(".dragoman/documents/[uw]*/*")]


async def test_documents_of_a_folder_are_moved_into_the_database_and_those_of_no_folder_are_lost(
    url: str, hosts: tuple[Path, Path], tmp_path: Path
) -> None:
    flags = (*FLAGS, f"--storage-url={url}")
    async with serving(hosts[0], *flags, "--documents-store=folder") as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            id = await upload(http, 0)
            await documents_when(http, segments_done(PARAGRAPHS))
            await documents_when(http, lambda found: found[0]["state"] == "done")
            await http.patch(f"/v1/documents/{id}/segments/1", json={"translation": "別の文"})
        with ServerProcess(hosts[1], "--pipeline=fake", *flags, "--documents-store=folder") as another:
            assert await another.ended() == 2
            assert "documents.store" in another.output
            assert "Traceback" not in another.output
    async with serving(hosts[1], *flags) as server, httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        assert (await http.get(f"/v1/documents/{id}/result")).status_code == 503
        [lost] = await documents_when(http, lambda found: found[0]["state"] == "error")
        assert lost["error"]["code"] == "document_lost"
        assert (await http.get(f"/v1/documents/{id}/result")).json()["error"]["code"] == "document_lost"
        async with serving(hosts[0], *flags) as owner, httpx.AsyncClient(base_url=owner.url, timeout=60):
            await documents_when(http, lambda found: found[0]["state"] == "done")
            async with asyncio.timeout(60):
                while (answer := await http.get(f"/v1/documents/{id}/result")).status_code == 503:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)  # it is on its way
            assert answer.text.split("\n\n")[1] == "別の文"
            assert not [*hosts[0].glob(".dragoman/documents/*/source")]
