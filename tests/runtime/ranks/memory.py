"""Run in each rank: load a model and watch what memory that takes.

Arguments: a strategy, and files of two presets: of a small model, for what a first load takes by
itself, and of a large one. Prints bytes; of memory only what is anonymous, where weights are copied
to. A file that is looked at is not: the kernel can take it back.
"""

import gc
import json
import sys
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from tests.runtime.memory import Peak, anonymous_bytes
from tests.runtime.ranks.loading import load, read_preset
from tpu_ui.presets import Preset
from tpu_ui.runtime import parallel
from tpu_ui.runtime.device import open_device
from tpu_ui.shapes import Strategy
from tpu_ui.strategy import Placement

OPENED = open_device("cpu")


def main(strategy: str, small_file: str, large_file: str) -> None:
    ranks = parallel.join(OPENED)
    how = Placement(Strategy(strategy), ranks.mesh.size())
    load(read_preset(small_file), OPENED, how, ranks)
    result = _watched(read_preset(large_file), how, ranks)
    sys.stdout.write(json.dumps(result) + "\n")
    torch.distributed.destroy_process_group()


def _watched(preset: Preset, how: Placement, ranks: parallel.Ranks) -> dict[str, int]:
    gc.collect()
    before_bytes = anonymous_bytes()
    with Peak() as peak:
        pipeline = load(preset, OPENED, how, ranks)
    return {"peak": peak.bytes - before_bytes, **_weights(pipeline, ranks.mesh.size())}


def _weights(pipeline: Any, ranks: int) -> dict[str, int]:
    """Bytes of weights: held here, held here as a share, the same whole, and the largest alone."""
    tensors = [
        *pipeline.transformer.parameters(),
        *pipeline.text_encoder.parameters(),
        *pipeline.vae.parameters(),
    ]
    shared = [one for one in tensors if isinstance(one, DTensor) and one.placements[0].is_shard()]
    return {
        "all": sum(one.nbytes for one in tensors),
        "shared": sum(one.nbytes for one in shared),
        "share": sum(one.to_local().nbytes for one in shared),
        "largest": max(one.nbytes for one in tensors),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
