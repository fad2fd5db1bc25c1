"""vLLM's `LLM`, for worker processes: a batch goes in and comes back whole.

The scheduler runs in this process too (`VLLM_ENABLE_V1_MULTIPROCESSING=0`): a worker is a process already, and a second one
behind it would cost a message for every step, which for a small model is as long as the step. Knows no sockets and no queues.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, get_args

from vllm import LLM
from vllm.engine.arg_utils import EngineArgs

from dragoman.engine.compat import engine_arguments, prompt_of, sampling_params, token_logprobs, translated_errors
from dragoman.engine.detokenize import Detokenizer
from dragoman.engine.process import keep_off_workers
from dragoman.engine.spec import EngineSpec
from dragoman.errors import EngineDead, EngineFailed, EngineRejected
from dragoman.types import Completion, CompletionReason, EngineSequence

Result = Completion | EngineRejected | EngineFailed
_REASONS = get_args(CompletionReason)


class SyncEngine:
    """One `LLM`, started by building it, used by one thread."""

    def __init__(self, spec: EngineSpec) -> None:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # a worker has threads, which no fork survives
        arguments = engine_arguments(spec)
        # `Any`: LLM's signature is wide, partly untyped, and differs between versions.
        self._llm: Any = LLM(
            **{member.name: getattr(arguments, member.name) for member in dataclasses.fields(EngineArgs)}
        )
        self._with_logprobs = spec.engine.token_logprobs and spec.engine.load_format != "dummy"
        self._detokenizer = Detokenizer(self._llm.get_tokenizer())
        if spec.device == "cpu":
            keep_off_workers([os.getpid()])

    @property
    def max_model_len(self) -> int:
        return self._llm.llm_engine.model_config.max_model_len

    def generate(self, sequences: list[EngineSequence]) -> list[Result]:
        """One result for each sequence, in order. Raises `EngineDead`, or what vLLM raised, when the engine is broken."""
        fit = [sequence for sequence in sequences if self._is_fit(sequence)]
        results = iter(self._run(fit) if fit else [])
        return [next(results) if self._is_fit(sequence) else self._too_long(sequence) for sequence in sequences]

    def _is_fit(self, sequence: EngineSequence) -> bool:
        return len(sequence.prompt_token_ids) < self.max_model_len

    def _too_long(self, sequence: EngineSequence) -> EngineRejected:
        length = len(sequence.prompt_token_ids)
        return EngineRejected(
            f"the prompt has {length} tokens and leaves none of the window of {self.max_model_len} for an answer"
        )

    def _run(self, batch: list[EngineSequence]) -> list[Result]:
        ours = [self._detokenizer.takes(sequence) for sequence in batch]
        try:
            with translated_errors():
                outputs = self._llm.generate(
                    [prompt_of(sequence) for sequence in batch],
                    [
                        sampling_params(one, detokenize=not own, logprobs=self._with_logprobs)
                        for one, own in zip(batch, ours, strict=True)
                    ],
                    use_tqdm=False,
                )
        except EngineRejected as refusal:
            if self._llm.llm_engine.has_unfinished_requests():
                raise EngineDead(f"the engine failed within a batch: {refusal}") from refusal
            # vLLM refuses a batch, before it runs, for one bad sequence and says not which: each then runs by itself.
            return [refusal] if len(batch) == 1 else [self._run([sequence])[0] for sequence in batch]
        return [self._result(output, own) for output, own in zip(outputs, ours, strict=True)]

    def _result(self, output: Any, ours: bool) -> Result:
        answer = output.outputs[0]
        if answer.finish_reason not in _REASONS:
            return EngineFailed(f"the engine ended a sequence with {answer.finish_reason!r}")
        text = self._detokenizer.text_of(answer, taken=ours)
        return Completion(
            text,
            answer.finish_reason,
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=len(answer.token_ids),
            logprobs=token_logprobs(answer.logprobs.logprobs) if answer.logprobs else None,
        )

    def close(self) -> None:
        """End the processes that vLLM started for this engine, if any."""
        self._llm.llm_engine.engine_core.shutdown()
