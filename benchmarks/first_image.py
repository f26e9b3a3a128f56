"""The first image after the warm-up over the median of the next ten: the guide's recipe and TPU UI.

The demo model in compiled mode on the software TPU, at its default size, with prompts, steps and
guidance as a visitor sets them. Usage: python -m benchmarks.first_image
"""

import statistics
import time
from collections.abc import Callable

from benchmarks.side import Figures, demo_runtime, measure, report
from benchmarks.zero_after_ready import guide_image, guide_pipeline
from tpu_ui import presets
from tpu_ui.protocol import Generate, WarmUp
from tpu_ui.request import GenerationRequest, Limits, validate
from tpu_ui.shapes import Device, Mode

NEXT = 10
STEPS = 20


def requests(limits: Limits) -> list[GenerationRequest]:
    """Another prompt each time; steps as the visitor has set them, not as the warm-up did."""
    return [
        validate(limits, prompt=f"a house and {n} trees", mode="compiled", steps=STEPS, seed=n)
        for n in range(1 + NEXT)
    ]


def ours(cache: str) -> Figures:
    runtime, preset = demo_runtime(cache)
    limits = preset.limits(Device.SOFTWARE_TPU)
    for _ in runtime.warm_up(WarmUp("warm", Mode.COMPILED, limits.default_size)):
        pass

    def image(request: GenerationRequest) -> None:
        for _ in runtime.generate(Generate("image", request)):
            pass

    return {**first_over_next(limits, image), "programs": runtime.programs_compiled()}


def guide(cache: str) -> Figures:
    """The guide's recipe: to("tpu"), compile the transformer, one call, then images."""
    from tpu_ui.runtime import device  # noqa: PLC0415 - the children's alone

    opened = device.open_device("software-tpu")
    preset = presets.load_all()["demo"]
    limits = preset.limits(Device.SOFTWARE_TPU)
    pipeline = guide_pipeline(preset)
    size = limits.default_size
    pipeline(prompt="warmup", height=size.height_px, width=size.width_px)
    figures = first_over_next(
        limits, lambda request: guide_image(pipeline, request, request.seeds[0])
    )
    return {**figures, "programs": opened.programs_compiled()}


def first_over_next(limits: Limits, image: Callable[[GenerationRequest], object]) -> Figures:
    seconds = []
    for request in requests(limits):
        began_s = time.monotonic()
        image(request)
        seconds.append(time.monotonic() - began_s)
    first_s, next_s = seconds[0], statistics.median(seconds[1:])
    return {"first_s": first_s, "next_s": next_s, "first_over_next": first_s / next_s}


if __name__ == "__main__":
    module = "benchmarks.first_image"
    report(
        "first image after the warm-up",
        {"guide's recipe": measure(f"{module}:guide"), "TPU UI": measure(f"{module}:ours")},
    )
