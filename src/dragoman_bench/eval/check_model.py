"""`dragoman check-model`: checks a checkpoint before it is served, through a server that runs it.

It checks whether the prompt equals the checkpoint's own; language, script, finish reason and commentary of twenty answers in
each direction; whether tags and placeholders are kept, and how often fallbacks were necessary; whether the terms of a glossary
are used; memory and tokens a second; the licence.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Literal

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman.wire import ModelDescription, Stats
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.server_stats import DragomanStats
from dragoman_bench.bench.servers import Interrupted, RunningServer, dragoman_serve, serving
from dragoman_bench.bench.tables import percent, size
from dragoman_bench.bench.workload import LANGUAGES, PhrasebookTexts
from dragoman_bench.eval.apis import Answer, ApiOptions, Ask, TranslationApi, translation_api
from dragoman_bench.eval.fidelity import ALIGNED, CUT_AROUND
from dragoman_bench.eval.judge import HardInput, commentary, judge, read_inputs, script_share

FindingState = Literal["ok", "warn", "fail"]
SENTENCES = 20  # of a direction
_FIRST = 10  # a direction of which so many all fail ends there
_SENTENCE_CHARACTERS = (20, 150)
_PROBE_KINDS = ("inline tags", "nested tags", "placeholders", "tokens to keep")
_PROBES = 20  # of a direction
_FEW, _MANY = 0.05, 0.2  # shares of bad answers up to which one warns
_SCRIPT_SHARE = 0.6
_HELPED_SHARE = 0.5  # of the texts with tags; above, the model does not keep marks
_LABELS = {"nb": "no", "fil": "tl"}  # py3langid's, where they are not the tag's
_GLOSSARY = {
    "en": ("umbrella", "Thank you for the umbrella, I like it very much."),
    "ja": ("傘", "傘をありがとうございます、とても気に入りました。"),
    "ko": ("우산", "우산을 주셔서 감사해요, 아주 마음에 들어요."),
    "zh": ("雨伞", "谢谢你送的雨伞，我非常喜欢。"),
}
_TERM = "Zentora"  # no word of any language: an answer has it by the glossary alone


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """A line of the report."""

    what: str
    state: FindingState
    details: str


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """The report. `ok`: no check failed."""

    model: str
    findings: tuple[ModelFinding, ...]
    interrupted: bool = False  # directions are missing

    @property
    def ok(self) -> bool:
        return all(finding.state != "fail" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class ModelToCheck:
    """The model to check: one for which a server is started, or that of a running server (`url`)."""

    described: ModelDescription
    directions: tuple[tuple[str, str], ...]
    url: str | None = None
    serve_arguments: tuple[str, ...] = ()
    log: Path = Path(".dragoman/check-model/serve.log")
    api_key: str | None = None


def directions_of(described: ModelDescription, wanted: Sequence[tuple[str | None, str]]) -> tuple[tuple[str, str], ...]:
    """Return the directions to check: the given ones, else those among the languages of the packaged sentences, English first.

    Raises ConfigError for a direction that the model does not serve.
    """
    if not wanted:
        pairs = [(one, other) for one in LANGUAGES for other in LANGUAGES if "en" in (one, other)]
        found = tuple(pair for pair in pairs if ">".join(pair) in described.directions)
        if not found:
            raise ConfigError(
                "the model serves no direction from or to English: specify --directions", param="directions"
            )
        return found
    for source, target in wanted:
        if f"{source}>{target}" not in described.directions:
            raise ConfigError(f"{described.name} does not translate from {source} to {target}", param="directions")
    return tuple((source or "", target) for source, target in wanted)


async def check_model(wanted: ModelToCheck, observer: Observer, interrupted: asyncio.Event) -> CheckedModel:
    """Start a server unless one is given, run all checks and report; after an interrupt, the checks so far.

    Raises ServerFault.
    """
    findings = [_licence(wanted.described)]
    with suppress(Interrupted):
        async with (
            server_of(wanted, interrupted, observer) as (url, server),
            translation_api(ApiOptions(url, api_key=wanted.api_key)) as api,
        ):
            before, began = await _stats(api), monotonic()
            findings.insert(0, _template(wanted.described, before))
            for source, target in wanted.directions:
                if interrupted.is_set():
                    break
                sources = await _sentences(api, source, observer, interrupted)
                findings += await _direction(api, sources, source, target, observer, interrupted)
            findings += await _glossary(api, wanted.directions, interrupted)
            findings += _resources(before, await _stats(api), monotonic() - began, server)
    if interrupted.is_set():
        findings.append(ModelFinding("Interrupted", "warn", "directions are missing"))
    return CheckedModel(wanted.described.name, tuple(findings), interrupted.is_set())


async def describe_served(url: str, describe: Callable[[str], ModelDescription]) -> ModelDescription:
    """Return the model of a running server, with name and profile. Raises ConfigError if the server is not dragoman."""
    async with translation_api(ApiOptions(url)) as api:
        stats = await _stats(api)
    if stats is None:
        raise ConfigError(f"{url}/v1/stats does not answer: is this a dragoman server?", param="url")
    return (await asyncio.to_thread(describe, stats.profile)).model_copy(update={"name": stats.model})


@asynccontextmanager
async def server_of(
    wanted: ModelToCheck, interrupted: asyncio.Event, observer: Observer
) -> AsyncGenerator[tuple[str, RunningServer | None]]:
    """The URL of a server of the model; one is started unless one runs already (None). Raises `Interrupted`, `ServerFault`."""
    if wanted.url is not None:
        yield wanted.url, None
        return
    observer.phase(f"starting {wanted.described.name}", None)
    log = await asyncio.to_thread(wanted.log.resolve)
    flags = {"model": wanted.described.path, "profile": wanted.described.profile}
    command = dragoman_serve(wanted.described.name, flags, log.with_name("engine.log"))
    command = replace(command, argv=(*command.argv, *wanted.serve_arguments))
    async with serving(command, log, interrupted) as server:
        yield server.url, server


async def _stats(api: TranslationApi) -> Stats | None:
    return await DragomanStats(api.session, api.options.url + "/v1/stats").read()


# ---- what is known without a translation


def _template(described: ModelDescription, stats: Stats | None) -> ModelFinding:
    """The server compares the profile's prompt with the checkpoint's own chat template when it starts."""
    name = f"profile {described.profile}"
    if stats is None or stats.template_difference is None:
        return ModelFinding("Prompt", "warn", f"{name}; whether it is the checkpoint's own is in the server's log")
    if stats.template_difference:
        shown = " ".join(stats.template_difference.split())
        return ModelFinding("Prompt", "fail", f"{name} is not what the checkpoint was trained on: {shown[:400]}")
    if described.mode == "raw":
        return ModelFinding("Prompt", "ok", f"{name}: a raw prompt, which no chat template can contradict")
    return ModelFinding("Prompt", "ok", f"{name} equals the checkpoint's own chat template")


def _licence(described: ModelDescription) -> ModelFinding:
    if not described.licence:
        return ModelFinding("Licence", "warn", "the profile names none: read the checkpoint's")
    return ModelFinding("Licence", "ok", described.licence)


# ---- directions


async def _sentences(api: TranslationApi, source: str, observer: Observer, interrupted: asyncio.Event) -> list[str]:
    """Packaged ones; of another language, the model's own translations of English ones, none where the first all fail."""
    language = languages.match(source, LANGUAGES)
    texts = PhrasebookTexts(0, len)
    low, high = _SENTENCE_CHARACTERS
    made = [texts.make(language or "en", low + number * (high - low) // SENTENCES) for number in range(SENTENCES)]
    if language:
        return made
    observer.phase(f"en to {source}, to have sentences", len(made))
    asks = [Ask(text, "en", source) for text in made]
    answers = await api.translate_all(asks, observer, interrupted, raises=False)
    return [answer.text for answer in answers if answer and answer.text]


async def _direction(
    api: TranslationApi,
    sources: Sequence[str],
    source: str,
    target: str,
    observer: Observer,
    interrupted: asyncio.Event,
) -> list[ModelFinding]:
    """The first sentences; the others and the texts with tags only if not all of those fail."""
    label = f"{source} to {target}"
    pairs: list[tuple[str, Answer]] = []
    for what, some in ((label, sources[:_FIRST]), (f"{label}, the rest", sources[_FIRST:])):
        observer.phase(what, len(some))
        asks = [Ask(text, source, target) for text in some]
        answered = await api.translate_all(asks, observer, interrupted, raises=False)
        pairs += [(text, answer) for text, answer in zip(some, answered, strict=True) if answer is not None]
        if (len(pairs) >= _FIRST or not sources) and all(_faults(text, answer, target) for text, answer in pairs):
            found = _answers(label, target, pairs)
            return [replace(found, state="fail", details=f"{found.details}; all fail, so no more were asked")]
    observer.phase(f"{label}, with tags", None)
    probes = _probes(source, target)
    asks = [Ask(one.text, source, target, one.format) for one in probes]
    probed = await api.translate_all(asks, observer, interrupted, raises=False)
    found = [_answers(label, target, pairs)] if pairs or not interrupted.is_set() else []
    answered_probes = [(one, answer) for one, answer in zip(probes, probed, strict=True) if answer is not None]
    return [*found, _marks(label, answered_probes)] if answered_probes else found


def _faults(source: str, answer: Answer, target: str) -> Counter[str]:
    """Script, end, what was added, and warnings of one answer."""
    if answer.error:
        return Counter((answer.error,))
    faults = Counter(what.partition(":")[0] for what in commentary(source, answer.text))
    faults.update(f"warning {code}" for code in set(answer.warnings))
    faults[f"finish reason {answer.finish_reason}"] += answer.finish_reason not in ("stop", "")
    faults["the source itself"] += answer.text.strip() == source.strip()
    faults["another script"] += script_share(answer.text, target, source) < _SCRIPT_SHARE
    return +faults


def _answers(label: str, target: str, pairs: Sequence[tuple[str, Answer]]) -> ModelFinding:
    """Language, script, ends, and what was added, of a direction's answers."""
    faults: Counter[str] = Counter()
    for source, answer in pairs:
        faults.update(_faults(source, answer, target))
    language = _language([answer.text for _, answer in pairs])
    expected = target.split("-")[0]
    if language and language != _LABELS.get(expected, expected):
        faults[f"the language {language}"] = len(pairs)
    if not pairs or not faults:
        return ModelFinding(label, "ok" if pairs else "fail", f"{len(pairs)} answers in {languages.name(target)}")
    worst = max(faults.values()) / len(pairs)
    listed = ", ".join(f"{what} ({count})" for what, count in faults.most_common(4))
    return ModelFinding(label, "warn" if worst <= _FEW else "fail", f"of {len(pairs)} answers: {listed}")


def _language(texts: Sequence[str]) -> str | None:
    """What py3langid takes all texts together for; None for nothing."""
    joined = "\n".join(filter(None, texts))
    return str(import_module("py3langid").classify(joined)[0]) if joined else None


def _probes(source: str, target: str) -> list[HardInput]:
    """Hard inputs with tags and placeholders, of the direction or else of its source language; their words are not checked."""
    known = [one for one in read_inputs() if one.kind in _PROBE_KINDS and one.source == source.split("-")[0]]
    same = [one for one in known if one.target == target.split("-")[0]]
    return [replace(one, target=target, content=()) for one in (same or known)[:_PROBES]]


def _marks(label: str, probed: Sequence[tuple[HardInput, Answer]]) -> ModelFinding:
    judged = [judge(one, answer.text) for one, answer in probed]
    whole = sum(one.structure and one.kept for one in judged)
    helped = sum(bool({CUT_AROUND, ALIGNED} & set(answer.retries)) for _, answer in probed)
    share, helped_share = whole / len(probed), helped / len(probed)
    details = (
        f"tags and placeholders kept in {whole} of {len(probed)} texts; {helped} were cut around their tags or aligned"
    )
    state: FindingState = "ok"
    if share < 1 - _FEW or helped_share > _HELPED_SHARE:
        state = "warn" if share >= 1 - _MANY else "fail"
    return ModelFinding(f"{label}, tags", state, details)


async def _glossary(
    api: TranslationApi, directions: Sequence[tuple[str, str]], interrupted: asyncio.Event
) -> list[ModelFinding]:
    """Whether a term gets the translation that the glossary names, which no model would choose."""
    honoured = asked = 0
    for source, target in directions:
        if source not in _GLOSSARY or interrupted.is_set():
            continue
        term, text = _GLOSSARY[source]
        async with translation_api(replace(api.options, extra=(("glossary", {term: _TERM}),))) as with_glossary:
            answer = await with_glossary.translate(Ask(text, source, target))
        if answer.error:
            return [ModelFinding("Glossary", "warn", f"not served: {answer.error[:200]}")]
        asked += 1
        honoured += _TERM.casefold() in answer.text.casefold()
    if not asked:
        return []
    state: FindingState = "ok" if honoured == asked else "warn"
    return [
        ModelFinding("Glossary", state, f"honoured in {honoured} of {asked} directions ({percent(honoured / asked)})")
    ]


# ---- resources


def _resources(
    before: Stats | None, after: Stats | None, wall_s: float, server: RunningServer | None
) -> list[ModelFinding]:
    if after is None or before is None:
        return [ModelFinding("Speed", "warn", "the server reports no statistics")]
    engine = after.engine
    tokens = engine.completion_tokens - before.engine.completion_tokens
    busy_s = engine.busy_s - before.engine.busy_s or wall_s
    speed = f"{tokens / busy_s:.0f} output tokens a second, 8 texts at a time, on {after.device}"
    memory: list[str] = []
    if server is not None:
        memory += [f"{size(server.memory_bytes())} resident", f"ready in {server.start_s:.0f} s"]
    if engine.kv_cache_tokens and engine.kv_cache_bytes_per_token:
        cache = size(engine.kv_cache_tokens * engine.kv_cache_bytes_per_token)
        memory.append(f"KV cache {cache} for {engine.kv_cache_tokens:,} tokens")
    found = [ModelFinding("Speed", "ok" if tokens else "fail", f"{speed}{f', {engine.dtype}' if engine.dtype else ''}")]
    return [*found, ModelFinding("Memory", "ok", "; ".join(memory))] if memory else found
