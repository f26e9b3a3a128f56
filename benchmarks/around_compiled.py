"""What should surround the compiled denoiser: strict eager or fused eager?

Runs the demo model in compiled mode on the software TPU twice, each time in a process of its own
with empty caches: text encoders, scheduler and VAE once in strict eager and once in fused eager.
Prints a table and one line of JSON. Usage: python -m benchmarks.around_compiled [--images 5]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tpu_ui import presets
from tpu_ui.protocol import Generate, ImageMade, Load, Warmed, WarmUp
from tpu_ui.request import validate
from tpu_ui.shapes import Mode


def measure(around: str, images: int, cache: Path) -> dict[str, Any]:
    """Warm the default size and make some images, with `around` around the denoiser."""
    from tpu_ui.runtime.start import diffusion_runtime  # noqa: PLC0415 - imports torch

    runtime = diffusion_runtime("software-tpu", cache)
    from tpu_ui.runtime import modes  # noqa: PLC0415 - after the device is open

    modes.AROUND_COMPILED = Mode(around)
    preset = presets.load_all()["demo"]
    limits = preset.limits(runtime.started().device)
    for _ in runtime.load(Load("load", preset)):
        pass
    *_, warmed = runtime.warm_up(WarmUp("warm", Mode.COMPILED, limits.default_size))
    assert isinstance(warmed, Warmed)
    seconds = []
    for seed in range(images):
        request = validate(limits, prompt="a red house on a meadow", mode="compiled", seed=seed)
        *_, made = runtime.generate(Generate("image", request))
        assert isinstance(made, ImageMade)
        assert made.info.programs_compiled == 0
        seconds.append(made.info.timings_s.total)
    return {
        "programs": warmed.programs_compiled,
        "warm_up_s": warmed.elapsed_s,
        "image_s": statistics.median(seconds),
    }


def measure_in_a_child(around: str, images: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", __spec__.name, "--around", around, "--cache", cache]
        done = subprocess.run(
            [*command, "--images", str(images)], capture_output=True, text=True, check=True
        )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=5)
    parser.add_argument("--around", choices=["eager", "fused"], help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.around:
        print(json.dumps(measure(given.around, given.images, given.cache)))
        return
    eager, fused = (measure_in_a_child(around, given.images) for around in ("eager", "fused"))
    print(
        f"{'around the compiled denoiser':30} {'strict eager':>14} {'fused eager':>14} {'ratio':>8}"
    )
    ratios = {}
    for name in eager:
        ratios[name] = fused[name] / eager[name]
        print(f"{name:30} {eager[name]:14.3f} {fused[name]:14.3f} {ratios[name]:8.2f}")
    print(json.dumps({"benchmark": "around_compiled", "fused_over_eager": ratios}))


if __name__ == "__main__":
    main()
