"""Rendered postcards on disk: pixels as memory maps, scenes and boxes beside them.

    python -m demo_model.dataset FOLDER        renders everything, on two processes

Each of the three sizes has a folder part of its own: `pixels-W-H.npy` (uint8, n x H x W x 3) and
`scenes-W-H.pickle`, a list of (scene, boxes in pixels). The seed of a postcard is its number.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from demo_model.layout import as_drawn
from demo_model.render import render_with_layout
from demo_model.scene import PICTURE_SIZES_PX, Scene, sample_scene

Box = tuple[float, float, float, float]
COUNTS = {(256, 256): 16000, (320, 192): 8000, (192, 320): 8000}
HELD_OUT_SEED = 10_000_000


@dataclass
class Postcards:
    """All postcards of one size."""

    pixels: NDArray[np.uint8]
    scenes: list[Scene]
    boxes: list[list[Box]]


def _name(size_px: tuple[int, int]) -> str:
    return f"{size_px[0]}-{size_px[1]}"


def load(folder: Path, size_px: tuple[int, int]) -> Postcards:
    pixels = np.load(folder / f"pixels-{_name(size_px)}.npy", mmap_mode="r")
    with (folder / f"scenes-{_name(size_px)}.pickle").open("rb") as file:
        entries = pickle.load(file)
    return Postcards(pixels, [scene for scene, _ in entries], [boxes for _, boxes in entries])


def postcard(
    number: int, size_px: tuple[int, int], *, held_out: bool
) -> tuple[NDArray[np.uint8], Scene, list[Box]]:
    """Postcard `number` of that size: its pixels, scene and the boxes of its things."""
    seed = number + (HELD_OUT_SEED if held_out else 0)
    scene = sample_scene(
        random.Random(f"{seed}/{_name(size_px)}"), held_out=held_out, size_px=size_px
    )
    pixels, layout = render_with_layout(scene, seed)
    return pixels, as_drawn(scene, layout), [thing.box_px for thing in layout.placed]


def _render_range(
    job: tuple[Path, tuple[int, int], int, int],
) -> list[tuple[Scene, list[Box]]]:
    path, size_px, start, stop = job
    target = np.load(path, mmap_mode="r+")
    entries = []
    for number in range(start, stop):
        target[number], scene, boxes = postcard(number, size_px, held_out=False)
        entries.append((scene, boxes))
    target.flush()
    return entries


def build(folder: Path, processes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for size_px in PICTURE_SIZES_PX:
        count = COUNTS[size_px]
        path = folder / f"pixels-{_name(size_px)}.npy"
        shape = (count, size_px[1], size_px[0], 3)
        np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape).flush()
        jobs = [(path, size_px, start, start + 500) for start in range(0, count, 500)]
        with multiprocessing.Pool(processes) as pool:
            parts = pool.map(_render_range, jobs, chunksize=1)
        with (folder / f"scenes-{_name(size_px)}.pickle").open("wb") as file:
            pickle.dump([entry for part in parts for entry in part], file)
        print(f"{count} postcards of {_name(size_px)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    build(arguments.folder, arguments.processes)


if __name__ == "__main__":
    main()
