"""Prepares the model for `dragoman journey`: how each kind of server is started and called with it.

`vllm serve` gets the prompts of dragoman's profile, so that both servers process the same tokens.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

from dragoman.errors import ConfigError
from dragoman.wire import ModelDescription
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.workload import LANGUAGES, Pair, describe, parse_pairs
from dragoman_bench.journey.steps import Subject

PHRASEBOOK_WINDOW = 1024
MIX = "en-ja:3,en-ko:1,zh-en:1"
LONGEST = 200  # source tokens, the story's
WINDOW = 2048  # tokens: texts of up to 200, with space for the translation into any language
_SLOT = re.compile(r"\{(source_code|target_code|source|target)\}")
_BENCH_SLOTS = {
    "source": "{source_name}",
    "target": "{target_name}",
    "source_code": "{source}",
    "target_code": "{target}",
}


def make_subject(
    model: str, profile: str, load_format: Literal["auto", "safetensors", "dummy"], window: int | None
) -> Subject:
    """Prepare a model. Raises ConfigError if the model or its profile is not found."""
    folder = Path(model).resolve() if model and Path(model).is_dir() else None
    if folder is None and model.startswith((".", "/", "~")):
        raise ConfigError(f"{model} is not a folder", param="model")
    chosen = describe_model(str(folder or model), profile)
    window = window or (PHRASEBOOK_WINDOW if chosen.profile == "phrasebook" else WINDOW)
    dummy = load_format == "dummy"
    tokenizer = Path(chosen.path) / "tokenizer.json"
    # A text over the model's own limit would be cut by dragoman and not by `vllm serve`.
    limit = chosen.max_source_tokens
    longest = LONGEST if limit is None else min(LONGEST, limit - limit // 16)
    vllm: dict[str, str | int | float | bool] = {
        "served-model-name": chosen.name,
        "load-format": load_format,
        "enable-log-requests": False,
    }
    if not dummy and chosen.mode != "raw" and chosen.chat_arguments:
        # What dragoman passes to the checkpoint's chat template, such as not to think; forced lengths need none.
        vllm["default-chat-template-kwargs"] = json.dumps(chosen.chat_arguments)
    common: dict[str, str | int | float | bool] = {"load-format": load_format, "max-model-len": window}
    named = {name: value for name, value in (("model", str(folder or model)), ("profile", profile)) if value}
    pairs = served_pairs(chosen)
    return Subject(
        path=chosen.path,
        name=chosen.name,
        dragoman={**named, **common},
        vllm=vllm,
        limits={"max-model-len": window, "disable-uvicorn-access-log": True},
        asked=asked_of_vllm(chosen, pairs[0], window),
        lengths={"uniform": (50, 50), "variable": (10, longest)},
        forced=(0.8, 1.3) if dummy else None,
        tokenizer=str(tokenizer) if tokenizer.is_file() else None,
        pairs=describe(pairs),
    )


def describe_model(model: str, profile: str) -> ModelDescription:
    """Run `dragoman models --json` for a model: its profile and prompts. Raises ConfigError."""
    arguments = ["--json", *(["--model", model] if model else []), *([profile] if profile else [])]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    done = subprocess.run(
        [sys.executable, "-m", "dragoman.cli.main", "models", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["dragoman models failed"]
        raise ConfigError(lines[-1].removeprefix("error: "), param="model")
    return ModelDescription.model_validate_json(done.stdout)


def served_pairs(model: ModelDescription) -> tuple[Pair, ...]:
    """Return the directions of the mix that the model serves; if none, another one for which there are texts.

    Raises ConfigError if there is none.
    """
    mix = tuple(pair for pair in parse_pairs(MIX) if f"{pair.source}>{pair.target}" in model.directions)
    others = (direction.split(">") for direction in model.directions)
    found = mix or tuple(Pair(source, target) for source, target in others if source in LANGUAGES)[:1]
    if not found:
        raise ConfigError(f"{model.title} translates from none of {', '.join(LANGUAGES)}: no texts to send it")
    return found


def asked_of_vllm(model: ModelDescription, pair: Pair, window: int) -> TargetOptions:
    """Return options with the profile's prompt for `pair`: completions if the model was trained on raw prompts, else chat."""
    template = model.templates[model.directions[f"{pair.source}>{pair.target}"]]

    def bench_template(template: str) -> str:
        return _SLOT.sub(lambda slot: _BENCH_SLOTS[slot[1]], template)

    if model.mode == "raw":
        wire = (model.wire or "{user}").replace("{user}", template.text)
        return TargetOptions("openai-completions", user=bench_template(wire), max_tokens=window // 4)
    system = bench_template(template.system) or None
    return TargetOptions("openai-chat", system=system, user=bench_template(template.text), max_tokens=window // 4)
