"""The demo model's preview map, fitted by least squares to what its own VAE decodes.

    python -m demo_model.previews presets/demo presets/previews/demo.toml

Each latent pixel is a block of 8 x 8 pixels; the map gives the block's mean colour.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from numpy.typing import NDArray

from demo_model import dataset
from demo_model.latents import BLOCK_PX
from demo_model.scene import PICTURE_SIZES_PX

POSTCARDS = 60
HEAD = """\
# The demo model's VAE, fitted by demo_model/previews.py.
# One row a latent channel: what it adds to red, green and blue, which go from -1 to 1.
"""
Floats = NDArray[np.float32]


def latents_and_colours(vae: AutoencoderKL, pixels: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """Of every block of one picture: its latent channels, and its mean colour when decoded."""
    picture = torch.from_numpy(pixels).permute(2, 0, 1).float()[None] / 127.5 - 1
    with torch.no_grad():
        latents = vae.encode(picture).latent_dist.mode()
        decoded = vae.decode(latents).sample.clamp(-1, 1)
    colours = torch.nn.functional.avg_pool2d(decoded, BLOCK_PX)
    return _rows(latents), _rows(colours)


def fit(latents: Floats, colours: Floats) -> tuple[Floats, Floats]:
    """(channels x 3, 3): what each channel adds, and what they are added to."""
    ones = np.ones((len(latents), 1), np.float32)
    solved, *_ = np.linalg.lstsq(np.hstack([latents, ones]), colours, rcond=None)
    return solved[:-1], solved[-1]


def _rows(values: torch.Tensor) -> Floats:
    rows: Floats = values[0].flatten(1).T.numpy()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    vae = AutoencoderKL.from_pretrained(arguments.model, subfolder="vae")
    pairs = []
    for number in range(POSTCARDS):
        size_px = PICTURE_SIZES_PX[number % len(PICTURE_SIZES_PX)]
        pixels, _, _ = dataset.postcard(number, size_px, held_out=True)
        pairs.append(latents_and_colours(vae, pixels))
    latents, colours = (np.concatenate(side) for side in zip(*pairs, strict=True))
    rgb, bias = fit(latents, colours)
    error = latents @ rgb + bias - colours
    print(f"R2 {1 - error.var() / colours.var():.4f}")
    rows = "".join(f"    [{', '.join(f'{v:7.4f}' for v in row)}],\n" for row in rgb)
    offsets = ", ".join(f"{value:.4f}" for value in bias)
    arguments.path.write_text(f"{HEAD}rgb = [\n{rows}]\nbias = [{offsets}]\n")


if __name__ == "__main__":
    main()
