"""Settings: immutable sections, and the source of each value.

This module defines type, bounds, default and meaning of each setting. Values are read from defaults, then the TOML file, then
the environment (`DRAGOMAN_SECTION_KEY`, of secrets also `..._KEY_FILE`), then flags; the last one wins. Unknown keys are
refused, with the nearest known one.
Each component gets only its own section. `cli/options.py` makes flags of the fields; this module does not import click.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_type_hints
from unicodedata import category

from pydantic import AfterValidator, StringConstraints, TypeAdapter, ValidationError
from pydantic import Field as Bound
from pydantic_core import PydanticCustomError

from dragoman.errors import ConfigError
from dragoman.extras import missing_packages
from dragoman.secretfile import FILE_SUFFIX, read_secret
from dragoman.types import MAX_MEMORY_EXAMPLES

ENVIRONMENT_PREFIX = "DRAGOMAN_"
RESERVED_PREFIXES = ("DRAGOMAN_BENCH_", "DRAGOMAN_BUILD_", "DRAGOMAN_TEST_", "DRAGOMAN_API_KEY")
"""Variables of the load tests, of builds, of the tests and of clients: not settings of the server."""
DEFAULT_FILE = Path("dragoman.toml")
REMOVED: Mapping[str, str] = {
    "engine.data_parallel_size": "serve several GPUs with server.replicas",
    "engine.scheduling_policy": "set the priority of a call, or of its key (--priority bulk)",
    "engine.seed": "nothing replaces it: vLLM's seed is 0",
    "pipeline.max_failed_starts": "nothing replaces it: the third start in a row that fails is the last",
    "tracing.service_name": "set the variable OTEL_SERVICE_NAME",
    "traffic.file_bytes": "bound the folder with traffic.max_bytes",
}
"""Removed settings, and what to do instead."""

GRAPH_CEILING = 1024  # with vLLM's own, steps that take a few prompts beside many sequences run without a graph
INTERACTIVE_SHARE = 0.25

_UNITS = {"b": 1} | {
    f"{letter}{infix}b": base**power
    for infix, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("kmgt", 1)
}
_SIZE = re.compile(r"(?P<number>\d[\d_]*(\.\d+)?) ?(?P<unit>[KkMGT]?B|[KkMGT]iB)")
"""Sizes with units: kB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB of 1024."""

Positive = Annotated[int, Bound(ge=1)]
Seconds = Annotated[float, Bound(ge=0)]
PerGpu = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]?/gpu$")]
"""So many on each GPU, such as 2/gpu."""
DEFAULT_SLOTS = 64
"""Of an engine elsewhere that does not say how many sequences it runs at the same time."""
BUILT_IN_PIPELINES = ("continuous", "fake", "remote")
WITHOUT_ENGINE = frozenset({"fake", "remote"})
"""Pipelines that run no engine here: they need neither vLLM nor a GPU."""
PIPELINES = "dragoman.pipelines"
"""The group of entry points by which packages register other pipelines."""
_EXTRAS_OF_PIPELINES = {"static_batch": "bench", "workers": "bench"}
"""Pipelines that come with an extra of dragoman's own."""


def _check_pipeline(name: str) -> str:
    """A pipeline must be built in, or registered by a package that is installed."""
    if name in BUILT_IN_PIPELINES:
        return name
    registered, extra = metadata.entry_points(group=PIPELINES).names, _EXTRAS_OF_PIPELINES.get(name)
    if extra and (name not in registered or missing_packages(extra)):
        raise PydanticCustomError(
            "missing_extra", "it needs the extra '{extra}': pip install 'dragoman[{extra}]'", {"extra": extra}
        )
    if name not in registered:
        known = ", ".join(sorted({*BUILT_IN_PIPELINES, *registered}))
        raise PydanticCustomError("unknown_pipeline", "there is no such pipeline; installed: {known}", {"known": known})
    return name


PipelineName = Annotated[str, AfterValidator(_check_pipeline)]
Group = Literal["server", "model", "engine", "access", "traffic", "log", "cache", "storage"]


def _setting(default: Any, help: str, group: Group | None = None, *, secret: bool = False) -> Any:
    """Define a field.

    Args:
        default: The value, of the field's type.
        help: What it means.
        group: Where `--help` lists it; None: it is only in docs/operating.md.
        secret: The value may have a password: its variable may name a file (`_FILE`), and errors do not show it.
    """
    return field(default=default, metadata={"help": help, "group": group, "secret": secret})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str = _setting("127.0.0.1", "address to listen on", "server")
    port: Annotated[int, Bound(ge=0, le=65535)] = _setting(8000, "port to listen on; 0 picks a free one", "server")
    max_body_bytes: Positive = _setting(8_000_000, "larger request bodies are refused with 413")
    max_header_bytes: Positive = _setting(65_536, "a larger request line and headers are refused with 431")
    header_timeout_s: Annotated[float, Bound(gt=0)] = _setting(
        20.0, "headers that are not complete after this are refused with 408"
    )
    body_timeout_s: Annotated[float, Bound(gt=0)] = _setting(
        30.0, "a body that arrives with less than 500 bytes a second over this time is refused with 408"
    )
    max_texts: Positive = _setting(10_000, "more texts in one call are refused with 413")
    max_text_characters: Positive = _setting(1_000_000, "a longer text is refused with 413")
    heartbeat: Literal["all", "deepl", "none"] = _setting(
        "all",
        "APIs whose answers begin with white space where they take over 3 s, for clients that count silence: "
        "DeepL's, LibreTranslate's, Google's and the plug-ins' (all), DeepL's alone, or none",
    )
    drain_timeout_s: Seconds = _setting(60.0, "on SIGTERM, how long to wait for requests in flight")
    operator_port: Annotated[int, Bound(ge=0, le=65535)] | None = _setting(
        None, "a second port that serves metrics, statistics and the probes, without a key; default: none", "server"
    )
    operator_host: str = _setting("127.0.0.1", "address of the operator's port", "server")
    allowed_hosts: str = _setting(
        "",
        "names that the Host header of requests may have, separated by commas, such as *.example.org; "
        "empty: all names, on a loopback address only those of loopback",
        "access",
    )
    cors_origins: str = _setting(
        "*", "origins whose web pages may call the translation APIs, separated by commas; *: all; empty: none", "access"
    )
    root_path: str = _setting("", "path under which a proxy serves this server, such as /translate", "server")
    mcp: bool = _setting(
        True, "serve agents by the Model Context Protocol at /mcp, where the extra mcp is installed", "access"
    )
    trusted_proxies: str = _setting(
        "", "addresses or networks of proxies whose X-Forwarded headers are used, separated by commas", "access"
    )
    tls_certificate: str = _setting("", "PEM file of the certificate and its intermediate certificates", "access")
    tls_key: str = _setting("", "PEM file of the certificate's key; empty: it is in the certificate's file", "access")
    replicas: Positive | Literal["auto"] | PerGpu | None = _setting(
        None,
        "number of servers behind one address, each with its own engine on its own GPU (or tensor_parallel_size GPUs); "
        "2/gpu: two that share each GPU; auto: one for each GPU, or two where the model is so small that one leaves the "
        "GPU idle; default: one server without Ray",
        "server",
    )
    mps: Literal["auto", "off"] = _setting(
        "auto",
        "engines that share a GPU compute at the same time, under CUDA MPS, whose daemon runs as long as the server; "
        "off: in turn",
        "server",
    )


@dataclass(frozen=True, slots=True)
class AuthSettings:
    mode: Literal["auto", "keys", "none"] = _setting(
        "auto",
        "whether calls need a key; auto: unless the server listens on a loopback address and trusts no proxies",
        "access",
    )
    refresh_s: Annotated[float, Bound(gt=0)] = _setting(
        5.0, "how often keys, limits and usage are read again: until then a revoked key is valid"
    )


@dataclass(frozen=True, slots=True)
class ModelSettings:
    path: str = _setting("", "model folder or hub id; empty: the packaged phrasebook model", "model")
    name: str = _setting("", "the model's name in answers; empty: from its path", "model")
    profile: str = _setting("", "prompt profile; empty: selected by the model's config", "model")
    profile_file: str = _setting("", "a TOML file with a profile of your own", "model")
    confidence_file: str = _setting(
        "",
        "a confidence.json that `dragoman check-model --calibrate` has written; empty: that in the model's folder, if any",
        "model",
    )


@dataclass(frozen=True, slots=True)
class EngineSettings:
    max_num_seqs: Positive | None = _setting(
        None, "sequences that run at the same time; default 256 (GPU), 64 (CPU)", "engine"
    )
    max_num_batched_tokens: Positive | None = _setting(
        None, "tokens in one step; default 8192 (GPU), 2048 (CPU)", "engine"
    )
    max_model_len: Positive | None = _setting(
        None, "tokens a prompt and its output share; default: the model's own, 8192 at most", "engine"
    )
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = _setting(
        "auto",
        "weights and activations; auto: on a GPU the checkpoint's, on a CPU what its instruction sets run fastest",
        "engine",
    )
    gpu_memory_utilization: Annotated[float, Bound(gt=0, le=1)] = _setting(0.9, "share of the GPU's memory", "engine")
    kv_cache_memory_bytes: Positive | Literal["auto"] | None = _setting(
        None,
        "KV cache size; auto: what max_num_seqs texts as long as those of the recorded traffic need (99th percentile); "
        "default: from free memory (GPU), from max_num_seqs (CPU)",
        "engine",
    )
    load_format: Literal["auto", "safetensors", "dummy"] = _setting("auto", "dummy: random weights, forced lengths")
    max_cudagraph_capture_size: Annotated[int, Bound(ge=0)] | None = _setting(
        None, f"largest step, in tokens, that runs as a CUDA graph; default {GRAPH_CEILING}"
    )
    cudagraph_mode: Literal["FULL", "FULL_AND_PIECEWISE"] | None = _setting(
        None,
        "FULL: each step is one CUDA graph, with vLLM's attention backend TRITON_ATTN; FULL_AND_PIECEWISE: only steps "
        "without prompts; default FULL for plain attention on one GPU",
    )
    enforce_eager: bool = _setting(False, "no torch.compile, no CUDA graphs")
    enable_prefix_caching: bool = _setting(True, "keep the KV cache of shared prompt beginnings")
    quantization: str | None = _setting(None, "vLLM's quantization method, such as fp8; changes translations", "engine")
    kv_cache_dtype: Literal["auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"] = _setting(
        "auto",
        "dtype of the KV cache; auto: that of the activations; fp8 holds twice the tokens and changes translations",
        "engine",
    )
    tensor_parallel_size: Positive = _setting(1, "GPUs that share one copy of the model", "engine")
    stream_interval_ms: Annotated[float, Bound(ge=0, le=250)] = _setting(
        40.0,
        "a stream sends its first token at once, then what was generated in at least so many milliseconds; "
        "more, up to 250, while many streams run; 0: each token",
    )
    token_logprobs: bool = _setting(
        True, "report the probabilities of the model's tokens, from which the confidence in a translation is computed"
    )
    trust_remote_code: bool = _setting(False, "run code that comes with the model", "model")


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    name: PipelineName = _setting(
        "continuous",
        "how sequences are submitted to the engine: continuous, fake, remote (with remote.urls), or what a package registers",
    )
    workers: Positive = _setting(1, "workers: processes, each with an engine of its own")
    batch_size: Positive = _setting(16, "static_batch: requests that make a batch")
    batch_timeout_ms: Seconds = _setting(50.0, "static_batch: how long a batch waits to fill")
    hang_timeout_s: Annotated[float, Bound(ge=1)] | None = _setting(
        None,
        "continuous: an engine with sequences that makes no step for this time is restarted; "
        "default: 5 times its longest step, at least 30 s",
    )
    fork_server: bool = _setting(
        True,
        "continuous: fork the engine's processes from one that has imported vLLM, on Linux; false: each imports vLLM itself",
    )
    fake_step_ms: Seconds = _setting(0.0, "fake: how long it takes to generate each word, in milliseconds")
    fake_process: bool = _setting(
        False, "fake: run it in a process of its own, which is restarted as the engine of continuous is"
    )


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    urls: str = _setting(
        "",
        "engines elsewhere, separated by commas, such as http://gpu:8000, which run prompts instead of an engine here: "
        "vllm serve, llama-server, Ollama",
        "engine",
    )
    api: Literal["completions", "ollama"] = _setting(
        "completions", "what they speak: completions (vllm serve, llama-server) or ollama"
    )
    model: str = _setting("", "the model's name there; empty: the only one that they have")
    api_key: str = _setting("", "key that they want, sent as a bearer token", secret=True)
    ca_file: str = _setting("", "PEM file of the authorities that certify them; empty: the system's")
    slots: Positive | None = _setting(None, "sequences that each runs at the same time; default: what it says, else 64")
    connect_timeout_s: Annotated[float, Bound(gt=0)] = _setting(5.0, "to connect to an engine")
    first_token_timeout_s: Annotated[float, Bound(gt=0)] = _setting(
        120.0, "for the first token of an answer; an engine that takes longer counts as lost"
    )
    token_timeout_s: Annotated[float, Bound(gt=0)] = _setting(
        10.0, "between two tokens of a stream; in the mean for each token of a whole answer"
    )


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    max_in_flight_characters: Positive | None = _setting(
        None,
        "calls are refused with 429 while those in flight have this many characters; "
        "default 250,000, and 4,000 for each sequence that the engines run at the same time",
        "traffic",
    )
    interactive_share: Annotated[float, Bound(ge=0, le=1)] = _setting(
        INTERACTIVE_SHARE,
        "share of the engine's sequences that bulk calls leave free while interactive calls come",
        "traffic",
    )


@dataclass(frozen=True, slots=True)
class CacheSettings:
    max_bytes: Annotated[int, Bound(ge=0)] = _setting(
        64 * 2**20, "memory for translations of segments, with greedy decoding; 0: nothing is kept or shared", "cache"
    )
    scope: Literal["key", "server"] = _setting(
        "server",
        "who shares them: all callers of the server, or those with the same key, so that the time of an answer tells nobody "
        "what others have sent",
        "cache",
    )
    file: str = _setting(
        "", "SQLite file that keeps them over restarts, and so stores translations; empty: only in memory", "cache"
    )
    file_max_bytes: Annotated[int, Bound(ge=2**20)] = _setting(
        2**30, "the file's oldest entries are deleted beyond this"
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: Literal["debug", "info", "warning", "error"] = _setting("info", "the server's own log", "log")
    format: Literal["human", "json"] = _setting("human", "one line a request, for people or for machines", "log")
    engine_file: str = _setting(".dragoman/engine.log", "vLLM's own log; empty: the terminal", "log")


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    enabled: bool = _setting(True, "record each text's lengths and times (not the text) on disk", "traffic")
    folder: str = _setting(".dragoman/traffic", "where traffic is recorded; servers may share a folder", "traffic")
    max_bytes: Annotated[int, Bound(ge=4096)] = _setting(
        64 * 2**20, "the oldest records are deleted beyond this", "traffic"
    )
    record_text: bool = _setting(False, "record the source texts too, readable by this user alone", "traffic")


@dataclass(frozen=True, slots=True)
class StorageSettings:
    url: str = _setting(
        "sqlite:///.dragoman/dragoman.db",
        "database of keys, usage, glossaries and translation memories: sqlite:///FILE or "
        "postgresql://USER:PASSWORD@HOST/NAME; empty: none",
        "storage",
        secret=True,
    )


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    store: Literal["auto", "folder", "database"] = _setting(
        "auto",
        "where documents are kept, sources and translations, until they expire: in the folder, which all servers of the "
        "database must share, or in the database; auto: in the database if it is PostgreSQL, else in the folder",
        "storage",
    )
    folder: str = _setting(
        ".dragoman/documents",
        "where documents are kept, or, if the database keeps them, where files lie while they are received and read; "
        "empty: documents are not translated",
        "storage",
    )
    max_bytes: Positive = _setting(30_000_000, "a larger file is refused with 413; some formats have a lower limit")
    max_characters: Positive = _setting(5_000_000, "a document with more characters to translate is not translated")
    keep_h: Annotated[float, Bound(gt=0)] = _setting(
        24.0, "a document is deleted so many hours after it was last asked for", "storage"
    )
    max_jobs_per_key: Positive = _setting(20, "documents of one key that wait or are translated; more: 429")
    max_folder_bytes: Positive = _setting(10 * 2**30, "uploads are refused with 429 while the folder has as much")
    max_running: Positive = _setting(4, "documents that one server translates at the same time; others wait")
    worker_timeout_s: Annotated[float, Bound(ge=1)] = _setting(
        60.0, "CPU time that reading or writing one file may take; twice as long in all"
    )
    worker_memory_bytes: Annotated[int, Bound(ge=2**28)] = _setting(
        2 * 2**30, "address space of the process that reads or writes a file"
    )
    owner_timeout_s: Annotated[float, Bound(ge=1)] = _setting(
        20.0, "another server takes over the documents of one that has not reported for so long"
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    edits: bool = _setting(
        True, "what people edit in documents goes into the translation memory `edits` of their key", "storage"
    )
    suggestions: bool = _setting(
        False,
        "LibreTranslate's clients may suggest translations, which go into the memory `suggestions` of their key: "
        "whoever has the key changes what it is answered",
        "storage",
    )
    examples: Annotated[int, Bound(ge=0, le=MAX_MEMORY_EXAMPLES)] = _setting(
        3,
        "the most similar entries of translation memories that a prompt shows the model, where its profile can; 0: none",
        "storage",
    )
    similarity: Annotated[float, Bound(ge=0, le=100)] = _setting(
        50.0, "the least similarity of such an entry's text, 100: equal", "storage"
    )
    shared_edits: bool = _setting(
        False,
        "without keys everyone is one caller: what one person edits in a document is an example for all",
        "storage",
    )
    index_bytes: Annotated[int, Bound(ge=2**20)] = _setting(
        256 * 2**20,
        "memory for the indexes of similar entries of all keys; those least recently used are dropped",
        "storage",
    )
    max_entries_per_key: Positive = _setting(200_000, "more entries of all translation memories of a key: 413")
    max_bytes_per_key: Positive = _setting(
        256 * 2**20, "more bytes of texts and translations in all translation memories of a key: 413"
    )


@dataclass(frozen=True, slots=True)
class OpenAiSettings:
    unknown_prompts: Literal["auto", "refuse", "pass"] = _setting(
        "auto",
        "messages of OpenAI's and Ollama's API that are not understood; auto: a model whose profile says that it follows "
        "instructions answers those that surely ask for a translation as they are; pass: it answers all",
    )


@dataclass(frozen=True, slots=True)
class TracingSettings:
    endpoint: str = _setting(
        "",
        "OpenTelemetry collector (OTLP over HTTP), such as http://localhost:4318; empty: no tracing",
        "log",
        secret=True,
    )
    sample_ratio: Annotated[float, Bound(ge=0, le=1)] = _setting(
        1.0, "share of the requests to trace; for a request with a traceparent, that decides"
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections, from `load` or with their defaults."""

    server: ServerSettings = field(default_factory=ServerSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    log: LogSettings = field(default_factory=LogSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    documents: DocumentSettings = field(default_factory=DocumentSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    traffic: TrafficSettings = field(default_factory=TrafficSettings)
    openai: OpenAiSettings = field(default_factory=OpenAiSettings)


_FLAGS = {
    "auth.mode": "auth",
    "log.engine_file": "engine-log",
    "model.name": "model-name",
    "model.path": "model",
    "pipeline.name": "pipeline",
    "remote.urls": "engine-url",
    "traffic.enabled": "traffic",
}
_SECTIONS_IN_FLAGS = {
    "auth",
    "cache",
    "documents",
    "log",
    "memory",
    "openai",
    "remote",
    "storage",
    "tracing",
    "traffic",
}


def flag_of(path: str) -> str:
    """Return a setting's flag on command lines, which is its key, sometimes with its section."""
    section, key = path.split(".", 1)
    name = f"{section}-{key}" if section in _SECTIONS_IN_FLAGS else key
    return f"--{_FLAGS.get(path, name.replace('_', '-'))}"


@dataclass(frozen=True, slots=True)
class Option:
    """A setting with its path, type, default and help."""

    section: str
    key: str
    type: Any
    default: Any
    help: str
    group: Group | None
    secret: bool = False

    @property
    def path(self) -> str:
        return f"{self.section}.{self.key}"

    def parse(self, value: Any, origin: str) -> Any:
        """Check and convert a value. Raises `ConfigError` with the setting and the source of the value."""
        type_ = TypeAdapter[Any](self.type)
        shown = self.path if self.secret else f"{self.path} = {value!r}"
        if isinstance(value, str) and any(category(character) in ("Cc", "Cs") for character in value):
            raise ConfigError(
                f"{shown} ({origin}): it has a character that is no Unicode text, or a control character",
                param=self.path,
            )
        try:
            if value == "none" and "none" not in get_args(self.type):  # else it is one of the setting's values
                value = None
            return type_.validate_python(_bytes(value) if self.key.endswith("_bytes") else value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ConfigError(f"{shown} ({origin}): {reason}", param=self.path) from None


def _bytes(value: Any) -> Any:
    """Convert a size with a unit ("64 MiB", "1.5GB") to bytes; any other value stays as it is, to be checked."""
    size = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if size is None:
        return value
    bytes_ = Decimal(size["number"].replace("_", "")) * _UNITS[size["unit"].lower()]
    return int(bytes_) if bytes_ == int(bytes_) else value  # half a byte is none


def _sections() -> dict[str, type]:
    return get_type_hints(Settings)


def _keys(section: type) -> list[str]:
    return [member.name for member in fields(section)]


def options() -> dict[str, Option]:
    """Return all settings, by path (`engine.max_num_seqs`)."""
    found: dict[str, Option] = {}
    for section, cls in _sections().items():
        hints = get_type_hints(cls, include_extras=True)
        for member in fields(cls):
            option = Option(section, member.name, hints[member.name], member.default, **member.metadata)
            found[option.path] = option
    return found


def _variable(path: str) -> str:
    return f"{ENVIRONMENT_PREFIX}{path.replace('.', '_')}".upper()


def _unknown(path: str, known: Mapping[str, Any], origin: str) -> ConfigError:
    near = difflib.get_close_matches(path, list(known), n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}"
    return ConfigError(f"unknown setting {path} ({origin}){hint}", param=path)


@dataclass(frozen=True, slots=True)
class _Given:
    """What the sources set: values and their sources by path, and mistakes, so that all of them are reported at once."""

    values: dict[str, tuple[Any, str]] = field(default_factory=dict[str, tuple[Any, str]])
    mistakes: list[ConfigError] = field(default_factory=list[ConfigError])

    def add_file(self, file: Path) -> None:
        """Raises `ConfigError` for a file that cannot be read."""
        try:
            document = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"settings file {file} does not exist") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"settings file {file} cannot be read: {error}") from None
        known = {path.split(".", 1)[0]: path for path in (*options(), *REMOVED)}
        for section, table in document.items():
            if section not in known:
                self.mistakes.append(_unknown(section, known, str(file)))
            elif not isinstance(table, dict):
                self.mistakes.append(ConfigError(f"{section} in {file} must be a table: [{section}]", param=section))
            else:
                entries = cast(dict[str, Any], table).items()
                self.values.update({f"{section}.{key}": (value, str(file)) for key, value in entries})

    def add_environment(self, environment: Mapping[str, str]) -> None:
        known = {_variable(path): path for path in (*options(), *REMOVED)}
        files = {f"{_variable(path)}{FILE_SUFFIX}": path for path, option in options().items() if option.secret}
        for variable, value in environment.items():
            if not variable.startswith(ENVIRONMENT_PREFIX) or variable.startswith(RESERVED_PREFIXES):
                continue
            if variable in known:
                self.values[known[variable]] = (value, f"environment {variable}")
            elif variable not in files:
                self.mistakes.append(_unknown(variable, known | files, "environment"))
        for variable in files.keys() & environment.keys():
            path = files[variable]
            try:
                self.values[path] = (read_secret(environment, _variable(path)), f"environment {variable}")
            except ConfigError as error:
                self.mistakes.append(error)

    def parse(self) -> dict[str, Any]:
        """Return the checked values, by path. Raises `ConfigError`, for several mistakes with all of them in one line."""
        known = options()
        parsed: dict[str, Any] = {}
        for path, (raw, origin) in self.values.items():
            try:
                if path in REMOVED:
                    raise ConfigError(f"{path} ({origin}) was removed: delete it; {REMOVED[path]}", param=path)
                if path not in known:
                    raise _unknown(path, known, origin)
                parsed[path] = known[path].parse(raw, origin)
            except ConfigError as error:
                self.mistakes.append(error)
        if len(self.mistakes) > 1:
            messages = " | ".join(error.message for error in self.mistakes)
            raise ConfigError(f"{len(self.mistakes)} settings are wrong: {messages}", param=self.mistakes[0].param)
        if self.mistakes:
            raise self.mistakes[0]
        return parsed


@dataclass(frozen=True, slots=True)
class Loaded:
    """The effective settings, and the source of the value of each path."""

    settings: Settings
    origins: Mapping[str, str]


def load(
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded:
    """Read and merge all sources; `flags` maps paths to values. Without `file`, ./dragoman.toml is read if it exists.

    Raises `ConfigError` for an unreadable file, unknown or removed keys and values out of bounds: all of them at once.
    """
    if file is None and DEFAULT_FILE.is_file():
        file = DEFAULT_FILE
    given = _Given()
    if file:
        given.add_file(file)
    given.add_environment(os.environ if environment is None else environment)
    given.values.update({path: (value, flag_of(path)) for path, value in (flags or {}).items()})
    values = given.parse()
    if values.get("remote.urls") and "pipeline.name" not in values:
        values["pipeline.name"], given.values["pipeline.name"] = "remote", ("remote", "remote.urls")
    sections = {
        section: cls(**{key: values[path] for key in _keys(cls) if (path := f"{section}.{key}") in values})
        for section, cls in _sections().items()
    }
    return Loaded(
        Settings(**sections), {path: given.values[path][1] if path in values else "default" for path in options()}
    )
