"""What a second start costs: the guide's recipe against TPU UI, and kept traces against none.

The demo model in compiled mode on the software TPU, all three sizes made ready twice, by a process
each; the second one is measured. Usage: python -m benchmarks.second_start
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.side import Figures, demo_runtime, measure, report
from benchmarks.zero_after_ready import guide_pipeline
from tpu_ui import presets
from tpu_ui.protocol import WarmUp
from tpu_ui.shapes import Device, Mode


def ours(cache: str) -> Figures:
    runtime, preset = demo_runtime(cache)

    def warm_up() -> None:
        for size in preset.limits(Device.SOFTWARE_TPU).sizes:
            for _ in runtime.warm_up(WarmUp("warm", Mode.COMPILED, size)):
                pass

    return timed(warm_up, runtime.programs_compiled)


def guide(cache: str) -> Figures:
    """The guide's recipe: to("tpu"), compile the transformer, one call a size."""
    from tpu_ui.runtime import device  # noqa: PLC0415 - the children's alone

    opened = device.open_device("software-tpu")
    preset = presets.load_all()["demo"]
    pipeline = guide_pipeline(preset)

    def warm_up() -> None:
        for size in preset.limits(Device.SOFTWARE_TPU).sizes:
            call = {"num_inference_steps": preset.steps.default, "prompt": "warmup"}
            pipeline(height=size.height_px, width=size.width_px, **call)

    return timed(warm_up, opened.programs_compiled)


def timed(warm_up: Callable[[], None], programs_compiled: Callable[[], int]) -> Figures:
    before, began_s = programs_compiled(), time.monotonic()
    warm_up()
    return {"warm_up_s": time.monotonic() - began_s, "programs": programs_compiled() - before}


def second(function: str, forgotten: str | None = None) -> Figures:
    """The second of two starts with one cache, of which a folder may be forgotten in between."""
    with tempfile.TemporaryDirectory() as cache:
        measure(function, cache=Path(cache))
        if forgotten:
            shutil.rmtree(Path(cache) / forgotten)
        return measure(function, cache=Path(cache))


if __name__ == "__main__":
    module = "benchmarks.second_start"
    kept = second(f"{module}:ours")
    report("second start", {"guide's recipe": second(f"{module}:guide"), "TPU UI": kept})
    programs_alone = second(f"{module}:ours", forgotten="traces")
    report("second start", {"programs are kept": programs_alone, "traces too": kept})
