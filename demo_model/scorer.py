"""Reads a postcard's sky, ground, mountains and things back from its pixels, with a small CNN.

    python -m demo_model.scorer DATA_FOLDER demo_model/scorer.safetensors     trains it
        [--steps N] [--start WEIGHTS]

It learns from rendered postcards, blurred and disturbed at random, and knows nothing of prompts or
of the model it is used on. A postcard has three places; each holds a kind of thing or nothing.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from demo_model import dataset
from demo_model.scene import (
    COLOURS,
    GROUNDS,
    KINDS,
    PICTURE_SIZES_PX,
    PLACES,
    SIZES,
    SKIES,
    Group,
    Scene,
)
from demo_model.training import learning_rate

WEIGHTS = Path(__file__).parent / "scorer.safetensors"
BATCH = 32
LOOKS = 4  # weighted means of the features, for each place and for the whole picture
NOTHING = len(KINDS)
# Answers in order: name, how many choices. The last four come once a place.
QUESTIONS = (("sky", len(SKIES)), ("ground", len(GROUNDS)), ("mountains", 2))
PLACE_QUESTIONS = (
    ("kind", len(KINDS) + 1),
    ("colour", len(COLOURS)),
    ("size", len(SIZES)),
    ("count", 3),
)
ANSWERS = sum(n for _, n in QUESTIONS) + len(PLACES) * sum(n for _, n in PLACE_QUESTIONS)


class Reader(nn.Module):
    """uint8 pictures (n, H, W, 3) of any of the three sizes -> one row of logits for each."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inward, outward, stride in (
            (3, 16, 2), (16, 32, 2), (32, 48, 1), (48, 64, 2), (64, 64, 1), (64, 80, 1),
        ):  # fmt: skip
            layers += [
                nn.Conv2d(inward, outward, 3, stride, 1, bias=False),
                nn.BatchNorm2d(outward),
                nn.ReLU(),
            ]
        self.body = nn.Sequential(*layers)
        self.look = nn.Conv2d(80, LOOKS * (1 + len(PLACES)), 1)
        self.where = nn.Sequential(
            nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, LOOKS * (1 + len(PLACES)))
        )
        self.whole = nn.Linear(80 * LOOKS, sum(n for _, n in QUESTIONS))
        self.place = nn.Sequential(
            nn.Linear(80 * LOOKS, 128),
            nn.ReLU(),
            nn.Linear(128, sum(n for _, n in PLACE_QUESTIONS)),
        )

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.read_halves(halve(pictures))

    def read_halves(self, halves: torch.Tensor) -> torch.Tensor:
        """Each place looks where its thing may stand, and all places are read by one network."""
        x = self.body(halves / 127.5 - 1)
        height, width = x.shape[2:]
        down = torch.linspace(-1, 1, height)[:, None].expand(height, width)
        across = torch.linspace(-1, 1, width)[None].expand(height, width)
        bias = self.where(torch.stack([across, down], -1).flatten(0, 1)).t()
        share = (self.look(x).flatten(2) + bias).softmax(-1)
        seen = (share @ x.flatten(2).mT).unflatten(1, (1 + len(PLACES), LOOKS)).flatten(2)
        return torch.cat([self.whole(seen[:, 0]), self.place(seen[:, 1:]).flatten(1)], 1)


def halve(pictures: torch.Tensor) -> torch.Tensor:
    """uint8 (n, H, W, 3) -> float (n, 3, H / 2, W / 2), still 0 to 255."""
    return functional.avg_pool2d(pictures.permute(0, 3, 1, 2).float(), 2)


@dataclass(frozen=True)
class Reading:
    """What a picture shows; groups are keyed by their place."""

    sky: str
    ground: str
    mountains: bool
    groups: tuple[Group, ...]


def _split(logits: torch.Tensor) -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
    """Logits of the whole picture's questions, and of each place's."""
    sizes = [n for _, n in QUESTIONS] + [n for _, n in PLACE_QUESTIONS] * len(PLACES)
    parts = list(torch.split(logits, sizes, -1))
    whole, rest = parts[: len(QUESTIONS)], parts[len(QUESTIONS) :]
    step = len(PLACE_QUESTIONS)
    return whole, [rest[i : i + step] for i in range(0, len(rest), step)]


def targets(scenes: list[Scene]) -> tuple[torch.Tensor, torch.Tensor]:
    """Right answers: (n, 3) for the whole picture, (n, 3 places, 4) with -100 where empty."""
    whole = [[SKIES.index(s.sky), GROUNDS.index(s.ground), int(s.mountains)] for s in scenes]
    places = torch.full((len(scenes), len(PLACES), len(PLACE_QUESTIONS)), -100)
    places[..., 0] = NOTHING
    for row, scene in enumerate(scenes):
        for group in scene.groups:
            places[row, PLACES.index(group.place)] = torch.tensor(
                [
                    KINDS.index(group.kind),
                    COLOURS.index(group.colour),
                    SIZES.index(group.size),
                    group.count - 1,
                ]
            )
    return torch.tensor(whole), places


def loss(logits: torch.Tensor, scenes: list[Scene]) -> torch.Tensor:
    whole_targets, place_targets = targets(scenes)
    whole, places = _split(logits)
    total = torch.zeros(())
    for number, part in enumerate(whole):
        total = total + functional.cross_entropy(part, whole_targets[:, number])
    for place, parts in enumerate(places):
        for number, part in enumerate(parts):
            right = place_targets[:, place, number]
            if bool((right >= 0).any()):
                total = total + functional.cross_entropy(part, right)
    return total


@torch.no_grad()
def read(reader: Reader, pictures: NDArray[np.uint8]) -> list[Reading]:
    """Pictures of one size, uint8 (n, H, W, 3)."""
    whole, places = _split(reader(torch.from_numpy(np.array(pictures))))
    best = [part.argmax(-1).tolist() for part in whole]
    best_places = [[part.argmax(-1).tolist() for part in parts] for parts in places]
    readings = []
    for row in range(len(pictures)):
        groups = tuple(
            Group(
                KINDS[parts[0][row]],
                COLOURS[parts[1][row]],
                SIZES[parts[2][row]],
                parts[3][row] + 1,
                PLACES[place],
            )
            for place, parts in enumerate(best_places)
            if parts[0][row] != NOTHING
        )
        readings.append(
            Reading(SKIES[best[0][row]], GROUNDS[best[1][row]], bool(best[2][row]), groups)
        )
    return readings


def load(path: Path = WEIGHTS) -> Reader:
    reader = Reader()
    reader.load_state_dict({name: tensor.float() for name, tensor in load_file(path).items()})
    return reader.eval()


def disturb(x: torch.Tensor, rng: random.Random, dice: torch.Generator) -> torch.Tensor:
    """Blur and noise as a generated picture may have them; halved pictures in and out."""
    if rng.random() < 0.4:
        x = functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
    x = x * rng.uniform(0.94, 1.06) + rng.uniform(-6, 6)
    if rng.random() < 0.6:
        coarse = torch.randn(*x.shape[:2], x.shape[2] // 4, x.shape[3] // 4, generator=dice)
        x = x + functional.interpolate(coarse, scale_factor=4) * rng.uniform(0, 9)
    return x + torch.randn(x.shape, generator=dice) * rng.uniform(0, 4)


def train(folder: Path, steps: int, start: Path | None) -> Reader:
    torch.manual_seed(2)
    reader = load(start).train() if start else Reader()
    optimizer = torch.optim.AdamW(reader.parameters(), 2e-3, weight_decay=0.02, fused=True)
    cards = [dataset.load(folder, size_px) for size_px in PICTURE_SIZES_PX]
    total = 0.0
    for step in range(steps):
        rng, dice = random.Random(f"reader {step}"), torch.Generator().manual_seed(step)
        source = rng.choices(cards, (2, 1, 1))[0]
        picks = sorted(rng.randrange(len(source.scenes)) for _ in range(BATCH))
        pictures = torch.from_numpy(np.stack([source.pixels[pick] for pick in picks]))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, 2e-3, 100, 0.8)
        logits = reader.read_halves(disturb(halve(pictures), rng, dice))
        error = loss(logits, [source.scenes[p] for p in picks])
        torch.autograd.backward(error)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total += error.item()
        if step % 100 == 99:
            print(f"{time.strftime('%H:%M:%S')} {step + 1} loss {total / 100:.3f}", flush=True)
            total = 0.0
    return reader.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("path", type=Path)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--start", type=Path, help="weights to go on from")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    reader = train(arguments.data, arguments.steps, arguments.start)
    stored = {name: value.half() if value.is_floating_point() else value
              for name, value in reader.state_dict().items()}  # fmt: skip
    save_file(stored, arguments.path)


if __name__ == "__main__":
    main()
