"""Which form of prompt keeps texts that are questions or instructions as texts, at no loss elsewhere?

    vllm serve MODEL --port 8001
    python -m benchmarks.prompt_forms MODEL --url http://127.0.0.1:8001 --messages messages.tsv --out results/forms.json

Each form is one attempt with the profile `chat`: its prompt is encoded as the server does, and sent as token ids. The questions
are `benchmarks/questions.tsv` (kind, target, text), from English; messages are TSV lines: text, translation by a person, target.
Of the questions it counts what the checks report, of the messages the mean chrF++ of the languages too. Texts of messages are
not kept. The last line is one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp

from dragoman.prompts.catalog import profiles, reworded_examples
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.profile import Profile
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.text import answers, checks
from dragoman.text.comparisons import CheckContext
from dragoman.text.detect import Detector
from dragoman.types import PromptOptions
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.eval.adapt import chrf

QUESTIONS = Path(__file__).with_name("questions.tsv")
SOURCE = "en"
CLIENTS = 128
FORMS = {
    "text alone": "{text}",
    "before": "Translate this text into {target}:\n\n{text}",
    "after": "<source>{text}</source>\n\nTranslate this text into {target}.",
}
"""What a user's turn says."""
Options = Callable[[str], PromptOptions]


@dataclass(frozen=True, slots=True)
class Text:
    """A text to translate; `reference` is empty for a question."""

    text: str
    target: str
    reference: str = ""


def forms() -> dict[str, tuple[Profile, Options]]:
    """The forms by name: each user's turn with and without examples before it, and the profile's second form."""
    chat = profiles()["chat"]
    found: dict[str, tuple[Profile, Options]] = {}
    for name, text in FORMS.items():
        profile = replace(chat, templates=tuple(replace(one, text=text) for one in chat.templates))
        found[name] = (profile, lambda _: PromptOptions())
        found[f"{name}, examples"] = (profile, lambda target: PromptOptions(examples=reworded_examples(SOURCE, target)))
    found["reworded"] = (chat, lambda _: PromptOptions(reworded=True))
    found["reworded, examples"] = (
        chat,
        lambda target: PromptOptions(reworded=True, examples=reworded_examples(SOURCE, target)),
    )
    return found


async def outputs(url: str, model: str, encoder: PromptEncoder, options: Options, texts: Sequence[Text]) -> list[str]:
    """One attempt for each text. Raises aiohttp.ClientError where the server refuses one."""
    slots = asyncio.Semaphore(CLIENTS)

    async def ask(session: aiohttp.ClientSession, one: Text) -> str:
        given = options(one.target)
        prompt = encoder.encode(one.text, SOURCE, one.target, given)
        body = {
            "model": model,
            "prompt": list(prompt.token_ids),
            "max_tokens": 4 * prompt.source_tokens + 48,
            "temperature": 0,
            "stop_token_ids": list(encoder.sampling.stop_token_ids),
        }
        async with slots, session.post(f"{url}/v1/completions", json=body, raise_for_status=True) as reply:
            answer: dict[str, Any] = await reply.json()
        return encoder.answer(answer["choices"][0]["text"], one.text, SOURCE, one.target, given).strip()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        return list(await asyncio.gather(*(ask(session, one) for one in texts)))


def figures(texts: Sequence[Text], found: Sequence[str], detector: Detector) -> dict[str, float]:
    """What the checks report, and of messages the mean over languages of chrF++."""
    contexts = [CheckContext(SOURCE, one.target, detector) for one in texts]
    rows = list(zip(texts, found, contexts, strict=True))
    by_target: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one, output, _ in rows:
        by_target[one.target].append((output, one.reference))
    scores = [chrf(*zip(*pairs, strict=True)) for pairs in by_target.values() if pairs[0][1]]
    return {
        "texts": len(texts),
        "answered": sum(answers.is_answered(one.text, output, context) for one, output, context in rows),
        "with_any_finding": sum(bool(checks.findings(one.text, output, context)) for one, output, context in rows),
        **({"chrf": round(statistics.fmean(filter(None, scores)), 1)} if scores else {}),
    }


def read(path: Path) -> list[Text]:
    """Texts of a TSV file: text, translation, target."""
    lines = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [Text(text, target, reference) for text, reference, target in lines]


async def measure(found: Measurement, options: argparse.Namespace) -> None:
    """Fill the results, a form at a time."""
    lines = (line.split("\t") for line in QUESTIONS.read_text(encoding="utf-8").splitlines())
    questions = [Text(text, target) for _, target, text in lines]
    messages = read(options.messages) if options.messages else []
    tokenizer, detector = TextTokenizer.load(Path(options.model)), Detector(list(profiles()["chat"].languages))
    found.data["forms"] = {}
    for name, (profile, given) in forms().items():
        encoder = PromptEncoder(profile, tokenizer)
        every = await outputs(options.url, options.model, encoder, given, [*questions, *messages])
        result: dict[str, Any] = {"questions": figures(questions, every[: len(questions)], detector)}
        if messages:
            result["messages"] = figures(messages, every[len(questions) :], detector)
        print(name, json.dumps(result))
        found.data["forms"][name] = result | {"outputs": every[: len(questions)]}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("model", help="its folder, which the server at --url serves under this name")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--messages", type=Path, help="TSV: text, translation by a person, target")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    found = Measurement.begin("prompt-forms", model=options.model)
    found.run(measure(found, options))
    found.write(options.out)
    print(json.dumps(found.document, ensure_ascii=False))


if __name__ == "__main__":
    main()
