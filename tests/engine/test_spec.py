"""Every number is decided before vLLM is asked for anything."""

from __future__ import annotations

from dataclasses import replace

from dragoman import phrasebook
from dragoman.engine.spec import resolve
from dragoman.settings import GRAPH_CEILING, PREFILL_INTERVAL, EngineSettings

PLAIN = EngineSettings()
MODEL = str(phrasebook.model_dir())


def test_on_a_gpu_steps_fit_graphs_and_prompts_wait_for_each_other() -> None:
    engine = resolve(MODEL, PLAIN, "cuda").engine
    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (256, 8192)
    assert (engine.max_cudagraph_capture_size, engine.prefill_schedule_interval) == (GRAPH_CEILING, PREFILL_INTERVAL)
    few = resolve(MODEL, replace(PLAIN, max_num_seqs=8), "cuda").engine
    assert few.max_cudagraph_capture_size == GRAPH_CEILING


def test_a_step_that_cannot_be_so_large_needs_no_graph_for_it() -> None:
    engine = resolve(MODEL, replace(PLAIN, max_num_batched_tokens=300), "cuda").engine
    assert engine.max_cudagraph_capture_size == 300


def test_without_graphs_there_is_no_ceiling_and_none_waits() -> None:
    eager = resolve(MODEL, replace(PLAIN, enforce_eager=True), "cuda").engine
    assert (eager.max_cudagraph_capture_size, eager.prefill_schedule_interval) == (None, 1)
    none = resolve(MODEL, replace(PLAIN, max_cudagraph_capture_size=0), "cuda").engine
    assert (none.max_cudagraph_capture_size, none.prefill_schedule_interval) == (0, 1)


def test_on_a_cpu_there_are_no_graphs_and_none_waits() -> None:
    engine = resolve(MODEL, PLAIN, "cpu").engine
    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (64, 2048)
    assert (engine.max_cudagraph_capture_size, engine.prefill_schedule_interval) == (None, 1)


def test_what_was_set_stays() -> None:
    given = replace(PLAIN, max_cudagraph_capture_size=64, prefill_schedule_interval=2, max_num_seqs=3)
    for device in ("cuda", "cpu"):
        engine = resolve(MODEL, given, device).engine
        assert (engine.max_cudagraph_capture_size, engine.prefill_schedule_interval, engine.max_num_seqs) == (64, 2, 3)
