"""Put the trained parts together as a diffusers pipeline, in the precision they ship in.

    python -m demo_model.export RUN_FOLDER presets/demo [--dtype float16|bfloat16|float32]

A part that has no checkpoint yet goes out untrained, so that a pipeline of the final shape exists
from the first minute on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from diffusers import StableDiffusion3Pipeline

from demo_model.model import build_autoencoder, build_pipeline, save_pipeline
from demo_model.train import Painter

SHIFT = 6.0
MOST_BYTES = 16_000_000


def assemble(run: Path) -> StableDiffusion3Pipeline:
    """The pipeline in float32, from the averaged weights of the latest checkpoints."""
    painter, vae = Painter(), build_autoencoder()
    checkpoint = run / "checkpoint.pt"
    if checkpoint.exists():
        painter.load_state_dict(torch.load(checkpoint, weights_only=True)["average"])
    for name in ("encoder", "decoder"):
        path = run / f"{name}.pt"
        if path.exists():
            getattr(vae, name).load_state_dict(torch.load(path, weights_only=True)["average"])
    encoders = (painter.text_encoder, painter.text_encoder_2)
    return build_pipeline(painter.transformer, encoders, vae, SHIFT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", default="float16", choices=("float16", "bfloat16", "float32"))
    arguments = parser.parse_args()
    torch.manual_seed(0)  # the parts that go out untrained are the same each time
    save_pipeline(assemble(arguments.run), arguments.folder, getattr(torch, arguments.dtype))
    size = sum(path.stat().st_size for path in arguments.folder.rglob("*") if path.is_file())
    print(f"{size} bytes in {arguments.folder}")
    if size >= MOST_BYTES and arguments.dtype != "float32":
        raise SystemExit(f"more than {MOST_BYTES} bytes")


if __name__ == "__main__":
    main()
