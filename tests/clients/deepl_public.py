"""The tests that DeepL publishes with its Python client, against our server.

    git clone https://github.com/DeepLcom/deepl-python
    python -m tests.clients.deepl_public --tests deepl-python --out results/deepl-public.json
    python -m tests.clients.page

They are not part of this repository. `deepl_public.toml` explains those that do not pass.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import os
import queue
import re
import subprocess
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dragoman import languages, phrasebook
from dragoman.engine.spec import resolve
from dragoman.pipelines.fake import FakePipeline
from dragoman.service.service import TranslationService
from dragoman.service.stack import account_store, choose_model, load_prompts
from dragoman.settings import AuthSettings, ModelSettings, Settings, StorageSettings
from dragoman.storage.database import Database
from dragoman.types import Account, Sequence
from tests.clients.__main__ import HERE, Client, Server, command_of
from tests.serving import served

PACKAGES = ["deepl==1.32.0", "pytest<9", "pydantic<2", "typing_extensions", "keyring", "click"]
OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR)[ ]+(\S+)(?:[ ]+(.*))?$", re.MULTILINE)
SKIPPED = re.compile(r"^SKIPPED \[(\d+)\]", re.MULTILINE)

PROFILE = """
name = "deepl-languages"
title = "A fake model with the languages of DeepL's tests"
mode = "raw"
wire = "{{user}}"
stop_tokens = ["<|eos|>"]
max_source_tokens = 256
licence = "Apache-2.0"

[[templates]]
text = "{{target_code}}|{{text}}|{{instructions}}"

[[templates]]
text = "{{target_code}}|{{text}}"

[sampling]
temperature = 0.0

[languages]
{languages}
"""


def examples(folder: Path) -> dict[str, str]:
    """The tests' example text in each language, by which they recognise a translation."""
    for node in ast.parse((folder / "tests/conftest.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "example_text":
            return ast.literal_eval(node.value)
    raise SystemExit(f"{folder}/tests/conftest.py has no example_text")


@contextmanager
def serving_examples(folder: Path) -> Iterator[Server]:
    """This server with keys, over a fake model that answers in each language with the example text, as DeepL's own mock
    server does. It runs in a thread."""
    texts = examples(folder)
    with tempfile.TemporaryDirectory() as temporary:
        tags = sorted({languages.normalise(code) for code in texts})
        names = "\n".join(f"{json.dumps(tag)} = {json.dumps(languages.name(tag))}" for tag in tags)
        profile = Path(temporary, "profile.toml")
        profile.write_text(PROFILE.format(languages=names))
        by_tag = {languages.normalise(code): text for code, text in texts.items()}
        ready: queue.Queue[Server] = queue.Queue()
        stop = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(_serve(profile, by_tag, ready, stop)))
        thread.start()
        try:
            yield ready.get(timeout=120)
        finally:
            stop.set()
            thread.join()


async def _serve(profile: Path, texts: dict[str, str], ready: queue.Queue[Server], stop: threading.Event) -> None:
    settings = Settings(
        model=ModelSettings(profile_file=str(profile)),
        auth=AuthSettings(mode="keys"),
        storage=StorageSettings(f"sqlite:///{profile.parent}/dragoman.db"),
    )
    database = Database(settings.storage.url)
    await database.open()
    _, key = await account_store(database).keys.create(Account("", "clients"))
    model = choose_model(settings.model)
    tokenizer = Tokenizer.from_file(str(phrasebook.model_dir() / "tokenizer.json"))

    def answer(sequence: Sequence) -> str:
        target = tokenizer.decode(list(sequence.prompt_token_ids)).partition("|")[0].strip()
        return texts.get(target, texts[languages.normalise("EN")])

    engine = replace(settings.engine, max_num_seqs=32)
    spec = resolve(str(phrasebook.model_dir()), engine, "cpu")
    service = TranslationService(settings, model, spec, FakePipeline(answer), load_prompts(model), database=database)
    async with served(service) as http:
        ready.put(Server(str(http.base_url), key, "", {}))
        await asyncio.to_thread(stop.wait)


def run_tests(folder: Path, server: Server) -> dict[str, Any]:
    """Their outcomes with a key and this server's address, which is how they run against DeepL's own."""
    [python, _] = command_of(Client("deepl-tests", "deepl's tests", "python", "-", PACKAGES))
    environment = os.environ | {
        "DEEPL_AUTH_KEY": server.key,
        "DEEPL_SERVER_URL": server.url,
        "PYTHONPATH": "",
        "COLUMNS": "300",
    }
    line = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "-rA", "tests"]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    found = OUTCOME.findall(done.stdout)
    reasons: list[dict[str, Any]] = tomllib.loads((HERE / "deepl_public.toml").read_text())["reason"]
    failed = [
        {"test": test.removeprefix("tests/"), "error": error.removeprefix("- ")[:200], "reason": _reason(test, reasons)}
        for outcome, test, error in found
        if outcome in ("FAILED", "ERROR")
    ]
    return {
        "passed": sum(outcome == "PASSED" for outcome, *_ in found),
        "skipped": sum(map(int, SKIPPED.findall(done.stdout))),
        "failed": failed,
    }


def _reason(test: str, reasons: list[dict[str, Any]]) -> str | None:
    return next((one["why"] for one in reasons if any(name in test for name in one["tests"])), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=Path, required=True, help="a checkout of deepl-python")
    parser.add_argument("--revision", default="", help="which checkout this is")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with serving_examples(options.tests) as server:
        results = {"revision": options.revision, **run_tests(options.tests, server)}
    options.out.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    print(f"{results['passed']} passed, {len(results['failed'])} failed, {results['skipped']} skipped")
    for one in results["failed"]:
        print(f"    {one['test']}: {one['reason'] or 'NOT EXPLAINED: ' + one['error']}")


if __name__ == "__main__":
    main()
