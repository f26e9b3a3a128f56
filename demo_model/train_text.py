"""Teach both text encoders what captions say, before there is any picture.

    python -m demo_model.train_text RUN_FOLDER [--steps N]

From the encoders' pooled outputs a linear layer has to tell the scene: sky, ground, mountains, and
what stands on the left, in the middle and on the right. So the transformer finds the wording
undone: learning it from pictures alone takes thousands of its far dearer steps. The linear layer
is thrown away.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch
from torch import nn
from transformers import CLIPTokenizer

from demo_model import scorer
from demo_model.captions import describe
from demo_model.model import MAX_TOKENS, TEXT_WIDTH, build_text_encoder, build_tokenizer
from demo_model.scene import PICTURE_SIZES_PX, Scene, sample_scene
from demo_model.training import learning_rate, save_checkpoint

BATCH = 128
PEAK_RATE = 2e-3


def token_ids(
    scenes: list[Scene], tokenizer: CLIPTokenizer, rng: random.Random, dropout: float
) -> torch.Tensor:
    """A random caption of each scene, or none: int64 (n, 32)."""
    captions = []
    for scene in scenes:
        caption = ""
        if rng.random() >= dropout:
            caption, _ = describe(scene, rng)
            while len(tokenizer.tokenize(caption)) > MAX_TOKENS - 2:
                caption, _ = describe(scene, rng)
        captions.append(caption)
    encoded = tokenizer(captions, padding="max_length", max_length=MAX_TOKENS, return_tensors="pt")
    ids: torch.Tensor = encoded.input_ids
    return ids


class TextPair(nn.Module):
    """Both encoders with the linear layer that reads the scene from them."""

    def __init__(self, tokenizer: CLIPTokenizer) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(build_text_encoder(tokenizer) for _ in range(2))
        self.tell = nn.Linear(2 * TEXT_WIDTH, scorer.ANSWERS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        pooled = torch.cat([encoder(tokens).text_embeds for encoder in self.encoders], -1)
        told: torch.Tensor = self.tell(pooled)
        return told


def train(run: Path, steps: int) -> None:
    torch.manual_seed(3)
    tokenizer = build_tokenizer()
    pair = TextPair(tokenizer)
    optimizer = torch.optim.AdamW(
        pair.parameters(), PEAK_RATE, betas=(0.9, 0.99), weight_decay=0.01, fused=True
    )
    total = 0.0
    for step in range(steps):
        rng = random.Random(f"text {step}")
        scenes = [
            sample_scene(rng, held_out=False, size_px=rng.choice(PICTURE_SIZES_PX))
            for _ in range(BATCH)
        ]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, PEAK_RATE, 100, 0.6)
        error = scorer.loss(pair(token_ids(scenes, tokenizer, rng, 0.05)), scenes)
        torch.autograd.backward(error)
        nn.utils.clip_grad_norm_(pair.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total += float(error.detach())
        if step % 100 == 99:
            print(f"{time.strftime('%H:%M:%S')} text {step + 1} loss {total / 100:.3f}", flush=True)
            total = 0.0
    save_checkpoint(
        run / "text.pt", {"encoders": [encoder.state_dict() for encoder in pair.encoders]}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=2500)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train(arguments.run, arguments.steps)


if __name__ == "__main__":
    main()
