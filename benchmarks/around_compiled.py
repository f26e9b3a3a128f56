"""What should surround the compiled denoiser: strict eager or fused eager?

The demo model in compiled mode on the software TPU, with text encoders, scheduler and VAE in strict
eager and in fused eager. Usage: python -m benchmarks.around_compiled
"""

import statistics
from pathlib import Path

from benchmarks.side import Figures, measure, report
from tpu_ui import presets
from tpu_ui.protocol import Generate, ImageMade, Load, Warmed, WarmUp
from tpu_ui.request import validate
from tpu_ui.shapes import Mode

IMAGES = 7


def with_around(around: str, cache: str) -> Figures:
    """Warm the default size and make some images, with `around` around the denoiser."""
    from tpu_ui.runtime.start import diffusion_runtime  # noqa: PLC0415 - the children's alone

    runtime = diffusion_runtime("software-tpu", Path(cache))
    from tpu_ui.runtime import modes  # noqa: PLC0415 - imports torch, after the device is open

    modes.AROUND_COMPILED = Mode(around)
    preset = presets.load_all()["demo"]
    limits = preset.limits(runtime.started().device)
    for _ in runtime.load(Load("load", preset)):
        pass
    *_, warmed = runtime.warm_up(WarmUp("warm", Mode.COMPILED, limits.default_size))
    assert isinstance(warmed, Warmed)
    seconds = []
    for seed in range(IMAGES):
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


if __name__ == "__main__":
    function = "benchmarks.around_compiled:with_around"
    report(
        "around the compiled denoiser",
        {
            "strict eager": measure(function, around="eager"),
            "fused eager": measure(function, around="fused"),
        },
    )
