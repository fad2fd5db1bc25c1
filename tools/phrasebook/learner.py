"""One training run's state: the model, its optimiser and schedule, one step, and the checkpoint that resumes it.

The learning rate warms up over the first steps, stays, and falls to zero over the last part of the budget (WSD:
Hu et al. 2024, arXiv:2404.06395). It does not know where batches come from nor when the budget ends; progress in
[0, 1] is told to it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tools.phrasebook.batches import Batch
from tools.phrasebook.model import Phrasebook, initialise
from tools.phrasebook.shape import Shape

_WARM_UP_STEPS = 300
_DECAY_SHARE = 0.35
_CLIP = 1.0


def rate(step: int, progress: float) -> float:
    """The learning rate as a share of its peak."""
    warm = min(1.0, (step + 1) / _WARM_UP_STEPS)
    return warm * min(1.0, max(0.0, 1.0 - progress) / _DECAY_SHARE)


@dataclass(slots=True)
class Tally:
    """What a run has used so far."""

    step: int = 0
    tokens: int = 0
    elapsed_s: float = 0.0
    sessions: int = 0


class Learner:
    """Trains one model on one device."""

    def __init__(self, shape: Shape, device: torch.device, seed: int, peak_rate: float, compile_model: bool) -> None:
        self.device = device
        self.tally = Tally()
        self.peak_rate = peak_rate
        self.model = Phrasebook(shape)
        initialise(self.model, seed)
        self.model.to(device)
        self.optimiser = torch.optim.AdamW(_groups(self.model), lr=peak_rate, betas=(0.9, 0.95), fused=True)
        self._run: Any = torch.compile(self.model, dynamic=True) if compile_model else self.model

    def step(self, batch: Batch, progress: float) -> Tensor:
        """One optimiser step; the mean loss per answer token, still on the device."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.peak_rate * rate(self.tally.step, progress)
        loss = self.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), _CLIP)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.tally.step += 1
        self.tally.tokens += batch.ids.numel()
        return loss.detach()

    def loss(self, batch: Batch) -> Tensor:
        ids = batch.ids.to(self.device, torch.long, non_blocking=True)
        learn = batch.learn.to(self.device, non_blocking=True)
        # Few CPUs compute bfloat16 faster than float32.
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            hidden: Tensor = self._run(ids)
            logits = self.model.logits(hidden.flatten(0, 1).index_select(0, learn))
        return F.cross_entropy(logits.float(), ids.flatten().index_select(0, learn + 1))

    @torch.no_grad()
    def held_out_loss(self, batches: list[Batch]) -> float:
        return sum(float(self.loss(batch)) for batch in batches) / len(batches)

    def save(self, path: Path, extra: Mapping[str, Any]) -> None:
        """Writes everything that `restore` needs, in one step: an interrupted save leaves the old file."""
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "tally": asdict(self.tally),
            **extra,
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(path)

    def restore(self, path: Path) -> dict[str, Any]:
        """Continues from a checkpoint; returns it, for what the caller had put there."""
        state = cast("dict[str, Any]", torch.load(path, map_location=self.device, weights_only=True))
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.tally = Tally(**state["tally"])
        return state


def _groups(model: Phrasebook) -> list[dict[str, Any]]:
    """Decay for the matrices, none for embeddings and norms."""
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.dim() != 2 or "embed" in name]
    return [{"params": matrices, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}]
