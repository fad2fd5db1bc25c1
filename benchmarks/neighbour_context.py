"""What does it cost to give each segment the sentences before it as context? Prompt tokens and CPU time, without an engine.

    python benchmarks/neighbour_context.py --out results/neighbour-context-cpu.json

A long text of packaged sentences is translated over the fake pipeline, which answers immediately: what is measured is the
server's own work. The packaged profile is compared with itself plus a prompt for context (HY-MT1.5's, in English), at
several sizes of segments. `service.planner` says how much context a segment is given. The fastest of `--repeats` runs counts
(CPU time). Nothing is said of quality: the packaged model has no such prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from time import process_time
from typing import Any

from dragoman import phrasebook
from dragoman.pipelines.fake import FakePipeline
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable
from dragoman.prompts.profile import Template
from dragoman.service import stack
from dragoman.service.cache import SegmentCache
from dragoman.service.dispatcher import Dispatcher, LoopTurns
from dragoman.service.planner import Planner
from dragoman.service.translator import Translator
from dragoman.settings import ModelSettings
from dragoman.types import Completion, Delta, Sequence, TranslationRequest
from dragoman_bench.bench.results import describe_machine, git_commit

SEGMENT_TOKENS = (64, 128, 512)
WINDOW_TOKENS = 2048
CONTEXT_PROMPT = (
    "<|bos|><|{source_code}|><|{target_code}|>{context}\nWith the information above, translate the following text into {target}. "
    "Do not translate the above, and do not explain:\n{text}<|sep|>"
)


class CountingPipeline(FakePipeline):
    """Answers each prompt with as many words as its text has tokens, and counts what it was given."""

    def __init__(self) -> None:
        super().__init__(max_model_len=WINDOW_TOKENS)
        self.sequences = self.prompt_tokens = self.source_tokens = 0

    async def stream(self, sequence: Sequence) -> AsyncGenerator[Delta | Completion]:
        completion = await self.generate(sequence)
        yield Delta(completion.text)
        yield completion

    async def generate(self, sequence: Sequence) -> Completion:
        self.sequences += 1
        self.prompt_tokens += len(sequence.prompt_token_ids)
        self.source_tokens += sequence.source_tokens
        return Completion(
            "駅は" * sequence.source_tokens, "stop", len(sequence.prompt_token_ids), sequence.source_tokens
        )


def long_text(characters: int) -> str:
    with gzip.open(phrasebook.sentences_file(), "rt", encoding="utf-8") as lines:
        sentences = [json.loads(line)[0] for line in lines]
    found: list[str] = []
    length = 0
    while length < characters:
        found.append(sentences[len(found)])
        length += len(found[-1]) + 1
    return " ".join(found)


def measure(text: str, segment_tokens: int, repeats: int, *, with_context: bool) -> dict[str, Any]:
    """Of one profile: the fastest run's CPU time, and what the pipeline was given in it."""
    encoder, _ = stack.load_prompts(stack.choose_model(ModelSettings()))
    profile = replace(encoder.profile, max_source_tokens=segment_tokens)
    if with_context:
        profile = replace(profile, templates=(*profile.templates, Template(CONTEXT_PROMPT)))
    tokenizer = encoder.tokenizer
    # Forced lengths: outputs mean nothing here, and are not checked.
    planner = Planner(
        PromptEncoder(profile, tokenizer), LengthTable.measure(tokenizer), WINDOW_TOKENS, forced_lengths=True
    )
    taken_s: list[float] = []
    pipeline = CountingPipeline()
    for _ in range(repeats):
        pipeline = CountingPipeline()
        translator = Translator(pipeline, planner, Dispatcher(64, queued=8), LoopTurns(), SegmentCache(0))
        began_s = process_time()
        asyncio.run(translator.translate(TranslationRequest((text,), "ja", "en")))
        taken_s.append(process_time() - began_s)
    return {
        "context": with_context,
        "max_segment_tokens": segment_tokens,
        "segments": pipeline.sequences,
        "prompt_tokens": pipeline.prompt_tokens,
        "source_tokens": pipeline.source_tokens,
        "cpu_s": round(min(taken_s), 4),
        "cpu_s_all": [round(one, 4) for one in taken_s],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--characters", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = long_text(options.characters)
    rows = [
        measure(text, tokens, options.repeats, with_context=with_context)
        for tokens in SEGMENT_TOKENS
        for with_context in (False, True)
    ]
    document = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(),
        "machine": asdict(describe_machine()),
        "characters": len(text),
        "rows": rows,
    }
    written = json.dumps(document, ensure_ascii=False, indent=1)
    if options.out:
        options.out.write_text(written + "\n", encoding="utf-8")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
