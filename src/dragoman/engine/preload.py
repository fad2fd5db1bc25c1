"""What the fork server imports before it forks: what vLLM's engine core and its workers would import, and what compiles.

Importing this initialises no GPU and runs nothing in parallel: a fork would have a broken copy of either.
"""

from __future__ import annotations

import gc
import traceback
from contextlib import suppress
from importlib import import_module

from dragoman.engine import forkserver
from dragoman.engine.spec import device

_OF_ALL = (
    "vllm.v1.engine.core",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.executor.uniproc_executor",
    "vllm.model_executor.model_loader.default_loader",
    "dragoman.engine.scheduler",
    "vllm.compilation.backends",
    "vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors",
    "torch._dynamo.backends.inductor",
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.wrapper_fxir",
    "torch.distributed.tensor.experimental",
)
_OF_DEVICE = {
    "cpu": ("vllm.v1.worker.cpu_worker", "vllm.v1.attention.backends.cpu_attn", "torch._inductor.codegen.cpp"),
    "cuda": ("vllm.v1.worker.gpu_worker", "vllm.v1.attention.backends.triton_attn", "torch._inductor.codegen.triton"),
}


def _preload() -> None:
    with suppress(ImportError):
        import setproctitle

        setproctitle.getproctitle()  # it finds a process's title only before the environment changes
    for name in (*_OF_ALL, *_OF_DEVICE[device()]):
        try:
            import_module(name)
        except Exception:  # noqa: BLE001 - what needs it says so with the engine's start
            traceback.print_exc()
    # What each process would compute for its first compilation: a hash of torch's and Triton's source (in the key of
    # its cache), and the vector instructions that the compiler has, which it is called for.
    for name in ("torch_key", "triton_key"):
        _call("torch._inductor.codecache", name)
    if device() == "cpu":
        _call("torch._inductor.cpu_vec_isa", "pick_vec_isa")
    forkserver.use_within()
    gc.collect()
    gc.freeze()  # what was imported stays shared with what is forked


def _call(module: str, name: str) -> None:
    with suppress(Exception):  # not in every version
        getattr(import_module(module), name)()


_preload()
