"""Install the clients, start one server with the packaged model and keys, run every cell, and write the results.

    python -m tests.clients --out results/clients.json
    python -m tests.clients --only deepl,openai        # prints what happened, writes nothing

The environments are kept in `.dragoman/clients`, one for each set of pinned packages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from dragoman import __version__
from tests.clients.files import write_all
from tests.processes import ServerProcess, create_key, revoke_key
from tests.uv import environment_with

HERE = Path(__file__).parent
CACHE = Path(".dragoman/clients")
TEXTS = (
    "Where is the train station?",
    "Good morning.",
    "Thank you very much.",
    "Can I pay by credit card?",
    "I am a student.",
    "What time is it?",
    "The weather is nice today.",
    "Please help me.",
)
KNOWN = "駅はどこですか？"
TARGETS = ("ja", "ko")
CLIENT_TIMEOUT_S = 300
SMALL_QUOTA = 10  # characters a month: fewer than any text of the cells has
FEW_REQUESTS_PER_S = 0.001


@dataclass(frozen=True)
class Client:
    """An entry of clients.toml."""

    id: str
    title: str
    runs: str
    script: str
    packages: list[str] = field(default_factory=list)
    reproduces: str = ""  # the version of a program whose requests the script sends; it was not run itself


@dataclass(frozen=True)
class Server:
    """A running server, its good keys, and the keys that it refuses, by reason."""

    url: str
    key: str
    operator_key: str
    refused: dict[str, str]


def clients() -> list[Client]:
    """All entries of clients.toml."""
    table = tomllib.loads((HERE / "clients.toml").read_text())
    return [Client(**entry) for entry in table["client"]]


def command_of(client: Client) -> list[str]:
    """The client's command line; its packages are installed where they are not yet."""
    script = HERE / "cells" / client.script
    if client.runs == "here":
        return [sys.executable, str(script)]
    if client.runs == "java":
        return ["java", str(script)]
    folder = (CACHE / client.id).absolute()
    marker = folder / "installed.txt"
    wanted = "\n".join(client.packages)
    if not marker.exists() or marker.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            if client.runs == "python":
                environment_with(folder, *client.packages)
            else:
                subprocess.run(["npm", "install", "--silent", "--prefix", folder, *client.packages], check=True)
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{client.title} was not installed") from error
        marker.write_text(wanted)
    if client.runs == "python":
        return [str(folder / "bin/python"), str(script)]
    for source in (HERE / "cells").glob("*.cjs"):  # Node looks for packages beside the script
        shutil.copy(source, folder)
    return ["node", str(folder / client.script)]


@contextmanager
def serving(*flags: str) -> Iterator[Server]:
    """`dragoman serve` with the packaged model, which needs keys."""
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/dragoman.db"

        def key(name: str, **limits: Any) -> str:
            return asyncio.run(create_key(storage, name, **limits))

        good, operator = key("clients"), key("operator", role="operator")
        refused = {
            "wrong": "drg_wrong",
            "revoked": key("revoked"),
            "over quota": key("over-quota", characters_per_month=SMALL_QUOTA),
            "rate-limited": key("rate-limited", requests_per_s=FEW_REQUESTS_PER_S),
        }
        asyncio.run(revoke_key(storage, "revoked"))
        with ServerProcess(Path(folder), "--auth=keys", f"--storage-url={storage}", *flags) as process:
            yield Server(asyncio.run(process.listening()), good, operator, refused)
            asyncio.run(process.end())


def expected(server: Server) -> dict[str, list[str]]:
    """The native API's translations, with which those of the clients are compared. Uses up the rate-limited key."""
    found: dict[str, list[str]] = {}
    for target in TARGETS:
        body = {"text": list(TEXTS), "source": "en", "target": target}
        answer = httpx.post(f"{server.url}/v1/translate", json=body, headers={"X-API-Key": server.key}, timeout=60)
        found[target] = [one["text"] for one in answer.raise_for_status().json()["translations"]]
    headers = {"X-API-Key": server.refused["rate-limited"]}
    httpx.post(f"{server.url}/v1/translate", json={"text": "a", "target": "ja"}, headers=headers, timeout=60)
    return found


def run(client: Client, server: Server, translations: dict[str, list[str]]) -> dict[str, Any]:
    """The client's cells and what it raises for refused keys."""
    environment = os.environ | {
        "CLIENT_URL": server.url,
        "CLIENT_KEY": server.key,
        "CLIENT_REFUSED_KEYS": json.dumps(server.refused),
        "CLIENT_TEXTS": json.dumps(TEXTS),
        "CLIENT_EXPECTED": json.dumps(translations),
        "CLIENT_CHECK": json.dumps(
            ["env", f"PYTHONPATH={HERE.parents[1]}", sys.executable, "-m", "tests.clients.files"]
        ),
        "PYTHONPATH": str(HERE / "cells"),
    }
    failure, output = None, ""
    with tempfile.TemporaryDirectory() as folder:
        write_all(Path(folder), TEXTS)
        environment["CLIENT_FILES"] = folder
        try:
            done = subprocess.run(
                command_of(client), env=environment, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S
            )
            output = done.stdout
            if done.returncode:
                failure = f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"
        except subprocess.TimeoutExpired as late:
            output = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
            failure = f"not finished after {CLIENT_TIMEOUT_S} s"
    for name, key in server.refused.items():
        output = output.replace(key, f"({name} key)")
    lines = [json.loads(line.removeprefix("CELL ")) for line in output.splitlines() if line.startswith("CELL ")]
    refusals = [line for line in lines if "refused" in line]
    cells = [line for line in lines if "column" in line]
    if failure is not None or not cells:
        cells.append({"column": "errors", "title": "the script ran to its end", "reason": failure or "no cell"})
    return {**asdict(client), "cells": cells, "refusals": refusals}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="ids of clients, separated by commas")
    parser.add_argument("--out", type=Path, help="results file")
    options = parser.parse_args()
    chosen = [one for one in clients() if not options.only or one.id in options.only.split(",")]
    for client in chosen:
        command_of(client)
    with serving() as server:
        translations = expected(server)
        if translations["ja"][0] != KNOWN:
            raise SystemExit(f"the packaged model translates {TEXTS[0]!r} as {translations['ja'][0]!r}")
        found = [run(client, server, translations) for client in chosen]
    results = {
        "command": "make clients",
        "version": __version__,
        "python": platform.python_version(),
        "java": _java_version(),
        "node": subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip(),
        "clients": found,
    }
    failed = _print(found)
    if options.out:
        options.out.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    raise SystemExit(1 if failed else 0)


def _java_version() -> str:
    """Such as `17.0.15`."""
    shown = subprocess.run(["java", "--version"], capture_output=True, text=True).stdout
    return shown.split()[1]


def _print(found: list[dict[str, Any]]) -> int:
    failed = 0
    for client in found:
        bad = [one for one in client["cells"] if one["reason"]]
        failed += len(bad)
        print(f"{client['title']}: {len(client['cells']) - len(bad)} of {len(client['cells'])}")
        for one in bad:
            print(f"    {one['column']}: {one['title']}: {one['reason']}")
        for one in client["refusals"]:
            print(f"    a key that is {one['refused']}: {one['raises']}: {one['message'][:100]}")
    return failed


if __name__ == "__main__":
    main()
