"""Sizes compiled side by side against one after another: is there anything to be had?

The demo model in compiled mode on the software TPU, all three sizes. One side is TPU UI: one
process, one size after another. The other is the most that a side-by-side warm-up could reach: a
process for each size, all at once. Usage: python -m benchmarks.side_by_side
"""

from concurrent.futures import ThreadPoolExecutor

from benchmarks.second_start import timed
from benchmarks.side import Figures, demo_runtime, measure, report
from tpu_ui import presets
from tpu_ui.protocol import WarmUp
from tpu_ui.shapes import ImageSize, Mode

FUNCTION = "benchmarks.side_by_side:warm_up"


def warm_up(cache: str, sizes: list[str]) -> Figures:
    runtime, _ = demo_runtime(cache)

    def all_of_them() -> None:
        for size in sizes:
            for _ in runtime.warm_up(WarmUp("warm", Mode.COMPILED, ImageSize.parse(size))):
                pass

    return timed(all_of_them, runtime.programs_compiled)


def at_once(sizes: list[str]) -> Figures:
    """The slowest of as many processes as there are sizes, and the programs of all."""
    with ThreadPoolExecutor(len(sizes)) as pool:
        sides = list(pool.map(lambda size: measure(FUNCTION, sizes=[size]), sizes))
    return {
        "warm_up_s": max(side["warm_up_s"] for side in sides),
        "programs": sum(side["programs"] for side in sides),
    }


if __name__ == "__main__":
    every = list(presets.load_all()["demo"].sizes)
    one_by_one = measure(FUNCTION, sizes=every)
    report("three sizes", {"one after another": one_by_one, "side by side": at_once(every)})
