"""What DeepL publishes, against our server: the tests of its Python client, and its OpenAPI description.

    git clone https://github.com/DeepLcom/deepl-python; git clone https://github.com/DeepLcom/openapi
    python -m tests.clients.deepl_public --tests deepl-python --openapi openapi/openapi.json --out results/deepl-public.json
    python -m tests.clients.page

Neither is part of this repository. `deepl_public.toml` explains the tests that do not pass.
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from jsonschema import Draft4Validator, FormatChecker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4
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

# ---- the tests of deepl-python

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


# ---- DeepL's OpenAPI description


@dataclass(frozen=True)
class Checked:
    """One request of the check."""

    request: str
    status: int
    fault: str | None


class Description:
    """DeepL's description, and whether a response is as it says."""

    def __init__(self, path: Path) -> None:
        self.document: dict[str, Any] = json.loads(path.read_text())
        _with_nulls(self.document)
        resource = Resource(contents=self.document, specification=DRAFT4)
        self._registry: Registry[Any] = Registry().with_resource("urn:deepl", resource)

    def checked(self, response: httpx.Response, template: str) -> Checked:
        """The response to a request for a path of the description."""
        method = response.request.method
        name = f"{method} {urlsplit(str(response.request.url)).path}"
        return Checked(
            f"{method} {template}", response.status_code, self._fault(response, template, method.lower(), name)
        )

    def _fault(self, response: httpx.Response, template: str, method: str, name: str) -> str | None:
        operation = self.document["paths"].get(template, {}).get(method)
        if operation is None:
            return f"{name} is not in the description"
        described = operation["responses"].get(str(response.status_code))
        if described is None:
            return f"{name}: status {response.status_code} is not in the description"
        pointer = f"#/paths/{template.replace('/', '~1')}/{method}/responses/{response.status_code}"
        if "$ref" in described:
            pointer = described["$ref"]
            described = self.document["components"]["responses"][pointer.rpartition("/")[2]]
        kind = response.headers.get("content-type", "").partition(";")[0]
        content = described.get("content")
        if not content:
            return None
        if kind not in content:
            return f"{name}: {kind} is not in the description"
        if kind != "application/json":
            return None
        reference = f"urn:deepl{pointer}/content/{kind.replace('/', '~1')}/schema"
        validator = Draft4Validator({"$ref": reference}, registry=self._registry, format_checker=FormatChecker())
        faults = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(response.json())]
        return f"{name}: {'; '.join(faults)}"[:400] if faults else None


def _with_nulls(node: Any) -> None:
    """`nullable` of OpenAPI 3.0 as JSON Schema has it."""
    if isinstance(node, dict):
        if node.get("nullable") is True and isinstance(node.get("type"), str):
            node["type"] = [node["type"], "null"]
        for child in node.values():
            _with_nulls(child)
    elif isinstance(node, list):
        for child in node:
            _with_nulls(child)


TRANSLATE: dict[str, Any] = {"text": ["Where is the train station?", "Good morning."], "target_lang": "JA"}
ENTRIES = {"source_lang": "en", "target_lang": "ja", "entries": "train station\tターミナル", "entries_format": "tsv"}


def requests(http: httpx.Client) -> Iterator[tuple[httpx.Response, str]]:
    """Responses with the paths that they belong to: of what succeeds, and of what is refused."""
    yield http.post("/v2/translate", json=TRANSLATE), "/v2/translate"
    options = {"source_lang": "EN", "formality": "prefer_more", "context": "A journey.", "show_billed_characters": True}
    options |= {"tag_handling": "html", "model_type": "latency_optimized", "split_sentences": "nonewlines"}
    yield http.post("/v2/translate", json=TRANSLATE | options), "/v2/translate"
    yield http.post("/v2/translate", data=TRANSLATE | {"tag_handling": "xml", "ignore_tags": "x,y"}), "/v2/translate"
    for path in ("/v2/languages", "/v2/languages?type=source", "/v2/languages?type=target", "/v2/usage"):
        yield http.get(path), path.partition("?")[0]
    for path in (
        "/v2/glossary-language-pairs",
        "/v3/languages/resources",
        "/v3/style_rules",
        "/v3/translation_memories",
    ):
        yield http.get(path), path
    for resource in ("translate_text", "glossary", "translate_document", "voice", "write"):
        yield http.get("/v3/languages", params={"resource": resource}), "/v3/languages"
    yield from _glossaries_of_version_2(http)
    yield from _glossaries_of_version_3(http)
    for body in ({}, TRANSLATE | {"target_lang": "XX"}, TRANSLATE | {"glossary_id": "x", "source_lang": "EN"}):
        yield http.post("/v2/translate", json=body), "/v2/translate"
    wrong = {"Authorization": "DeepL-Auth-Key wrong"}
    yield http.post("/v2/translate", json=TRANSLATE, headers=wrong), "/v2/translate"
    for path in ("/v2/usage", "/v2/languages", "/v2/glossaries", "/v3/glossaries", "/v3/languages/resources"):
        yield http.get(path, headers=wrong), path
    yield http.get("/v3/languages", params={"resource": "none"}), "/v3/languages"
    yield http.post("/v2/document", files={"file": ("a.txt", b"text")}, data={"target_lang": "JA"}), "/v2/document"
    for name in ("rephrase", "correct"):
        yield http.post(f"/v2/write/{name}", json={"text": ["a"]}), f"/v2/write/{name}"


def _glossaries_of_version_2(http: httpx.Client) -> Iterator[tuple[httpx.Response, str]]:
    one, path = "/v2/glossaries/{glossary_id}", "/v2/glossaries"
    made = http.post(path, json={"name": "described v2", **ENTRIES})
    yield made, path
    its = f"{path}/{made.json()['glossary_id']}"
    yield http.get(path), path
    yield http.get(its), one
    yield http.get(f"{its}/entries", headers={"Accept": "text/tab-separated-values"}), f"{one}/entries"
    yield http.delete(its), one
    yield http.get(its), one
    yield http.delete(its), one
    yield http.post(path, json={"name": "none"}), path


def _glossaries_of_version_3(http: httpx.Client) -> Iterator[tuple[httpx.Response, str]]:
    one, path = "/v3/glossaries/{glossary_id}", "/v3/glossaries"
    made = http.post(path, json={"name": "described v3", "dictionaries": [ENTRIES, ENTRIES | {"target_lang": "ko"}]})
    yield made, path
    its, pair = f"{path}/{made.json()['glossary_id']}", {"source_lang": "en", "target_lang": "ja"}
    yield http.get(path), path
    yield http.get(its), one
    yield http.patch(its, json={"name": "described v3 renamed", "dictionaries": [ENTRIES]}), one
    yield http.put(f"{its}/dictionaries", json=ENTRIES), f"{one}/dictionaries"
    yield http.get(f"{its}/entries", params=pair), f"{one}/entries"
    yield http.delete(f"{its}/dictionaries", params=pair), f"{one}/dictionaries"
    yield http.get(f"{its}/entries", params=pair), f"{one}/entries"
    yield http.delete(its), one
    yield http.get(its), one


def check(path: Path, server: Server) -> list[Checked]:
    """All requests."""
    description = Description(path)
    headers = {"Authorization": f"DeepL-Auth-Key {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
        return [description.checked(response, template) for response, template in requests(http)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=Path, required=True, help="a checkout of deepl-python")
    parser.add_argument("--openapi", type=Path, required=True, help="openapi.json of a checkout of DeepLcom/openapi")
    parser.add_argument("--revisions", default="", help="which checkouts these are")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with serving_examples(options.tests) as server:
        checked = check(options.openapi, server)
        tests = run_tests(options.tests, server)
    results = {
        "revisions": options.revisions,
        "description": json.loads(options.openapi.read_text())["info"]["version"],
        "responses": [asdict(one) for one in checked],
        "tests": tests,
    }
    options.out.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    for one in checked:
        if one.fault:
            print(one.fault)
    print(f"{sum(not one.fault for one in checked)} of {len(checked)} responses are as described")
    print(f"{tests['passed']} passed, {len(tests['failed'])} failed, {tests['skipped']} skipped")
    for one in tests["failed"]:
        print(f"    {one['test']}: {one['reason'] or 'NOT EXPLAINED: ' + one['error']}")


if __name__ == "__main__":
    main()
