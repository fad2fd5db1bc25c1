"""What is taken for an instruction in a chat, of programs' requests and of texts, and whether batches keep their lines, for
results/chat-prompts.json: `python -m tests.clients.chat_prompts --catalogues FOLDER`.

FOLDER has gettext catalogues (`*.mo`) in any depth, such as those of Debian's packages after `dpkg -x`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from gettext import GNUTranslations
from pathlib import Path
from typing import Any

from dragoman.api.compat import chat
from dragoman.errors import InvalidRequest
from dragoman.types import Translation
from tests.api.compat.chat_texts import texts
from tests.api.compat.test_chat_requests import (
    BLOCKS,
    LINES,
    READERS,
    REQUESTS,
    ask,
    batch_of,
    form_of,
    messages_of,
    read,
)
from tests.serving import fake_service, served, source_of
from wholetext.markup.spans import pseudolocalized

RESULTS = Path(__file__).parents[2] / "results/chat-prompts.json"
SYSTEMS = {"none": "", "translator": "You are a translator. Translate to Japanese."}
MESSAGES = 10_000
SIZES = (10, 25, 50)
"""Lines of a batch."""


def outcome(request: dict[str, Any], named: str | None) -> str:
    """How a program's request ends: the answer has each item as the program reads it, or it is refused, or else it is wrong."""
    try:
        task = read(request, messages_of(request), named)
    except InvalidRequest as error:
        return (
            "not a translation" if request["parses"] == "refused" and error.code == "not_a_translation" else "refused"
        )
    if request["parses"] == "refused" or list(task.texts) != request["texts"] or task.target != request["target"]:
        return "wrong"
    marked = [f"<{place}>" for place in range(len(task.texts))]
    reply = task.write([Translation(text, "en", False, "stop") for text in marked])
    return "served" if READERS[request["parses"]](reply) == marked else "wrong"


def programs() -> list[dict[str, Any]]:
    """The outcome of each recorded request, without and with a target in the model's name."""
    return [
        {
            "program": one["program"],
            "version": one["version"],
            "run": one.get("run"),
            "items": len(one["texts"]),
            "dragoman": outcome(one, None),
            "dragoman/LANGUAGE": outcome(one, one["target"]),
        }
        for one in REQUESTS
    ]


def precision(given: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Of texts by kind: how many are taken for an instruction, and how many are refused, without and with a system message."""
    counts: dict[str, Counter[str]] = {}
    for kind, text in given:
        count = counts.setdefault(kind, Counter())
        count["texts"] += 1
        for name, system in SYSTEMS.items():
            before: list[tuple[chat.Role, str]] = [("system", system)] if system else []
            try:
                task = chat.parse([*before, ("user", text)], None if system else "ja")
            except InvalidRequest:
                count[f"refused, {name}"] += 1
                continue
            is_text = "".join(map(task.piece, range(len(task.texts)), map(_copied, task.texts))) == text
            count[f"taken, {name}"] += not is_text
    names = ("texts", *(f"{verb}, {name}" for name in SYSTEMS for verb in ("taken", "refused")))
    return [{"kind": kind} | {name: count[name] for name in names} for kind, count in counts.items()]


def _copied(text: str) -> Translation:
    return Translation(text, "en", False, "stop")


async def batches() -> list[dict[str, Any]]:
    """Of each form of a batch, and each size: how many of 1,000 lines come back in their place with the translation that the
    native API has for them. Through a server over the fake pipeline, whose translations differ as their sources do."""
    found: list[dict[str, Any]] = []
    expected: dict[str, dict[str, str]] = {}  # by the options that the messages name
    service = fake_service(lambda sequence: pseudolocalized(source_of(sequence)))  # which passes the checks
    async with served(service) as http:
        for program in BLOCKS:
            row: dict[str, Any] = {"program": program, "lines": len(LINES)}
            for size in SIZES:
                row[f"in place, {size}"] = 0
                for at in range(0, len(LINES), size):
                    lines = LINES[at : at + size]
                    request, sent, read_answer = batch_of(program, lines)
                    task = read(request, sent, "ja")
                    options = {
                        "target": "ja",
                        "source": task.source,
                        "format": task.format,
                        "keep": list(task.options.keep),
                    }
                    options |= {"glossary": dict(task.options.glossary) or None, "formality": task.options.formality}
                    known = expected.setdefault(json.dumps(options), {})
                    if missing := [line for line in lines if line not in known]:
                        native = await http.post("/v1/translate", json={"text": missing, **options})
                        texts_of = (one["text"] for one in native.raise_for_status().json()["translations"])
                        known |= zip(missing, texts_of, strict=True)
                    back = read_answer(await ask(http, sent, **form_of(request)))
                    row[f"in place, {size}"] += sum(
                        len(back) == len(lines) and one.strip() == known[line].strip()
                        for line, one in zip(lines, back, strict=False)
                    )
            found.append(row)
    return found


def messages(folder: Path) -> Iterator[tuple[str, str]]:
    """Different messages of catalogues, and their translations, up to `MESSAGES`; as many of each catalogue."""
    catalogues = sorted(folder.rglob("*.mo"))
    most, seen = max(MESSAGES // max(len(catalogues), 1), 1) * 2, set[str]()
    for path in catalogues:
        with path.open("rb") as file:
            pairs = GNUTranslations(file)._catalog.items()  # type: ignore[attr-defined]
        found = [
            text for id, translation in pairs for text in (id, translation) if isinstance(text, str) and text.strip()
        ]
        new = [text for text in dict.fromkeys(found) if text not in seen and "Content-Type:" not in text][:most]
        for text in new[: MESSAGES - len(seen)]:
            seen.add(text)
            yield "messages of Debian's catalogues", text


def main() -> None:
    """Write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--catalogues", type=Path, required=True, help="folder with *.mo files")
    folder: Path = parser.parse_args().catalogues
    results = {
        "programs": programs(),
        "texts": precision(texts()),
        "catalogues": precision(messages(folder)),
        "batches": asyncio.run(batches()),
    }
    RESULTS.write_text(json.dumps(results, ensure_ascii=False, indent=2) + "\n")


if __name__ == "__main__":
    main()
