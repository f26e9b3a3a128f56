"""The latent space, fixed before anything is trained: a linear map of 8 x 8 pixel blocks.

The eight strongest principal components of rendered blocks, each divided by the square root of its
standard deviation (not by all of it: fine detail stays smaller than colour, so the transformer
learns colour first), and all by one number so that the whole has about unit variance.

    python -m demo_model.latents DATA_FOLDER latents.npz      fits the map
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BLOCK_PX = 8
CHANNELS = 8
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class LatentMap:
    """latent = (block - mean) @ basis / scale, with blocks in -1..1 as 192 numbers (y, x, rgb)."""

    mean: Floats
    basis: Floats
    scale: Floats

    def encode(self, pixels: NDArray[np.uint8]) -> Floats:
        """uint8 (n, H, W, 3) -> float32 (n, 8, H / 8, W / 8)."""
        n, height, width, _ = pixels.shape
        blocks = _blocks(pixels)
        flat = (blocks - self.mean) @ (self.basis / self.scale)
        grid = flat.reshape(n, height // BLOCK_PX, width // BLOCK_PX, CHANNELS)
        return np.ascontiguousarray(grid.transpose(0, 3, 1, 2))

    def save(self, path: Path) -> None:
        np.savez(path, mean=self.mean, basis=self.basis, scale=self.scale)

    @staticmethod
    def load(path: Path) -> LatentMap:
        with np.load(path) as arrays:
            return LatentMap(arrays["mean"], arrays["basis"], arrays["scale"])


def _blocks(pixels: NDArray[np.uint8]) -> Floats:
    n, height, width, _ = pixels.shape
    split = pixels.reshape(n, height // BLOCK_PX, BLOCK_PX, width // BLOCK_PX, BLOCK_PX, 3)
    flat = split.transpose(0, 1, 3, 2, 4, 5).reshape(-1, BLOCK_PX * BLOCK_PX * 3)
    return flat.astype(np.float32) / 127.5 - 1


def fit(pixels: NDArray[np.uint8]) -> LatentMap:
    blocks = _blocks(pixels)
    mean = blocks.mean(0)
    values, vectors = np.linalg.eigh(np.cov((blocks - mean).T))
    strongest = np.argsort(values)[::-1][:CHANNELS]
    deviation = np.sqrt(values[strongest])
    scale = np.sqrt(deviation) * np.sqrt(deviation.mean())
    return LatentMap(mean, vectors[:, strongest].astype(np.float32), scale.astype(np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    pixels = np.load(arguments.data / "pixels-256-256.npy", mmap_mode="r")
    latent_map = fit(np.asarray(pixels[:1500]))
    latent_map.save(arguments.path)
    codes = latent_map.encode(np.asarray(pixels[:200]))
    print("deviation", codes.std((0, 2, 3)), "overall", codes.std())


if __name__ == "__main__":
    main()
