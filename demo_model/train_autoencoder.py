"""Train the autoencoder: a decoder from the fixed latents to pixels, an encoder to the latents.

    python -m demo_model.train_autoencoder DATA_FOLDER latents.npz RUN_FOLDER [--threads N]

Both learn from small windows first, mostly where things stand, and from whole postcards at the
end, because normalisation sees the whole picture. They never train on each other's output: the
latents are the linear map's, so this runs beside the transformer's training.
Goes on from RUN_FOLDER/autoencoder.pt if there is one.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from demo_model import dataset
from demo_model.dataset import Box, Postcards
from demo_model.latents import BLOCK_PX, CHANNELS, LatentMap
from demo_model.model import build_autoencoder
from demo_model.scene import PICTURE_SIZES_PX
from demo_model.training import Average, learning_rate, save_checkpoint

WINDOW_PX = 96
WINDOWS = 5
PEAK_RATE = 2e-3
LATENT_NOISE = 0.06
THING_SHARE = 0.8  # of the windows are on things


class Windows:
    """Random pieces of training postcards, as pixels in -1..1 with the latents of each."""

    def __init__(self, folder: Path, latent_map: LatentMap) -> None:
        self.cards = [dataset.load(folder, size_px) for size_px in PICTURE_SIZES_PX]
        self.latent_map = latent_map

    def small(self, rng: random.Random) -> tuple[torch.Tensor, torch.Tensor]:
        return self._tensors(np.stack([self._window(rng) for _ in range(WINDOWS)]))

    def whole(self, rng: random.Random) -> tuple[torch.Tensor, torch.Tensor]:
        cards = rng.choice(self.cards)
        return self._tensors(np.asarray(cards.pixels[rng.randrange(len(cards.scenes))])[None])

    def _window(self, rng: random.Random) -> NDArray[np.uint8]:
        cards = rng.choice(self.cards)
        number = rng.randrange(len(cards.scenes))
        x, y = self._corner(cards, cards.boxes[number], rng)
        return np.asarray(cards.pixels[number, y : y + WINDOW_PX, x : x + WINDOW_PX])

    @staticmethod
    def _corner(cards: Postcards, boxes: list[Box], rng: random.Random) -> tuple[int, int]:
        """A window's top left corner, on the grid of latents."""
        height, width = cards.pixels.shape[1:3]
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        if boxes and rng.random() < THING_SHARE:
            left, top, right, bottom = rng.choice(boxes)
            x, y = rng.uniform(left, right), rng.uniform(top, bottom)
        x = min(max(x - WINDOW_PX / 2, 0), width - WINDOW_PX)
        y = min(max(y - WINDOW_PX / 2, 0), height - WINDOW_PX)
        return int(x) // BLOCK_PX * BLOCK_PX, int(y) // BLOCK_PX * BLOCK_PX

    def _tensors(self, pixels: NDArray[np.uint8]) -> tuple[torch.Tensor, torch.Tensor]:
        latents = torch.from_numpy(self.latent_map.encode(pixels))
        picture = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
        return picture, latents


def picture_loss(made: torch.Tensor, picture: torch.Tensor) -> torch.Tensor:
    """L1 and L2 of pixels, and L1 of their differences to the right and down: crisp edges."""
    error = made - picture
    across = error[..., 1:] - error[..., :-1]
    down = error[..., 1:, :] - error[..., :-1, :]
    return (
        error.abs().mean()
        + 3 * error.square().mean()
        + 0.6 * (across.abs().mean() + down.abs().mean())
    )


class HalfTrainer:
    """Trains the decoder or the encoder; the two halves share nothing but this code."""

    def __init__(self, half: str, windows: Windows, run: Path, steps: int, whole: int) -> None:
        torch.manual_seed(1)
        self.half, self.windows, self.path = half, windows, run / f"{half}.pt"
        self.steps, self.whole_from = steps, steps - whole
        self.module: nn.Module = getattr(build_autoencoder(), half)
        self.average = Average(self.module, 0.998)
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(), PEAK_RATE, betas=(0.9, 0.99), weight_decay=0.0, fused=True
        )
        self.step = 0
        if self.path.exists():
            state = torch.load(self.path, weights_only=True)
            self.module.load_state_dict(state["module"])
            self.average.module.load_state_dict(state["average"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]

    def save(self) -> None:
        state = {
            "module": self.module.state_dict(),
            "average": self.average.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
        }
        save_checkpoint(self.path, state)

    def train_step(self) -> float:
        rng = random.Random(f"{self.half} {self.step}")
        torch.manual_seed(self.step)
        whole = self.step >= self.whole_from
        picture, latents = self.windows.whole(rng) if whole else self.windows.small(rng)
        if self.half == "decoder":
            noise = LATENT_NOISE * rng.random() * torch.randn_like(latents)
            loss = picture_loss(self.module(latents + noise), picture)
        else:
            error = self.module(picture)[:, :CHANNELS] - latents
            loss = error.square().mean() + error.abs().mean() * 0.1
        rate = learning_rate(self.step, self.steps, PEAK_RATE, 100, 0.6)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.average.update(self.module, self.step)
        self.step += 1
        return float(loss.detach())

    def train(self, save_every_s: float, held_out: int) -> None:
        saved_s = logged_s = time.monotonic()
        total, count = 0.0, 0
        while self.step < self.steps:
            total, count = total + self.train_step(), count + 1
            if count == 200:
                now_s = time.monotonic()
                print(
                    f"{time.strftime('%H:%M:%S')} {self.half} {self.step}"
                    f" loss {total / count:.4f} {(now_s - logged_s) / count:.3f} s",
                    flush=True,
                )
                logged_s, total, count = now_s, 0.0, 0
            if time.monotonic() - saved_s > save_every_s:
                self.save()
                self.report(held_out)
                saved_s = logged_s = time.monotonic()
                total, count = 0.0, 0
        self.save()
        self.report(held_out)

    @torch.no_grad()
    def report(self, count: int) -> None:
        """PSNR of held-out postcards; for the encoder, through the linear map's inverse."""
        scores = []
        latent_map = self.windows.latent_map
        for number in range(count):
            size_px = PICTURE_SIZES_PX[number % 3]
            pixels, _, _ = dataset.postcard(number, size_px, held_out=True)
            picture = torch.from_numpy(pixels).permute(2, 0, 1).float()[None] / 127.5 - 1
            latents = torch.from_numpy(latent_map.encode(pixels[None]))
            if self.half == "decoder":
                error = self.average.module(latents).clamp(-1, 1) - picture
                scores.append(10 * float(torch.log10(4 / error.square().mean())))
            else:
                error = self.average.module(picture)[:, :CHANNELS] - latents
                scores.append(float(error.square().mean().sqrt()))
        name = "PSNR dB" if self.half == "decoder" else "RMS error of latents"
        print(f"{self.half} {self.step} {name} {np.mean(scores):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("latents", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--decoder-steps", type=int, default=6000)
    parser.add_argument("--encoder-steps", type=int, default=2500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-every-s", type=float, default=180)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    windows = Windows(arguments.data, LatentMap.load(arguments.latents))
    for half, steps in (("decoder", arguments.decoder_steps), ("encoder", arguments.encoder_steps)):
        trainer = HalfTrainer(half, windows, arguments.run, steps, whole=steps // 6)
        trainer.train(arguments.save_every_s, held_out=24)


if __name__ == "__main__":
    main()
