"""The phrasebook model: a small Llama in plain PyTorch, weight for weight the one that transformers and vLLM load.

Pre-norm RMSNorm, rotary positions, SwiGLU, grouped-query attention and tied embeddings (Touvron et al. 2023,
arXiv:2302.13971). Parameter names are those of transformers' `LlamaForCausalLM`. The module knows shapes only; no
tokens, languages or data.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tools.phrasebook.shape import Shape


@dataclass(slots=True)
class Cache:
    """Keys and values of every layer, (batch, kv heads, capacity, head_dim), filled up to `length` of each row."""

    keys: list[Tensor] = field(repr=False)
    values: list[Tensor] = field(repr=False)
    length: Tensor

    @classmethod
    def empty(cls, shape: Shape, batch: int, capacity: int, like: Tensor) -> "Cache":
        size = (batch, shape.kv_heads, capacity, shape.head_dim)
        keys = [like.new_zeros(size) for _ in range(shape.layers)]
        values = [like.new_zeros(size) for _ in range(shape.layers)]
        return cls(keys, values, torch.zeros(batch, dtype=torch.long, device=like.device))


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, width, bias=False)
        self.k_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.o_proj = nn.Linear(width, shape.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None, layer: int) -> Tensor:
        batch, length, _ = x.shape
        grouped = self.shape.heads != self.shape.kv_heads
        q, k, v = (
            project(x).view(batch, length, -1, self.shape.head_dim).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = _rotate(q, cos, sin).to(v.dtype), _rotate(k, cos, sin).to(v.dtype)
        if cache is None:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        else:
            keys, values, mask = _extend(cache, layer, k, v)
            mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=grouped)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


def _extend(cache: Cache, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Writes keys and values behind those of each row; the mask lets a query see what came before it in its row."""
    batch, _, length, _ = k.shape
    keys, values = cache.keys[layer], cache.values[layer]
    at = cache.length[:, None] + torch.arange(length, device=k.device)
    rows = torch.arange(batch, device=k.device)[:, None]
    keys[rows, :, at] = k.transpose(1, 2)
    values[rows, :, at] = v.transpose(1, 2)
    mask = torch.arange(keys.shape[2], device=k.device) <= at[:, None, :, None]
    return keys, values, mask


class MLP(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)
        self.mlp = MLP(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None, layer: int) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache, layer)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    """The model without its output projection."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)

    def forward(self, ids: Tensor, cache: Cache | None) -> Tensor:
        start = 0 if cache is None else cache.length[:, None]
        cos, sin = self._angles(start + torch.arange(ids.shape[1], device=ids.device))
        x = self.embed_tokens(ids)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        for number, layer in enumerate(self.layers):
            x = layer(x, cos, sin, cache, number)
        if cache is not None:
            cache.length = cache.length + ids.shape[1]
        return self.norm(x)

    def _angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.arange(0, self.shape.head_dim, 2, device=positions.device).float() / self.shape.head_dim
        angles = positions[..., None].float() * self.shape.rope_theta**-steps
        angles = torch.cat((angles, angles), dim=-1)
        if positions.dim() == 2:
            angles = angles[:, None]
        return angles.cos(), angles.sin()


class Phrasebook(nn.Module):
    """The language model. `forward` gives hidden states, (batch, length, hidden); `logits` projects them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Trunk(shape)

    def forward(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        return self.model(ids, cache)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.model.embed_tokens.weight)

    def parameters_total(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


def initialise(model: Phrasebook, seed: int) -> None:
    """Normal weights of deviation 0.02, smaller where a layer writes to the residual stream (GPT-2's scheme)."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            continue
        writes = name.endswith(("o_proj.weight", "down_proj.weight"))
        deviation = 0.02 / (2 * model.shape.layers) ** 0.5 if writes else 0.02
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation)
