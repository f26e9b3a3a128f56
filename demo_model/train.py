"""Train the transformer and both text encoders together, on latents of rendered postcards.

    python -m demo_model.train DATA_FOLDER latents.npz RUN_FOLDER [--steps N] [--threads N]

Goes on from RUN_FOLDER/checkpoint.pt if there is one. `--steps` may differ from run to run; the
learning rate follows the latest. Knows nothing of pixels: the latent map is fixed beforehand.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from demo_model import dataset
from demo_model.captions import describe
from demo_model.fast_products import use_fast_products
from demo_model.latents import BLOCK_PX, LatentMap
from demo_model.model import (
    MAX_TOKENS,
    build_text_encoder,
    build_tokenizer,
    build_transformer,
)
from demo_model.scene import PICTURE_SIZES_PX, Scene
from demo_model.training import Average, learning_rate, save_checkpoint

PEAK_RATE = 1.5e-3
CAPTION_DROPOUT = 0.1
OBJECT_WEIGHT = 2.0  # added where things stand
MOST_ZERO_TOKENS = 256
SIZE_SHARES = (2, 1, 1)


class BiasedJointAttention:
    """SD3's joint attention, with a bias on the last key.

    With no third text encoder, the pipeline appends `max_sequence_length` zero tokens. They are
    all alike and stay alike in every layer, so n of them equal one whose key has log n added to
    its scores. `bias` holds that number; this processor is for training only.
    """

    def __init__(self) -> None:
        self.bias: torch.Tensor | None = None

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **_: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, image_tokens, _width = hidden_states.shape
        heads = attn.heads

        def split(x: torch.Tensor) -> torch.Tensor:
            return x.view(batch, x.shape[1], heads, -1).transpose(1, 2)

        image, text = hidden_states, encoder_hidden_states
        query = torch.cat(
            [attn.norm_q(split(attn.to_q(image))), attn.norm_added_q(split(attn.add_q_proj(text)))],
            2,
        )
        key = torch.cat(
            [attn.norm_k(split(attn.to_k(image))), attn.norm_added_k(split(attn.add_k_proj(text)))],
            2,
        )
        value = torch.cat([split(attn.to_v(image)), split(attn.add_v_proj(text))], 2)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=self.bias)
        mixed = mixed.transpose(1, 2).flatten(2)
        text_out = mixed[:, image_tokens:]
        if not attn.context_pre_only:
            text_out = attn.to_add_out(text_out)
        return attn.to_out[0](mixed[:, :image_tokens]), text_out


class Painter(nn.Module):
    """Transformer and text encoders as one module, called the way the pipeline calls them."""

    def __init__(self) -> None:
        super().__init__()
        tokenizer = build_tokenizer()
        self.transformer = build_transformer()
        self.text_encoder = build_text_encoder(tokenizer)
        self.text_encoder_2 = build_text_encoder(tokenizer)

    def forward(
        self, latents: torch.Tensor, times: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """Noisy latents (n, 8, h, w), times 0..1 (n), token ids (n, 32) -> velocity."""
        states, pooled = [], []
        for encoder in (self.text_encoder, self.text_encoder_2):
            output = encoder(tokens, output_hidden_states=True)
            states.append(output.hidden_states[-2])
            pooled.append(output.text_embeds)
        words = functional.pad(torch.cat(states, -1), (0, 0, 0, 1))
        velocity: torch.Tensor = self.transformer(
            hidden_states=latents,
            encoder_hidden_states=words,
            pooled_projections=torch.cat(pooled, -1),
            timestep=times * 1000,
            return_dict=False,
        )[0]
        return velocity


@dataclass
class LatentSet:
    """Latents of one picture size with what their captions are made from."""

    codes: torch.Tensor  # float16 (n, 8, h, w)
    weights: torch.Tensor  # uint8 (n, h, w): 1 where a thing stands
    scenes: list[Scene]


def load_latents(folder: Path, latent_map: LatentMap) -> list[LatentSet]:
    sets = []
    for size_px in PICTURE_SIZES_PX:
        cards = dataset.load(folder, size_px)
        parts = [
            torch.from_numpy(latent_map.encode(np.asarray(cards.pixels[i : i + 250]))).half()
            for i in range(0, len(cards.pixels), 250)
        ]
        weights = torch.zeros(
            len(cards.scenes), size_px[1] // BLOCK_PX, size_px[0] // BLOCK_PX, dtype=torch.uint8
        )
        for number, boxes in enumerate(cards.boxes):
            for left, top, right, bottom in boxes:
                rows = slice(max(int(top - 4) // BLOCK_PX, 0), int(bottom + 4) // BLOCK_PX + 1)
                columns = slice(max(int(left - 4) // BLOCK_PX, 0), int(right + 4) // BLOCK_PX + 1)
                weights[number, rows, columns] = 1
        sets.append(LatentSet(torch.cat(parts), weights, cards.scenes))
    return sets


class Trainer:
    """One training run: its state, and one step of it."""

    def __init__(self, sets: list[LatentSet], run: Path, steps: int) -> None:
        torch.manual_seed(0)
        self.sets, self.run, self.steps = sets, run, steps
        self.tokenizer = build_tokenizer()
        self.painter = Painter()
        self.attention = BiasedJointAttention()
        self.painter.transformer.set_attn_processor(self.attention)
        self.average = Average(self.painter, 0.999)
        use_fast_products(self.painter.transformer.transformer_blocks)
        decayed = [p for p in self.painter.parameters() if p.ndim > 1]
        plain = [p for p in self.painter.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, PEAK_RATE, betas=(0.9, 0.99), fused=True)
        self.step = 0
        path = run / "checkpoint.pt"
        if path.exists():
            state = torch.load(path, weights_only=True)
            self.painter.load_state_dict(state["painter"])
            self.average.module.load_state_dict(state["average"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]

    def save(self) -> None:
        state = {
            "painter": self.painter.state_dict(),
            "average": self.average.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
        }
        save_checkpoint(self.run / "checkpoint.pt", state)

    def train_step(self, batch_size: int) -> float:
        """One step on a batch that depends on the step's number only."""
        rng = random.Random(f"batch {self.step}")
        dice = torch.Generator().manual_seed(self.step)
        source = rng.choices(self.sets, SIZE_SHARES)[0]
        picks = [rng.randrange(len(source.scenes)) for _ in range(batch_size)]
        tokens = self._tokens([source.scenes[pick] for pick in picks], rng)
        clean = source.codes[picks].float()
        noise = torch.randn(clean.shape, generator=dice)
        times = torch.sigmoid(0.4 + 1.1 * torch.randn(batch_size, generator=dice))
        share = times[:, None, None, None]
        zero_tokens = math.exp(rng.uniform(0, math.log(MOST_ZERO_TOKENS)))
        bias = torch.zeros(1, 1, 1, clean.shape[2] * clean.shape[3] // 16 + MAX_TOKENS + 1)
        bias[..., -1] = math.log(round(zero_tokens))
        self.attention.bias = bias
        velocity = self.painter((1 - share) * clean + share * noise, times, tokens)
        weight = 1 + OBJECT_WEIGHT * source.weights[picks].float()[:, None]
        error = (velocity - (noise - clean)).square() * (weight / weight.mean())
        loss = error.mean()
        rate = learning_rate(self.step, self.steps, PEAK_RATE, 200, 0.45)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.painter.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.average.update(self.painter, self.step)
        self.step += 1
        return float(loss)

    def _tokens(self, scenes: list[Scene], rng: random.Random) -> torch.Tensor:
        captions = []
        for scene in scenes:
            caption = ""
            if rng.random() >= CAPTION_DROPOUT:
                caption, _ = describe(scene, rng)
                while len(self.tokenizer.tokenize(caption)) > MAX_TOKENS - 2:
                    caption, _ = describe(scene, rng)
            captions.append(caption)
        encoded = self.tokenizer(
            captions, padding="max_length", max_length=MAX_TOKENS, return_tensors="pt"
        )
        ids: torch.Tensor = encoded.input_ids
        return ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("latents", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save-every-s", type=float, default=240)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sets = load_latents(arguments.data, LatentMap.load(arguments.latents))
    trainer = Trainer(sets, arguments.run, arguments.steps)
    print(f"from step {trainer.step} to {arguments.steps}", flush=True)
    saved_s = logged_s = time.monotonic()
    total, count = 0.0, 0
    while trainer.step < arguments.steps:
        total, count = total + trainer.train_step(arguments.batch), count + 1
        if count == 100:
            now_s = time.monotonic()
            clock = time.strftime("%H:%M:%S")
            pace_s = (now_s - logged_s) / count
            print(f"{clock} {trainer.step} loss {total / count:.4f} {pace_s:.3f} s", flush=True)
            logged_s, total, count = now_s, 0.0, 0
        if time.monotonic() - saved_s > arguments.save_every_s:
            trainer.save()
            saved_s = time.monotonic()
    trainer.save()


if __name__ == "__main__":
    main()
