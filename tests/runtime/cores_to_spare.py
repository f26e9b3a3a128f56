"""Warms two sizes of a twin up on the software TPU, as on a machine with cores to spare.

torch_tpu compiles on all cores but one, so that with two cores nothing is left to be compiled when
a size has been traced. Here each program counts as being compiled until somebody waits for it.
Run by a test: `python -m tests.runtime.cores_to_spare FOLDER`. Prints one line of JSON.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tpu_ui.protocol import Generate, ImageMade, Load, Warmed, Warming, WarmUp
from tpu_ui.request import validate
from tpu_ui.runtime.interface import Runtime
from tpu_ui.runtime.start import diffusion_runtime
from tpu_ui.shapes import Device, ImageSize, Mode


def warmed(runtime: Runtime, size: ImageSize, *then: ImageSize) -> tuple[int, list[str]]:
    """How many programs the warm-up says it compiled, and the stages it went through."""
    *events, end = runtime.warm_up(WarmUp("w", Mode.COMPILED, size, then=then))
    assert isinstance(end, Warmed)
    return end.programs_compiled, [one.stage for one in events if isinstance(one, Warming)]


def picture(runtime: Runtime, model: Any, size: ImageSize) -> tuple[int, str]:
    """The programs that it says it compiled, and what it looks like."""
    limits = model.limits(Device.SOFTWARE_TPU)
    request = validate(limits, prompt="a hill", mode="compiled", size=str(size), seed=3)
    events = runtime.generate(Generate("g", request))
    (made,) = (one for one in events if isinstance(one, ImageMade))
    return made.info.programs_compiled, hashlib.sha256(made.rgb).hexdigest()


def main(folder: Path) -> dict[str, Any]:
    runtime: Any = diffusion_runtime("software-tpu", folder / "cache")
    from tests.runtime import twins
    from tpu_ui.runtime.background import Background

    Background.compiling = lambda self: self._submitted is not None  # type: ignore[method-assign]
    twin = twins.sd3(folder)
    list(runtime.load(Load("load", twin)))
    square, wide = twin.image_sizes[:2]
    loaded = runtime.programs_compiled()
    first, stages = warmed(runtime, square, wide)
    others = runtime.programs_compiled() - loaded - first
    pictures = [picture(runtime, twin, square)]
    second, later_stages = warmed(runtime, wide)
    compiled = runtime.programs_compiled() - loaded
    pictures.append(picture(runtime, twin, wide))
    list(runtime.load(Load("again", twin)))
    for size in (square, wide):
        warmed(runtime, size)
        pictures.append(picture(runtime, twin, size))
    return {
        "stages": stages,
        "later_stages": later_stages,
        "beside": others,
        "strays": [count for count, _ in pictures],
        "counted": first + second,
        "compiled": compiled,
        "pictures": [look for _, look in pictures],
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
