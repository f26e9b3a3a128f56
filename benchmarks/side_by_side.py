"""The programs of an image compiled side by side against one after another.

The demo model in compiled mode on the software TPU, all three sizes. One side is TPU UI, which
traces the programs of a size in one go and has them compiled meanwhile, and those of the next size
while any are left; the other is the same with that switched off, so that each program is waited for
where it is first needed. A third is the guide's recipe, which warms one state of guidance a size.
Usage: python -m benchmarks.side_by_side
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from benchmarks.second_start import timed
from benchmarks.side import Figures, demo_runtime, measure, report
from tpu_ui import presets
from tpu_ui.protocol import WarmUp
from tpu_ui.shapes import ImageSize, Mode

FUNCTION = "benchmarks.side_by_side:warm_up"
GUIDE = "benchmarks.second_start:guide"


def warm_up(cache: str, *, ahead: bool) -> Figures:
    runtime, preset = demo_runtime(cache)
    if not ahead:
        from tpu_ui.runtime.modes import Modes  # noqa: PLC0415 - imports torch

        Modes.ahead = at_once  # type: ignore[method-assign]

    def all_sizes() -> None:
        sizes = tuple(ImageSize.parse(size) for size in preset.sizes)
        for number, size in enumerate(sizes, start=1):
            command = WarmUp("warm", Mode.COMPILED, size, then=sizes[number:])
            for _ in runtime.warm_up(command):
                pass

    return timed(all_sizes, runtime.programs_compiled)


@contextlib.contextmanager
def at_once(_: Any) -> Iterator[None]:
    """In place of `Modes.ahead`: nothing is put off."""
    yield


if __name__ == "__main__":
    name = f"{len(presets.load_all()['demo'].sizes)} sizes"
    together = measure(FUNCTION, ahead=True)
    report(name, {"one after another": measure(FUNCTION, ahead=False), "side by side": together})
    report(name, {"guide's recipe": measure(GUIDE), "side by side": together})
