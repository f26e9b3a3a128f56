"""What should surround the compiled denoiser: strict eager or fused eager?

The demo model in compiled mode on the software TPU, with text encoders, scheduler and VAE in strict
eager and in fused eager. Usage: python -m benchmarks.around_compiled
"""

import statistics

from benchmarks.side import Figures, demo_runtime, measure, report
from tpu_ui.protocol import Generate, ImageMade, Warmed, WarmUp
from tpu_ui.request import validate
from tpu_ui.shapes import Mode

IMAGES = 7


def with_around(around: str, cache: str) -> Figures:
    """Warm the default size and make some images, with `around` around the denoiser."""
    runtime, preset = demo_runtime(cache)
    from tpu_ui.runtime import modes  # noqa: PLC0415 - imports torch, after the device is open

    modes.AROUND_COMPILED = Mode(around)
    limits = preset.limits(runtime.started().device)
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
