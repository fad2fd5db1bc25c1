"""What `dragoman journey` measures: a model, and how each kind of server is started with it and asked to translate.

`vllm serve` is asked with the prompt of dragoman's own profile, so that both run the same tokens.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path
from typing import Literal

from dragoman.errors import ConfigError
from dragoman.prompts.profile import Profile
from dragoman.service.stack import choose_model
from dragoman.settings import ModelSettings
from dragoman_bench.bench.targets import Sampling, TargetOptions
from dragoman_bench.bench.texts import LANGUAGES
from dragoman_bench.bench.workload import Pair, describe, parse_pairs
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
    """Raises ConfigError where the model or its profile cannot be had."""
    folder = Path(model).resolve() if model and Path(model).is_dir() else None
    if folder is None and model.startswith((".", "/", "~")):
        raise ConfigError(f"{model} is not a folder", param="model")
    chosen = choose_model(ModelSettings(path=str(folder or model), profile=profile))
    phrasebook = chosen.profile.name == "phrasebook"
    window = window or (PHRASEBOOK_WINDOW if phrasebook else WINDOW)
    dummy = load_format == "dummy"
    tokenizer = Path(chosen.path) / "tokenizer.json"
    common: dict[str, str | int | float | bool] = {"load-format": load_format, "max-model-len": window}
    named = {name: value for name, value in (("model", str(folder or model)), ("profile", profile)) if value}
    pairs = served_pairs(chosen.profile)
    return Subject(
        path=chosen.path,
        name=chosen.name,
        dragoman={**named, **common},
        vllm={
            "served-model-name": chosen.name,
            "load-format": load_format,
            "enable-log-requests": False,
            **_chat_arguments(chosen.profile, dummy),
        },
        limits={"max-model-len": window, "disable-uvicorn-access-log": True},
        asked=asked_of_vllm(chosen.profile, pairs[0], window),
        lengths={"uniform": (50, 50), "variable": (10, _longest(chosen.profile))},
        forced=(0.8, 1.3) if dummy else None,
        tokenizer=str(tokenizer) if tokenizer.is_file() else None,
        pairs=describe(pairs),
    )


def served_pairs(profile: Profile) -> tuple[Pair, ...]:
    """The mix of languages that is sent, as far as the model serves it; else any one direction of which there are texts.

    Raises ConfigError where there is none.
    """
    mix = tuple(pair for pair in parse_pairs(MIX) if profile.serves(pair.source, pair.target))
    others = (Pair(source, tag) for source in LANGUAGES for tag in profile.languages if tag != source)
    found = mix or tuple(islice((pair for pair in others if profile.serves(pair.source, pair.target)), 1))
    if not found:
        raise ConfigError(f"{profile.title} translates from none of {', '.join(LANGUAGES)}: no texts to send it")
    return found


def _longest(profile: Profile) -> int:
    """Source tokens. A text over the model's own limit would be cut by dragoman and not by `vllm serve`."""
    limit = profile.max_source_tokens
    return LONGEST if limit is None else min(LONGEST, limit - limit // 16)


def asked_of_vllm(profile: Profile, pair: Pair, window: int) -> TargetOptions:
    """The profile's prompt for `pair` as the bench's: completions where the model was trained on raw prompts, else chat."""
    template = profile.template(pair.source, pair.target, with_context=False)
    sampling = Sampling(max_tokens=window // 4)
    if profile.mode == "raw":
        wire = (profile.wire or "{user}").replace("{user}", template.text)
        return TargetOptions("openai-completions", user=_as_bench(wire), sampling=sampling)
    system = _as_bench(template.system) or None
    return TargetOptions("openai-chat", system=system, user=_as_bench(template.text), sampling=sampling)


def _as_bench(template: str) -> str:
    return _SLOT.sub(lambda slot: _BENCH_SLOTS[slot[1]], template)


def _chat_arguments(profile: Profile, dummy: bool) -> dict[str, str]:
    """What dragoman passes to the checkpoint's chat template, such as not to think; forced lengths need none."""
    if dummy or profile.mode == "raw" or not profile.chat_arguments:
        return {}
    return {"default-chat-template-kwargs": json.dumps(dict(profile.chat_arguments))}
