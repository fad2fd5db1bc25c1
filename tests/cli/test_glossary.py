"""`dragoman glossary` against a server in the test's own event loop."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from dragoman.cli.glossary import command
from dragoman.errors import ConfigError
from dragoman.pipelines.fake import FakePipeline
from dragoman.storage.database import Database
from tests.serving import echoing, served, service_over

EN_DE = ("--from", "en", "--to", "de")


async def run(client: httpx.AsyncClient, *arguments: str, text: str | None = None) -> str:
    """What the command prints; it runs in a thread, because the server runs in this one."""

    def invoke() -> str:
        found = CliRunner().invoke(command, [*arguments, "--url", str(client.base_url)], input=text)
        if found.exception is not None:
            raise found.exception
        return found.output

    return await asyncio.to_thread(invoke)


async def test_a_glossary_from_a_file_to_a_file(tmp_path: Path) -> None:
    table, exported = tmp_path / "terms.csv", tmp_path / "out.tsv"
    table.write_text('queue,"Schlange, warten"\nserver,Server\n')
    database = Database(f"sqlite:///{tmp_path}/dragoman.db")
    async with served(service_over(FakePipeline(echoing()), database=database)) as client:
        glossary = (await run(client, "create", "IT terms")).strip()
        assert await run(client, "import", "IT terms", str(table), *EN_DE) == "version 2\n"
        assert await run(client, "import", glossary, "-", "--add", *EN_DE, text="cache\tCache\n") == "version 3\n"
        await run(client, "export", "IT terms", *EN_DE, "-o", str(exported))
        assert exported.read_text() == "cache\tCache\nqueue\tSchlange, warten\nserver\tServer\n"
        assert json.loads(await run(client, "export", glossary, *EN_DE, "--format", "json"))["version"] == 3
        assert "en>de: 3" in await run(client, "list")
        await run(client, "delete", glossary, *EN_DE)
        [left] = json.loads(await run(client, "list", "--json"))["glossaries"]
        assert (left["id"], left["dictionaries"]) == (glossary, [])
        await run(client, "delete", "IT terms")
        assert json.loads(await run(client, "list", "--json")) == {"glossaries": []}
        with pytest.raises(ConfigError, match="no glossary"):
            await run(client, "export", "IT terms", *EN_DE)


def test_what_cannot_be_done_is_said_without_a_traceback(tmp_path: Path) -> None:
    for arguments in (
        ["list", "--url", "http://127.0.0.1:9"],
        ["import", "g", str(tmp_path / "none"), *EN_DE],
        ["delete", "g", "--from", "en"],
    ):
        assert isinstance(CliRunner().invoke(command, arguments).exception, ConfigError)
