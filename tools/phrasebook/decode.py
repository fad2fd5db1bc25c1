"""Greedy translation in batches with the exported model itself, for measuring it without an engine.

An engine serves users; this loop exists so that `evaluate` needs torch and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from tools.phrasebook.model import Cache, Phrasebook
from tools.phrasebook.tokenizer import EOS_ID, PAD_ID, prompt_ids


@dataclass(frozen=True, slots=True)
class Job:
    source: str
    target: str
    text: str


def translate(model: Phrasebook, tokenizer: Tokenizer, jobs: Sequence[Job], batch: int = 256) -> list[str]:
    """The translation of every job, in order. Runs where the model is; an answer may have as many tokens as twice
    its prompt and 32 more, within the model's positions."""
    prompts = [prompt_ids(tokenizer, job.source, job.target, job.text) for job in jobs]
    order = sorted(range(len(jobs)), key=lambda index: len(prompts[index]))
    answers = [""] * len(jobs)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        for index, ids in zip(chosen, _greedy(model, [prompts[index] for index in chosen]), strict=True):
            answers[index] = tokenizer.decode(ids, skip_special_tokens=False)
    return answers


@torch.inference_mode()
def _greedy(model: Phrasebook, prompts: list[list[int]]) -> list[list[int]]:
    device = next(model.parameters()).device
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    longest = int(lengths.max())
    capacity = min(model.shape.positions, 3 * longest + 32)
    cache = Cache.empty(model.shape, len(prompts), capacity, model.model.embed_tokens.weight)
    padded = torch.full((len(prompts), longest), PAD_ID)
    for row, prompt in enumerate(prompts):
        padded[row, : len(prompt)] = torch.tensor(prompt)
    hidden = model(padded.to(device), cache)
    # Rows end at different places: the next token of each overwrites its padding.
    cache.length = lengths
    token = model.logits(hidden[torch.arange(len(prompts), device=device), lengths - 1]).argmax(-1)
    return _continue(model, cache, token, capacity - longest)


def _continue(model: Phrasebook, cache: Cache, token: Tensor, steps: int) -> list[list[int]]:
    produced: list[Tensor] = []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for step in range(steps):
        ended |= token == EOS_ID
        produced.append(token)
        if step % 8 == 0 and bool(ended.all()):
            break
        token = model.logits(model(token[:, None], cache)[:, 0]).argmax(-1)
    rows: list[list[int]] = torch.stack(produced, dim=1).tolist()  # pyright: ignore[reportUnknownVariableType]
    return [row[: row.index(EOS_ID)] if EOS_ID in row else row for row in rows]
