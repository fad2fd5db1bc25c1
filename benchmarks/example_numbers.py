"""What examples in the prompt gain, by how many there are and how similar they have to be.

    python benchmarks/example_numbers.py CATALOGUES --model DIR --out results/example-numbers.json

Messages of catalogues (`dragoman eval --adapt`) are translated by a model in this process (vLLM), each with the entries of the
other messages whose texts are most similar to its own, in the prompts of dragoman's encoder: up to so many, of at least so much
similarity (`3@50`). What is given is chrF++ beside the translation by a person, for each band of the best similarity, the mean
over languages. Entries are found by comparing a text with all of them, not by the server's index. The last line is the JSON
document that `--out` writes.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz import fuzz, process

from dragoman.prompts.catalog import profiles
from dragoman.prompts.encoder import Prompt, PromptEncoder
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.types import Example, PromptOptions
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.eval.catalogues import SOURCE, AdaptInputs, AdaptText, choose, read_catalogues

WAYS = "0@0,3@60,3@50,3@45,3@40,3@30,4@45,5@60,5@50,5@40,5@30,8@60,8@45,16@40"
_WINDOW = 4_096


@dataclass(frozen=True, slots=True)
class Job:
    """A text to translate in one way: with `examples` examples in the prompt."""

    text: AdaptText
    way: str
    examples: int
    prompt: Prompt


def jobs(inputs: AdaptInputs, encoder: PromptEncoder, ways: Sequence[str]) -> Iterator[Job]:
    """Each text in each way."""
    by_target: dict[str, list[AdaptText]] = defaultdict(list)
    for text in inputs.texts:
        by_target[text.target].append(text)
    for target, texts in by_target.items():
        pairs = inputs.memories[target]
        sources = [source for source, _ in pairs]
        scores = process.cdist([one.source for one in texts], sources, scorer=fuzz.ratio, workers=-1)
        for text, row in zip(texts, scores, strict=True):
            order = np.argsort(row)[::-1]
            for way in ways:
                most, least = map(int, way.split("@"))
                nearest = [Example(*pairs[place]) for place in order[:most].tolist() if row[place] >= least]
                options = PromptOptions(examples=tuple(reversed(nearest)))
                yield Job(text, way, len(nearest), encoder.encode(text.source, SOURCE, target, options))


def outputs(model: Path, encoder: PromptEncoder, some: Sequence[Job]) -> list[str]:
    """The model's output for each job, greedy."""
    vllm: Any = import_module("vllm")
    engine = vllm.LLM(model=str(model), dtype="bfloat16", gpu_memory_utilization=0.5, max_model_len=_WINDOW)
    stops = list(encoder.sampling.stop_token_ids)
    sampling = [
        vllm.SamplingParams(temperature=0, max_tokens=4 * job.prompt.source_tokens + 48, stop_token_ids=stops)
        for job in some
    ]
    prompts = [{"prompt_token_ids": list(job.prompt.token_ids)} for job in some]
    return [one.outputs[0].text.strip() for one in engine.generate(prompts, sampling)]


def row_of(job: Job, output: str) -> dict[str, Any]:
    """What is kept of a translation."""
    text = job.text
    named = {"band": text.band, "target": text.target, "way": job.way, "examples": job.examples}
    return named | {"prompt": len(job.prompt.token_ids), "reference": text.reference, "output": output}


def figures(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By band and way: chrF++ of each language and the mean, and the means of the examples and of the prompts' tokens."""
    metric = import_module("sacrebleu.metrics").CHRF(word_order=2)
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["band"], row["way"]].append(row)
    found: list[dict[str, Any]] = []
    for (band, way), some in groups.items():
        by_target: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for row in some:
            by_target[row["target"]].append(row)
        scores = {
            target: round(metric.corpus_score([r["output"] for r in of], [[r["reference"] for r in of]]).score, 2)
            for target, of in by_target.items()
        }
        means = {name: round(statistics.fmean(row[name] for row in some), 2) for name in ("examples", "prompt")}
        found.append(
            {"band": band, "way": way, "texts": len(some), "chrf": round(statistics.fmean(scores.values()), 2)}
            | {"mean_examples": means["examples"], "mean_prompt_tokens": means["prompt"], "chrf_by_target": scores}
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("catalogues", type=Path, nargs="+")
    parser.add_argument("--model", required=True, type=Path, help="a folder")
    parser.add_argument("--profile", default="chat")
    parser.add_argument("--targets", type=lambda text: text.split(","), default=["de", "fr", "ja"])
    parser.add_argument("--number", type=int, default=200, help="texts of each language and band of similarity")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=WAYS.split(","))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    encoder = PromptEncoder(profiles()[options.profile], TextTokenizer.load(options.model))
    inputs = choose(read_catalogues(options.catalogues), options.targets, options.number, 0)
    some = list(jobs(inputs, encoder, options.ways))
    found = Measurement.begin(
        "example-numbers", model=options.model.name, profile=options.profile, number=options.number
    )
    rows = [row_of(*one) for one in zip(some, outputs(options.model, encoder, some), strict=True)]
    found.data["figures"] = figures(rows)
    found.write(options.out)
    print(json.dumps(found.document))


if __name__ == "__main__":
    main()
