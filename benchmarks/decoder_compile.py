"""What a VAE's decoder takes of the TPU compiler: whole, with torch_tpu's group norms, as in the
guide's recipe, against TPU UI's parts.

By shapes alone, for a v6e that need not be here. Each program is compiled by a process of its own,
one after the other; equal programs once.
Usage: python -m benchmarks.decoder_compile [MODEL [SIZE]]
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.side import Figures, report
from tpu_ui import presets
from tpu_ui.plan import captured, compiler
from tpu_ui.plans import GIB, Layout
from tpu_ui.shapes import ImageSize

TOPOLOGY = "v6e:1x1"
GUIDE, OURS = "whole", "parts"


def capture(way: str, model: str, size: str, folder: Path) -> None:
    """Write the programs of an image into `folder`. In a process of its own."""

    def prepare() -> None:
        from tpu_ui.runtime import compiled  # noqa: PLC0415 - imports torch

        if way == GUIDE:
            compiled._parts = lambda decoder, _: iter([decoder])
            compiled.norms_by_channels = contiguous_norms

    preset = presets.load_all()[model]
    captured.main(folder, preset, Layout.WHOLE, [ImageSize.parse(size)], prepare)


@contextlib.contextmanager
def contiguous_norms(module: Any) -> Iterator[None]:
    """A context with the least that torch_tpu's own group norms need to be compiled."""
    norms = [one for one in module.modules() if type(one).__name__ == "GroupNorm"]
    hooks = [
        norm.register_forward_pre_hook(lambda _, args: (args[0].contiguous(),)) for norm in norms
    ]
    yield
    for hook in hooks:
        hook.remove()


def measured(way: str, model: str, size: str) -> Figures:
    """Sums over the decoder's programs, of an image; `peak_gib` is the worst of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "benchmarks.decoder_compile", "capture"]
        done = subprocess.run([*command, way, model, size, name], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"capturing failed:\n{done.stderr[-3000:]}")
        decoder = [one for one in captured.read(folder)[0][0].programs if one.component == "vae"]
        known = {}
        for one in decoder:
            if one.digest not in known:
                file = captured.program_file(folder, one.digest)
                known[one.digest] = compiler.compile_(
                    one, file, TOPOLOGY, folder, lambda: time.sleep(0.1)
                )
    said = known.values()
    runs = [(known[one.digest], one.runs) for one in decoder]
    return {
        "programs": len(known),
        "compile_s": sum(one.compile_s or 0 for one in said),
        "peak_gib": max(one.peak_bytes for one in said) / GIB,
        "code_mib": sum(one.code_bytes for one in said) / 2**20,
        "tflop": sum(one.flop * count for one, count in runs) / 1e12,
        "accessed_gb": sum(one.accessed_bytes * count for one, count in runs) / 1e9,
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["capture", chosen, name, pixels, place]:
            capture(chosen, name, pixels, Path(place))
        case given:
            name, pixels = [*given, *("flux1-schnell", "512x512")[len(given) :]]
            sides = {way: measured(way, name, pixels) for way in (GUIDE, OURS)}
            report(f"decoder of {name} at {pixels}", sides)
