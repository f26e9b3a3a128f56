"""One side of a comparison: measured in a process of its own, with caches of its own.

`measure("module:function", **arguments)` runs the function in a child and gives what it returned,
which must be JSON. `report` prints both sides as a table and their ratios as one line of JSON.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from tpu_ui import presets
from tpu_ui.presets import Preset
from tpu_ui.protocol import Load
from tpu_ui.runtime.interface import Runtime
from tpu_ui.runtime.start import SHARED_MEMORY, diffusion_runtime

Figures = dict[str, float]


def measure(function: str, *, cache: Path | None = None, **arguments: Any) -> Figures:
    """What `function(cache=..., **arguments)` gives in a fresh process. Its log is thrown away."""
    with tempfile.TemporaryDirectory() as fresh:
        call = {"cache": str(cache or fresh), **arguments}
        command = [sys.executable, "-m", "benchmarks.side", function, json.dumps(call)]
        # A shared-memory cache of its own: one that an earlier process left would be used.
        name = f"benchmark-{secrets.token_hex(4)}"
        environment = {**os.environ, "TORCH_TPU_TIER2_COMPILATION_CACHE": name}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        shutil.rmtree(SHARED_MEMORY / name, ignore_errors=True)
    if done.returncode != 0:
        raise RuntimeError(f"{function} failed:\n{done.stderr[-3000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def demo_runtime(cache: str) -> tuple[Runtime, Preset]:
    """TPU UI's runtime on the software TPU with the demo model loaded. Once in a process."""
    runtime = diffusion_runtime("software-tpu", Path(cache))
    preset = presets.load_all()["demo"]
    for _ in runtime.load(Load("load", preset)):
        pass
    return runtime, preset


def report(name: str, sides: dict[str, Figures]) -> None:
    """Two sides, in order: theirs, ours. Ratios are ours over theirs, where theirs is not 0."""
    (their_name, theirs), (our_name, ours) = sides.items()
    print(f"{name:28} {their_name:>22} {our_name:>22} {'ratio':>8}")
    ratios = {}
    for key, value in theirs.items():
        ratios[key] = round(ours[key] / value, 3) if value else None
        shown = "" if ratios[key] is None else f"{ratios[key]:.2f}"
        print(f"{key:28} {value:22.2f} {ours[key]:22.2f} {shown:>8}")
    print(json.dumps({"benchmark": name, **sides, "ratio": ratios}))


if __name__ == "__main__":
    module, _, function_name = sys.argv[1].partition(":")
    print(json.dumps(getattr(import_module(module), function_name)(**json.loads(sys.argv[2]))))
