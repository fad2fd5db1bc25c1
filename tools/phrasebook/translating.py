"""Translates texts with a packaged model: by its weights alone, or by a running server that has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import httpx
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from tools.phrasebook import tokenizer
from tools.phrasebook.adequacy import Translate
from tools.phrasebook.model import load as load_model
from tools.phrasebook.tokenizer import EOS_ID, PAD_ID, prompt_ids


def of_weights(directory: Path, device: str = "cpu", batch: int = 512) -> Translate:
    """By transformers, greedily, in bfloat16 on a GPU and in float32 on a CPU. Raises ConfigError where there are none."""
    # Few CPUs compute bfloat16 faster than float32.
    loaded = load_model(directory, torch.float32 if device == "cpu" else torch.bfloat16)
    return greedy(cast(LlamaForCausalLM, cast(Any, loaded).to(device)), tokenizer.load(directory), batch)


def greedy(model: LlamaForCausalLM, fitted: Tokenizer, batch: int = 256) -> Translate:
    """Greedily, where the model is. An answer may have as many tokens as twice its prompt and 32 more, within the model's
    positions."""

    def translated(texts: list[str], source: str, target: str) -> list[str]:
        prompts = [prompt_ids(fitted, source, target, text) for text in texts]
        order = sorted(range(len(texts)), key=lambda index: len(prompts[index]))
        answers = [""] * len(texts)
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            rows = _generated(model, [prompts[index] for index in chosen])
            for index, row in zip(chosen, rows, strict=True):
                end = row.index(EOS_ID) if EOS_ID in row else len(row)
                answers[index] = fitted.decode(row[:end], skip_special_tokens=False)
        return answers

    return translated


def _generated(model: LlamaForCausalLM, prompts: list[list[int]]) -> list[list[int]]:
    """The tokens after each prompt. The last prompt is the longest."""
    longest = len(prompts[-1])
    ids = torch.full((len(prompts), longest), PAD_ID)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
    ids = ids.to(model.device)
    limit = min(2 * longest + 32, model.config.max_position_embeddings - longest)
    output = cast(Any, model).generate(
        ids, attention_mask=(ids != PAD_ID).long(), do_sample=False, max_new_tokens=limit
    )
    return output[:, longest:].tolist()


def of_server(url: str) -> Translate:
    """By a running server, checks and all."""

    def translated(texts: list[str], source: str, target: str) -> list[str]:
        body = {"text": texts, "source": source, "target": target}
        answer = httpx.post(f"{url}/v1/translate", json=body, timeout=600).raise_for_status().json()
        return [one["text"] for one in answer["translations"]]

    return translated
