"""Databases to test on: a SQLite file, and a PostgreSQL server of its own where its programs are found."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.storage.database import Database
from dragoman.storage.glossaries import Glossaries
from tests.waiting import HANG_S


def _programs() -> Path | None:
    """The folder of PostgreSQL's programs; Debian does not put them on PATH."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *os.environ["PATH"].split(os.pathsep)]
    return next((Path(folder) for folder in folders if Path(folder, "initdb").is_file()), None)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A new PostgreSQL server for the run. It does not run as root, so root starts it as the user `postgres`."""
    programs = _programs()
    if programs is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed: apt-get install postgresql")
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are root's alone
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [programs / program, *arguments],
            check=True,
            cwd=folder,
            timeout=HANG_S,
            stdout=subprocess.DEVNULL,
            user=user,
        )

    run("initdb", "-D", str(data), "-U", "dragoman", "-A", "trust", "-E", "UTF8", "--locale=C")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    run("pg_ctl", "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        yield f"postgresql://dragoman@127.0.0.1:{port}"
    finally:
        run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.acceptance)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    return new_database(request, tmp_path, request.param)


def new_database(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> str:
    """An empty database of a kind."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/folder/glossaries.db"
    server: str = request.getfixturevalue("postgres_url")
    import psycopg

    name = f"d{tmp_path.name}".replace("-", "_").lower()
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
    return f"{server}/{name}"


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(url)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def glossaries(database: Database) -> Glossaries:
    return Glossaries(database)
