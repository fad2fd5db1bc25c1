from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Gpu, Machine
from dragoman_bench.tune.contenders import contenders, parse_baselines, serve_defaults, shared, sharing_of
from dragoman_bench.tune.outcome import Memory
from dragoman_bench.tune.points import Knobs, KvCache, Place, Setup, Trial

GIB = 2**30
H200 = Place("cuda", 140 * GIB, 1)
TWO_CORES = Place("cpu", 24 * GIB)
FINALIST = Knobs(16, 8192, 512, 0.2)
ALL = ("vllm-serve", "embedder", "story")


def machine(*gpus: str) -> Machine:
    return Machine("Linux", "x86_64", "a CPU", 16, 64.0, tuple(Gpu(n, name, 1.0) for n, name in enumerate(gpus)))


def test_baselines_are_what_somebody_serves_with_who_tunes_nothing() -> None:
    found = {one.name: one for one in contenders(FINALIST, ALL, H200, machine("NVIDIA H200"), None)}
    assert list(found) == ["finalist", "vllm-serve", "embedder", "story"]
    assert found["finalist"].setup == Setup(FINALIST)
    assert found["vllm-serve"].setup == Setup(Knobs(), "vllm")
    assert found["vllm-serve"].alone == Knobs(1024, 8192, 512, 0.92)
    assert found["embedder"].setup == Setup(Knobs(128, 2048, 256, 0.92))
    assert found["story"].setup == Setup(Knobs(16, 8192, 32, 0.3))


def test_of_equals_defaults_come_before_the_finalist_and_another_s_numbers_after_it() -> None:
    found = contenders(FINALIST, ALL, H200, machine(), None)
    ordered = sorted(found, key=lambda one: one.simplicity)
    assert [one.name for one in ordered] == ["vllm-serve", "embedder", "finalist", "story"]


def test_without_a_gpu_each_gets_the_same_kv_cache() -> None:
    found = contenders(Knobs(8, 2048, kv_cache_memory_bytes=GIB), ALL, TWO_CORES, machine(), GIB)
    assert {one.setup.knobs.kv_cache_memory_bytes for one in found} == {GIB}
    assert {one.setup.knobs.gpu_memory_utilization for one in found} == {None}
    assert found[1].setup == Setup(Knobs(kv_cache_memory_bytes=GIB), "vllm")
    assert found[2].alone == Knobs(128, 2048)


@pytest.mark.parametrize(
    ("place", "gpu", "defaults"),
    [
        (TWO_CORES, None, (128, 2048)),
        (Place("cuda", 24 * GIB, 1), "NVIDIA GeForce RTX 4090", (256, 2048)),
        (Place("cuda", 80 * GIB, 1), "NVIDIA A100-SXM4-80GB", (256, 2048)),
        (Place("cuda", 80 * GIB, 1), "NVIDIA H100 80GB HBM3", (1024, 8192)),
        (Place("cuda", 180 * GIB, 1), "NVIDIA B200", (1024, 16384)),
    ],
)
def test_vllm_serve_chooses_by_device(place: Place, gpu: str | None, defaults: tuple[int, int]) -> None:
    assert serve_defaults(place, machine(*([gpu] if gpu else []))) == defaults


def test_baselines_are_chosen_by_name() -> None:
    assert parse_baselines("story, vllm-serve") == ("vllm-serve", "story")
    assert parse_baselines("none") == ()
    with pytest.raises(ConfigError, match="no baseline 'sory'"):
        parse_baselines("sory")


def memory(wanted_tokens: int) -> Memory:
    return Memory(1, 1.25, wanted_tokens, None, None, "gpu_memory_utilization", None, None, "")


def ladder(tokens: int) -> Trial:
    """Half of the H200's 140 GiB: `tokens` of 1 MiB each and what the model takes."""
    cache = KvCache(tokens, float(2**20))
    return Trial("ladder", "ladder", Setup(Knobs()), "", kv_cache=cache, gpu_memory_utilization=0.5)


def test_all_share_a_gpu_where_the_model_and_the_needed_cache_fit_each_share() -> None:
    sharing = sharing_of(4, H200, memory(10 * 1024), [ladder(60 * 1024)])  # 10 GiB of model, 10 of cache, 33.6 each
    assert sharing.together
    assert sharing.share == 0.24
    one = contenders(FINALIST, ALL, H200, machine(), None)[1]
    assert shared(one, sharing).setup == Setup(Knobs(gpu_memory_utilization=0.24), "vllm")
    assert shared(one, sharing).alone == one.alone


def test_where_they_do_not_fit_beside_each_other_one_is_up_at_a_time() -> None:
    sharing = sharing_of(4, H200, memory(30 * 1024), [ladder(60 * 1024)])  # 10 + 30 GiB
    assert not sharing.together
    assert "40.0 GiB each" in sharing.told


def test_where_the_server_does_not_tell_its_cache_sharing_is_tried() -> None:
    untold = Trial("ladder", "ladder", Setup(Knobs()), "")
    assert sharing_of(4, H200, memory(30 * 1024), [untold]).share == 0.24
    assert sharing_of(4, H200, None, [ladder(1)]).together


def test_a_cpus_memory_is_shared_as_it_comes() -> None:
    sharing = sharing_of(4, TWO_CORES, memory(1), [])
    one = contenders(FINALIST, ALL, TWO_CORES, machine(), GIB)[0]
    assert (sharing.together, sharing.share) == (True, None)
    assert shared(one, sharing) == one
