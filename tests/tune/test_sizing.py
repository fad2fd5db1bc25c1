from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman_bench.tune.demand import Demand, PromptShape
from dragoman_bench.tune.points import Knobs, KvCache, Level, Place, Seen, Setup, Trial
from dragoman_bench.tune.sizing import Sizer, with_memory
from tests.tune.lab import demand
from tests.tune.simulation import CPU, GIB, GPU

TOKEN = 147_456


def trial(cache: KvCache | None, utilization: float | None = 0.9, usage: float | None = None) -> Trial:
    seen = Seen(Level(25), 0, 10.0, 100, 100, 0, 10.0, peak_kv_cache_usage=usage)
    setup = Setup(Knobs(64, 8192))
    engine = {"max_model_len": 2048}
    return Trial("ladder", "ladder", setup, "", "measured", "", (seen,), 30.0, cache, utilization, engine)


def on_gpu(of: Demand, *, tokens: int = 800_000, usage: float | None = None) -> Sizer:
    return Sizer(of, GPU.place, trial(KvCache(tokens, TOKEN), usage=usage))


def test_a_gpu_keeps_what_is_beside_the_cache_and_gives_the_cache_what_is_needed() -> None:
    memory = on_gpu(demand()).size(64)
    beside = 0.9 * GPU.place.memory_bytes - 800_000 * TOKEN

    assert memory.setting == "gpu_memory_utilization"
    assert memory.value is not None
    given = (memory.value * GPU.place.memory_bytes - beside) / TOKEN
    assert memory.wanted_tokens <= given < memory.wanted_tokens + 0.011 * GPU.place.memory_bytes / TOKEN
    assert memory.saved_bytes == pytest.approx((800_000 - memory.wanted_tokens) * TOKEN)


def test_a_cpu_gets_whole_mebibytes() -> None:
    memory = Sizer(demand(), CPU.place, trial(KvCache(349_525, 12_288), None)).size(64)

    assert memory.setting == "kv_cache_memory_bytes"
    assert isinstance(memory.value, int)
    assert memory.value % (1 << 20) == 0
    assert 0 <= memory.value - memory.wanted_tokens * 12_288 < 1 << 20


def test_what_is_wanted_is_a_quarter_more_than_the_fullest_draw() -> None:
    memory = on_gpu(demand((2, 25, 100))).size(128)

    assert memory.needed_tokens >= demand().peak_tokens(100)
    assert memory.wanted_tokens >= 1.25 * memory.needed_tokens


def test_texts_beyond_the_slots_wait_outside_the_cache() -> None:
    sizer = on_gpu(demand((2, 25, 100)))

    assert sizer.size(8).needed_tokens < sizer.size(64).needed_tokens < sizer.size(100).needed_tokens
    assert sizer.size(100).needed_tokens == sizer.size(1024).needed_tokens


def test_a_few_very_long_texts_want_a_larger_cache() -> None:
    assert on_gpu(demand(long=(6, 1500))).size(64).wanted_tokens > 1.3 * on_gpu(demand()).size(64).wanted_tokens


def test_no_cache_is_smaller_than_one_sequence_of_the_window() -> None:
    assert on_gpu(demand((1, 1, 1))).size(1).wanted_tokens == 2048


def test_a_cache_that_was_fuller_than_the_simulation_says_is_believed() -> None:
    expected = on_gpu(demand()).size(64)
    full = 2 * (demand().peak_tokens(25) + 25 * 16) / 800_000

    assert on_gpu(demand(), usage=full).size(64).needed_tokens > 1.8 * expected.needed_tokens
    assert on_gpu(demand(), usage=0.001).size(64) == expected


def test_a_larger_factor_gives_a_larger_cache() -> None:
    sizer = on_gpu(demand())

    assert sizer.size(64, 1.6).wanted_tokens == pytest.approx(1.6 * sizer.size(64).wanted_tokens, abs=2)


def test_no_more_is_given_than_there_is() -> None:
    small = Place("cuda", 12 * GIB, 1)
    sizer = Sizer(demand((2, 25, 400)), small, trial(KvCache(9_000, TOKEN)))

    memory = sizer.size(512)

    assert memory.value == 0.95
    assert "more than the" in memory.because
    assert memory.wanted_tokens > (sizer.most_tokens() or 0)


def test_only_as_many_slots_fit_as_there_is_cache_for() -> None:
    small = Place("cuda", 12 * GIB, 1)
    sizer = Sizer(demand((2, 25, 400)), small, trial(KvCache(9_000, TOKEN)))

    slots = sizer.slots_that_fit(512)

    assert 1 < slots < 100
    assert sizer.size(slots).wanted_tokens <= (sizer.most_tokens() or 0) < sizer.size(slots + 1).wanted_tokens
    assert on_gpu(demand()).slots_that_fit(64) == 64


@pytest.mark.parametrize("cache", [None, KvCache(1000, None)])
def test_a_server_that_does_not_say_what_a_token_takes_keeps_its_size(cache: KvCache | None) -> None:
    sizer = Sizer(demand(), GPU.place, trial(cache))

    memory = sizer.size(64)

    assert memory.value is None
    assert memory.needed_tokens > 0
    assert with_memory(Knobs(64), memory) == Knobs(64)
    assert sizer.slots_that_fit(64) == 64


def test_texts_in_pieces_take_a_block_more_for_each_piece() -> None:
    whole, cut = demand(), replace(demand(), shape=PromptShape(0, piece_tokens=20))

    assert cut.sequences(25) > 50
    assert on_gpu(cut).size(64).needed_tokens > on_gpu(replace(whole, shape=PromptShape(0))).size(64).needed_tokens


def test_the_size_becomes_a_knob() -> None:
    memory = on_gpu(demand()).size(64)

    assert with_memory(Knobs(64), memory) == Knobs(64, gpu_memory_utilization=memory.value)
    assert with_memory(Knobs(64), None) == Knobs(64)
