"""What differs between vLLM 0.26 and 0.33, and between its CPU and CUDA builds: arguments, sampling, and errors.

0.26 raises `VLLMValidationError(ValueError)` and plain `ValueError`; 0.32 raises `VLLMClientError` (no `ValueError`), wraps
other errors as `EngineGenerateError`, and refuses overflow with `GracefulHTTPError`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from vllm import SamplingParams
from vllm import __version__ as vllm_version
from vllm import exceptions as vllm_exceptions
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.inputs import tokens_input
from vllm.sampling_params import RepetitionDetectionParams, RequestOutputKind
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from dragoman.engine.scheduler import SCHEDULER, StreamPacing
from dragoman.engine.spec import EngineSpec
from dragoman.errors import ConfigError, EngineDead, EngineFailed, EngineRejected, Unavailable
from dragoman.settings import EngineSettings
from dragoman.types import EngineSequence, TokenLogprobs

# A loop is a pattern of up to 32 tokens, 24 times over: no human text that has to be translated does that, and a
# greedy decode that started to do it never stops by itself.
_LOOP = RepetitionDetectionParams(max_pattern_size=32, min_pattern_size=1, min_count=24)

_DISPENSABLE = frozenset({"disable_log_stats", "shutdown_timeout"})
"""Arguments that change no translation and no speed, so that a vLLM without one does as well."""

CRASHED = "the engine crashed"
_REFUSALS: tuple[type[Exception], ...] = (
    ValueError,
    *(
        getattr(vllm_exceptions, name)
        for name in ("VLLMClientError", "VLLMValidationError")
        if hasattr(vllm_exceptions, name)
    ),
)
_OVERFLOW: tuple[type[Exception], ...] = tuple(
    getattr(vllm_exceptions, name) for name in ("GracefulHTTPError",) if hasattr(vllm_exceptions, name)
)


def engine_arguments(
    spec: EngineSpec, *, shutdown_timeout_s: float = 0.0, beside: Mapping[str, Any] | None = None
) -> AsyncEngineArgs:
    """vLLM's arguments for `spec`; a setting that this vLLM does not know is left out only when it is unset.

    `beside`: further arguments by vLLM's names, for measurements of what is not a setting. Raises `ConfigError` for a value
    that this vLLM does not know.
    """
    engine = spec.engine
    wanted: dict[str, Any] = {
        "model": spec.model,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "max_model_len": engine.max_model_len,
        "dtype": engine.dtype,
        "kv_cache_memory_bytes": engine.kv_cache_memory_bytes,
        "load_format": engine.load_format,
        "max_cudagraph_capture_size": engine.max_cudagraph_capture_size,
        "enforce_eager": engine.enforce_eager,
        "enable_prefix_caching": engine.enable_prefix_caching,
        "quantization": engine.quantization,
        "kv_cache_dtype": engine.kv_cache_dtype,
        "tensor_parallel_size": engine.tensor_parallel_size,
        "trust_remote_code": engine.trust_remote_code,
        "scheduler_cls": SCHEDULER,
        "additional_config": StreamPacing(engine.stream_interval_ms / 1000),
        "disable_log_stats": True,
        "shutdown_timeout": int(shutdown_timeout_s),
    }
    if spec.device == "cuda":
        wanted["gpu_memory_utilization"] = engine.gpu_memory_utilization
        if engine.cudagraph_mode == "FULL" and not engine.enforce_eager:
            # The backend for which vLLM captures steps with prompts as a whole and the replays are right: with
            # FlashAttention 3 translations are wrong (benchmarks/equal_outputs.py).
            wanted["attention_config"] = {"backend": "TRITON_ATTN"}
            wanted["compilation_config"] = {"cudagraph_mode": "FULL"}
    wanted |= beside or {}
    unset = EngineSettings()
    known = {member.name for member in dataclasses.fields(AsyncEngineArgs)}
    arguments = {name: value for name, value in wanted.items() if value is not None}
    for name in arguments.keys() - known:
        if name not in _DISPENSABLE and arguments[name] != getattr(unset, name, None):
            setting = f"engine.{name}" if hasattr(unset, name) else f"the argument {name}"
            raise ConfigError(
                f"this vLLM ({vllm_version}) does not know {setting} = {arguments[name]!r}: leave it out, or install a vLLM "
                "that has it",
                param=setting,
            )
    return AsyncEngineArgs(**{name: value for name, value in arguments.items() if name in known})


def prompt_of(sequence: EngineSequence) -> Any:
    """Token ids in the form that vLLM takes without tokenising, rendering or warning."""
    return tokens_input(list(sequence.prompt_token_ids))


def sampling_params(
    sequence: EngineSequence, *, stream: bool = False, detokenize: bool = True, logprobs: bool = False
) -> SamplingParams:
    """One output item for a whole answer (`FINAL_ONLY`), deltas for a stream. Without `detokenize`: ids and no text.

    `logprobs`: the log-probability of each chosen token too, in flat lists, which `token_logprobs` reduces.
    """
    sampling = sequence.sampling
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        repetition_penalty=sampling.repetition_penalty,
        presence_penalty=sampling.presence_penalty,
        stop=list(sampling.stop) or None,
        stop_token_ids=list(sampling.stop_token_ids) or None,
        seed=sampling.seed,
        max_tokens=sequence.max_tokens,
        min_tokens=sequence.max_tokens if sequence.forced else 0,
        ignore_eos=sequence.forced,
        repetition_detection=None if sequence.forced else _LOOP,
        detokenize=detokenize,
        logprobs=0 if logprobs else None,
        flat_logprobs=logprobs,
        output_kind=RequestOutputKind.DELTA if stream else RequestOutputKind.FINAL_ONLY,
    )


def token_logprobs(values: list[float]) -> TokenLogprobs | None:
    """Mean and least of the chosen tokens' log-probabilities (`CompletionOutput.logprobs.logprobs`); None of no tokens."""
    return TokenLogprobs(sum(values) / len(values), min(values)) if values else None


@contextmanager
def translated_errors(has_crashed: Callable[[], bool] = lambda: False) -> Generator[None]:
    """Within, vLLM's errors are raised as `EngineDead`, `EngineRejected`, `EngineFailed` or `Unavailable`.

    An error of one sequence while the engine `has_crashed` comes from the crash: a closed socket, for example.
    """
    try:
        yield
    except EngineDeadError as error:
        raise EngineDead(CRASHED) from error
    except EngineGenerateError as error:
        if has_crashed():
            raise EngineDead(CRASHED) from error
        raise EngineFailed(f"the engine failed on this sequence: {error.__cause__ or error}") from error
    except _OVERFLOW as error:
        raise Unavailable(f"the engine refused the sequence: {error}") from error
    except _REFUSALS as error:
        raise EngineRejected(f"the engine refused the sequence: {error}") from error
