"""Train the transformer and both text encoders together, on latents of rendered postcards.

    python -m demo_model.train DATA_FOLDER latents.npz RUN_FOLDER [--steps N] [--workers N]
        [--start PIPELINE_FOLDER] [--peak-rate RATE]

Needs RUN_FOLDER/text.pt (`train_text`). Goes on from RUN_FOLDER/checkpoint.pt if there is one.
`--steps` may differ from run to run; the learning rate follows the latest. Each worker is a process
with one thread and its share of every batch: on a CPU shared with others that beats threads, which
wait for each other at every layer. Knows nothing of pixels: the latent map is fixed beforehand.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import pickle
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from demo_model import dataset
from demo_model.latents import BLOCK_PX, LatentMap
from demo_model.model import (
    MAX_TOKENS,
    build_text_encoder,
    build_tokenizer,
    build_transformer,
)
from demo_model.muon import Muon, SharedUpdates
from demo_model.scene import PICTURE_SIZES_PX, Scene
from demo_model.train_text import token_ids
from demo_model.training import Average, learning_rate, save_checkpoint

PEAK_RATE = 1.5e-3
MUON_SHARE = 2.5  # its rate, of AdamW's
TEXT_SHARE = 0.2  # the text encoders' rate: they come trained
WEIGHT_DECAY = 0.01
CAPTION_DROPOUT = 0.1
DECAY_SHARE = 0.6
LAYOUT_SHARE = 0.4
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

    def load_text(self, path: Path) -> None:
        """The encoders that `train_text` made."""
        states = torch.load(path, weights_only=True)["encoders"]
        for encoder, state in zip((self.text_encoder, self.text_encoder_2), states, strict=True):
            encoder.load_state_dict(state)

    def start_from(self, folder: Path) -> None:
        """A trained pipeline's transformer, as saved by diffusers."""
        state = load_file(folder / "transformer" / "diffusion_pytorch_model.safetensors")
        self.transformer.load_state_dict({name: value.float() for name, value in state.items()})

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


def load_latents(folder: Path, latent_map: LatentMap, cache: Path) -> list[LatentSet]:
    """All latents in memory. A run that goes on takes them from its cache."""
    if cache.exists():
        with cache.open("rb") as file:
            return [LatentSet(*parts) for parts in pickle.load(file)]
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
    cache.parent.mkdir(parents=True, exist_ok=True)
    with cache.open("wb") as file:
        pickle.dump([(s.codes, s.weights, s.scenes) for s in sets], file)
    return sets


class SharedGradients:
    """Sums gradients over workers through shared memory; every worker reads the same sum."""

    def __init__(self, workers: int, count: int) -> None:
        self.workers = workers
        # Two buffers in turn: no worker can be more than one barrier ahead of another.
        self.buffers = torch.zeros(2, workers, count)
        self.buffers.share_memory_()  # type: ignore[no-untyped-call]
        self.barrier = multiprocessing.get_context("fork").Barrier(workers)

    def average(self, parameters: list[nn.Parameter], rank: int, step: int) -> None:
        if self.workers == 1:
            return
        buffer = self.buffers[step % 2]
        grads = [p.grad for p in parameters if p.grad is not None]
        torch.cat([grad.flatten() for grad in grads], out=buffer[rank])
        self.barrier.wait(timeout=600)
        mean = buffer.mean(0)
        for grad, part in zip(grads, torch.split(mean, [g.numel() for g in grads]), strict=True):
            grad.copy_(part.view_as(grad))


def noise_times(count: int, dice: torch.Generator) -> torch.Tensor:
    """Shares of noise to train on: some where the layout is decided, more for the rest.

    Flat colours are strong and cover many latents, so a layout shows through the noise up to a
    share of 0.97; only above that has the model to read the words.
    """
    layout = torch.rand(count, generator=dice) < LAYOUT_SHARE
    normal = torch.randn(count, generator=dice)
    return torch.sigmoid(torch.where(layout, 2.6 + 1.1 * normal, 0.6 + 1.2 * normal))


def _matrices(painter: Painter) -> list[nn.Parameter]:
    """Those that work on tokens; a modulation's matrix sees one row a picture."""
    blocks = painter.transformer.transformer_blocks.named_parameters()
    return [p for name, p in blocks if p.ndim == 2 and ".linear." not in name]


class Trainer:
    """One training run: its state, and one step of it."""

    def __init__(
        self,
        sets: list[LatentSet],
        run: Path,
        steps: int,
        shared: SharedGradients,
        shared_updates: SharedUpdates,
        rank: int,
        start: Path | None,
        peak_rate: float,
    ) -> None:
        torch.manual_seed(0)
        self.shared, self.rank = shared, rank
        self.sets, self.run, self.steps, self.peak_rate = sets, run, steps, peak_rate
        self.tokenizer = build_tokenizer()
        self.painter = Painter()
        self.painter.load_text(run / "text.pt")
        self.attention = BiasedJointAttention()
        self.painter.transformer.set_attn_processor(self.attention)
        if start is not None:
            self.painter.start_from(start)
        self.average = Average(self.painter, 0.999)
        matrices = _matrices(self.painter)
        self.muon = Muon(matrices, WEIGHT_DECAY, shared_updates, rank)
        taken = {id(matrix) for matrix in matrices}
        text = [*self.painter.text_encoder.parameters(), *self.painter.text_encoder_2.parameters()]
        rest = [p for p in self.painter.transformer.parameters() if id(p) not in taken]
        groups = [
            {"params": [p for p in rest if p.ndim > 1], "weight_decay": WEIGHT_DECAY, "share": 1.0},
            {"params": [p for p in rest if p.ndim <= 1], "weight_decay": 0.0, "share": 1.0},
            {"params": text, "weight_decay": 0.0, "share": TEXT_SHARE},
        ]
        self.optimizer = torch.optim.AdamW(groups, peak_rate, betas=(0.9, 0.99), fused=True)
        self.step = 0
        path = run / "checkpoint.pt"
        if path.exists():
            state = torch.load(path, weights_only=True)
            self.painter.load_state_dict(state["painter"])
            self.average.module.load_state_dict(state["average"])
            self.muon.load_state_dict(state["muon"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]

    def save(self) -> None:
        state = {
            "painter": self.painter.state_dict(),
            "average": self.average.module.state_dict(),
            "muon": self.muon.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
        }
        save_checkpoint(self.run / "checkpoint.pt", state)

    def train_step(self, batch_size: int) -> float:
        """One step; the batch depends on the step's number only, a worker takes its part of it."""
        rng = random.Random(f"batch {self.step}")
        dice = torch.Generator().manual_seed(self.step)
        source = rng.choices(self.sets, SIZE_SHARES)[0]
        picks = [rng.randrange(len(source.scenes)) for _ in range(batch_size)]
        noise = torch.randn(batch_size, *source.codes.shape[1:], generator=dice)
        times = noise_times(batch_size, dice)
        zero_tokens = math.exp(rng.uniform(0, math.log(MOST_ZERO_TOKENS)))
        mine = slice(self.rank, None, self.shared.workers)
        picks, noise, times = picks[mine], noise[mine], times[mine]
        tokens = token_ids(
            [source.scenes[pick] for pick in picks], self.tokenizer, rng, CAPTION_DROPOUT
        )
        clean = source.codes[picks].float()
        share = times[:, None, None, None]
        bias = torch.zeros(1, 1, 1, clean.shape[2] * clean.shape[3] // 16 + MAX_TOKENS + 1)
        bias[..., -1] = math.log(round(zero_tokens))
        self.attention.bias = bias
        velocity = self.painter((1 - share) * clean + share * noise, times, tokens)
        # Only where little noise is left: a weight on things while their place is still open
        # would teach the model to see things everywhere.
        sure = ((0.7 - share) / 0.4).clamp(0, 1)
        weight = 1 + OBJECT_WEIGHT * sure * source.weights[picks].float()[:, None]
        error = (velocity - (noise - clean)).square() * (weight / weight.mean())
        loss = error.mean()
        rate = learning_rate(self.step, self.steps, self.peak_rate, 200, DECAY_SHARE)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        torch.autograd.backward(loss)
        self.shared.average(list(self.painter.parameters()), self.rank, self.step)
        nn.utils.clip_grad_norm_(self.painter.parameters(), 1.0)
        self.muon.step(MUON_SHARE * rate)
        self.optimizer.step()
        self.painter.zero_grad(set_to_none=True)
        if self.rank == 0:
            self.average.update(self.painter, self.step)
        self.step += 1
        return float(loss.detach())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("latents", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--start", type=Path, help="a pipeline whose transformer to start from")
    parser.add_argument("--peak-rate", type=float, default=PEAK_RATE)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--save-every-s", type=float, default=240)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    latent_map = LatentMap.load(arguments.latents)
    sets = load_latents(arguments.data, latent_map, arguments.run / "latents.pickle")
    count = sum(parameter.numel() for parameter in Painter().parameters())
    shared = SharedGradients(arguments.workers, count)
    shared_updates = SharedUpdates(
        arguments.workers, sum(matrix.numel() for matrix in _matrices(Painter()))
    )
    fork = multiprocessing.get_context("fork")
    others = [
        fork.Process(
            target=_work, args=(arguments, sets, shared, shared_updates, rank), daemon=True
        )
        for rank in range(1, arguments.workers)
    ]
    for process in others:
        process.start()
    _work(arguments, sets, shared, shared_updates, 0)
    for process in others:
        process.join()


def _work(
    arguments: argparse.Namespace,
    sets: list[LatentSet],
    shared: SharedGradients,
    shared_updates: SharedUpdates,
    rank: int,
) -> None:
    """One worker's run to the last step; the first worker also writes log and checkpoints."""
    trainer = Trainer(
        sets,
        arguments.run,
        arguments.steps,
        shared,
        shared_updates,
        rank,
        arguments.start,
        arguments.peak_rate,
    )
    first = rank == 0
    if not first:
        os.setsid()  # Linux shares the CPU among sessions: a worker counts as a job of its own.
    if first:
        print(f"from step {trainer.step} to {arguments.steps}", flush=True)
    saved_s = logged_s = time.monotonic()
    total, count = 0.0, 0
    while trainer.step < arguments.steps:
        total, count = total + trainer.train_step(arguments.batch), count + 1
        if first and count == 50:
            now_s = time.monotonic()
            clock = time.strftime("%H:%M:%S")
            pace_s = (now_s - logged_s) / count
            print(f"{clock} {trainer.step} loss {total / count:.4f} {pace_s:.3f} s", flush=True)
            logged_s, total, count = now_s, 0.0, 0
        if first and time.monotonic() - saved_s > arguments.save_every_s:
            trainer.save()
            saved_s = time.monotonic()
    if first:
        trainer.save()


if __name__ == "__main__":
    main()
