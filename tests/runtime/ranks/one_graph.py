"""Run in each rank: a denoiser that is shared out, as it is and compiled whole.

Arguments: a preset's file, a folder for traces. Prints how far the outputs are apart, and what was
traced. The backend, "aot_eager", runs the graph's operations one by one, with nothing fused.
"""

import json
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

from tests.runtime.ranks.loading import load, read_preset
from tpu_ui.runtime import parallel
from tpu_ui.runtime.compiled import CompiledPart
from tpu_ui.runtime.device import open_device
from tpu_ui.runtime.placement import text_encoders
from tpu_ui.shapes import Strategy
from tpu_ui.strategy import Placement

# Each look at the counter finds one program more, so that traces are kept.
OPENED = replace(open_device("cpu"), compiler="aot_eager", programs_compiled=count().__next__)


def main(preset_file: str, folder: str) -> None:
    ranks = parallel.join(OPENED)
    preset = read_preset(preset_file)
    how = Placement(Strategy.SHARDED, ranks.mesh.size())
    pipeline = load(preset, OPENED, how, ranks)
    text_encoders(preset, pipeline, OPENED.torch_device, how)
    denoiser = pipeline.transformer
    inputs = _inputs(pipeline, denoiser, preset.call)
    part = CompiledPart([denoiser], OPENED, "a test", Path(folder) / f"rank-{ranks.rank}")
    with torch.no_grad():
        plain = denoiser(**inputs)[0]
        with part.active():
            outputs = [denoiser(**inputs)[0] for _ in range(2)]
    result = {
        "spread": float(plain.std()),
        "apart": max(float((output - plain).abs().max()) for output in outputs),
        "runs": part.runs,
        "graphs_traced": counters["stats"]["unique_graphs"],
    }
    sys.stdout.write(json.dumps(result) + "\n")
    torch.distributed.destroy_process_group()


def _inputs(pipeline: Any, denoiser: torch.nn.Module, call: dict[str, Any]) -> dict[str, Any]:
    """What the pipeline calls its denoiser with."""
    seen: list[dict[str, Any]] = []
    hook = denoiser.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(kwargs), with_kwargs=True
    )
    pipeline(
        prompt="a hill",
        height=32,
        width=32,
        num_inference_steps=1,
        generator=torch.Generator().manual_seed(0),
        output_type="latent",
        **call,
    )
    hook.remove()
    return seen[0]


if __name__ == "__main__":
    main(*sys.argv[1:])
