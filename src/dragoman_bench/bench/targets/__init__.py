"""The APIs that can be measured, by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dragoman.errors import ConfigError
from dragoman_bench.bench.targets.contract import Target
from dragoman_bench.bench.targets.deepl import DeepL
from dragoman_bench.bench.targets.libretranslate import LibreTranslate
from dragoman_bench.bench.targets.native import Native
from dragoman_bench.bench.targets.openai import USER_TEMPLATE, OpenAI, Sampling

TargetKind = Literal["dragoman", "openai-chat", "openai-completions", "libretranslate", "deepl"]
KINDS: tuple[TargetKind, ...] = ("dragoman", "openai-chat", "openai-completions", "libretranslate", "deepl")
STREAMING: frozenset[TargetKind] = frozenset({"dragoman", "openai-chat", "openai-completions"})


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What a target may be told. `model`, the templates and sampling matter to OpenAI-compatible servers alone.

    `forced` False: dragoman is not told the output lengths that items have, for it takes them with dummy weights alone.
    None: told, unless `preflight` finds that it would not take them.
    """

    kind: TargetKind = "dragoman"
    stream: bool = False
    api_key: str | None = None
    model: str | None = None
    system: str | None = None
    user: str = USER_TEMPLATE
    sampling: Sampling = field(default_factory=Sampling)
    forced: bool | None = None

    def __post_init__(self) -> None:
        if self.stream and self.kind not in STREAMING:
            raise ConfigError(f"{self.kind} does not stream", param="stream")


def make_target(options: TargetOptions) -> Target:
    """Raises ConfigError where an OpenAI-compatible server has no model or no usable template."""
    if options.kind == "dragoman":
        return Native(options.stream, options.api_key, forced=options.forced is not False)
    if options.kind == "libretranslate":
        return LibreTranslate(options.api_key)
    if options.kind == "deepl":
        return DeepL(options.api_key)
    if options.model is None:
        raise ConfigError("an OpenAI-compatible server needs a model", param="model")
    chat = options.kind == "openai-chat"
    return OpenAI(options.model, chat, options.stream, options.api_key, options.system, options.user, options.sampling)


__all__ = ["KINDS", "STREAMING", "Target", "TargetKind", "TargetOptions", "make_target"]
