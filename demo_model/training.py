"""What both trainings share: averaged weights, the learning rate's course, checkpoints."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import nn


def learning_rate(
    step: int, steps: int, peak: float, warm_up_steps: int, decay_share: float
) -> float:
    """Linear warm-up, flat, then linear down to a fiftieth over the last `decay_share`."""
    warm = min(1.0, (step + 1) / warm_up_steps)
    left = (steps - step) / max(steps * decay_share, 1)
    return peak * warm * min(1.0, max(left, 0.02))


class Average:
    """An exponential moving average of a module's parameters."""

    def __init__(self, module: nn.Module, keep: float) -> None:
        self.module = copy.deepcopy(module).requires_grad_(False).eval()
        self.keep = keep

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        # A young average follows closely, so that early checkpoints are worth looking at.
        keep = min(self.keep, (1 + step) / (10 + step))
        ours: list[torch.Tensor] = list(self.module.parameters())
        torch._foreach_lerp_(ours, [p.detach() for p in module.parameters()], 1 - keep)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write beside, then rename: a checkpoint is whole or it is the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)
