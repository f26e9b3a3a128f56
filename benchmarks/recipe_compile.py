"""What an image takes of the TPU compiler: the guide's recipe for offloading against TPU UI.

The guide compiles the denoiser's repeated blocks and lets the VAE be; the VAE's decoder counts here
as the one program, with torch_tpu's group norms, that fused eager mode makes of it at best. TPU UI
compiles the denoiser whole and the decoder in parts. Text encoders are the same on both sides and
left out, as is what runs eagerly around the guide's blocks.

By shapes alone, for a v6e that need not be here. Each program is compiled by a process of its own,
one after the other; equal programs once.
Usage: python -m benchmarks.recipe_compile [MODEL [SIZE]]
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
from tpu_ui.plans import GIB, Layout, Program
from tpu_ui.shapes import ImageSize

TOPOLOGY = "v6e:1x1"
GUIDE, OURS = "guide's recipe", "TPU UI"


def capture(way: str, layout: str, model: str, size: str, folder: Path) -> None:
    """Write the programs of an image into `folder`. In a process of its own."""

    def prepare() -> None:
        from tpu_ui.runtime import compiled  # noqa: PLC0415 - imports torch

        if way == GUIDE:
            compiled._parts = lambda decoder, _: iter([decoder])
            compiled.norms_by_channels = contiguous_norms

    captured.main(
        folder, presets.load_all()[model], Layout(layout), [ImageSize.parse(size)], prepare
    )


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
    """What the denoiser's and the decoder's programs take, of an image of the fewest steps."""
    preset = presets.load_all()[model]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        layouts = [Layout.BLOCKS, Layout.WHOLE] if way == GUIDE else [Layout.WHOLE]
        for layout in layouts:
            command = [sys.executable, "-m", "benchmarks.recipe_compile", "capture"]
            command += [way, layout, model, size, name]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"capturing failed:\n{done.stderr[-3000:]}")
            programs = captured.read(folder)[0][0].programs
            if any(one.component == preset.components.denoiser for one in programs):
                break  # else it has no blocks that are repeated
        names = {"denoiser": preset.components.denoiser, "decoder": preset.components.vae}
        of_part = {
            part: [one for one in programs if one.component == component]
            for part, component in names.items()
        }
        known: dict[str, Program] = {}
        for one in (one for several in of_part.values() for one in several):
            if one.digest not in known:
                print(f"compiling {one.component} ({one.part})", file=sys.stderr, flush=True)
                file = captured.program_file(folder, one.digest)
                known[one.digest] = compiler.compile_(
                    one, file, TOPOLOGY, folder, lambda: time.sleep(0.1)
                )
    figures: Figures = {
        f"{part}, {name}": value
        for part, several in of_part.items()
        for name, value in _sums(several, known).items()
    }
    seconds = sum(one.compile_s or 0 for one in known.values())
    return {**figures, "both, compile_s": seconds}


def _sums(programs: list[Program], known: dict[str, Program]) -> Figures:
    """Over one component's programs; `peak_gib` is the worst of them."""
    said = {one.digest: known[one.digest] for one in programs}.values()
    runs = [(known[one.digest], one.runs) for one in programs]
    return {
        "programs": len(said),
        "compile_s": sum(one.compile_s or 0 for one in said),
        "peak_gib": max(one.peak_bytes for one in said) / GIB,
        "code_mib": sum(one.code_bytes for one in said) / 2**20,
        "tflop": sum(one.flop * count for one, count in runs) / 1e12,
        "accessed_gb": sum(one.accessed_bytes * count for one, count in runs) / 1e9,
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["capture", chosen, layout, name, pixels, place]:
            capture(chosen, layout, name, pixels, Path(place))
        case given:
            name, pixels = [*given, *("flux1-schnell", "512x512")[len(given) :]]
            sides = {way: measured(way, name, pixels) for way in (GUIDE, OURS)}
            report(f"{name} at {pixels}", sides)
